// `trine profile`: captures what a command runs on virtual devices, and shows it (python/trine/profile/cli.py). Also
// installed as neuron-profile, and neuron-explorer through it: the options are those of both.
#include "tools/cli.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    {"--output", "-o", "FILE", "capture: the profile to write (profile.ntff)", file(".ntff")},
    kInstance,
    {"--auto-cast", "", "KIND", "capture: cast to bf16 on the chip", one_of("none matmult all").otherwise("none")},
    {"--events", "", "N", "capture: instructions kept of each program (4194304)", whole(1, int64_t{1} << 31)},
    {"--neff", "-n", "FILE", "capture: a compiled program instead of a command", file(".trn .tprog .tasm .neff")},
    {"--session-file", "-s", "FILE", "capture: as --output; view: the profile", file(".ntff")},
    {"--num-exec", "", "N", "capture -n: how often it runs", whole(1, 1000000).otherwise("1")},
    {"--profile-nth-exec", "", "N", "accepted: every run takes the same", whole()},
    {"--enable-dge-notifs", "", "", "accepted: every DMA is named"},
    {"--output-dir", "", "DIR", "inspect: the folder to write into (output)", folder()},
    {"--session-dir", "-d", "DIR", "view: the newest profile of a folder", folder()},
    {"--output-format", "", "FORMAT", "view: without it a page opens",
     one_of("summary-text summary-json json parquet perfetto db xspace kineto")},
    {"--output-file", "", "FILE", "view: where the output goes", file()},
    {"--port", "", "N", "view: of the page, on 127.0.0.1 (one that is free)", whole(0, 65535)},
    {"--before", "", "FILE", "view: another profile that the page compares this one with", file(".ntff")},
    {"--html", "", "FILE", "view: write the page as one file that holds everything", file(".html")},
    kJson,
};

}  // namespace

extern const Command command_profile{
    .name = "profile",
    .summary = "what a command ran on virtual NeuronCores: every instruction's time, as a page, text or tables",
    .alias = "neuron-profile",
    .words = "capture|inspect|view|compare [FILE...] [-- COMMAND...]",
    .words_min = 1,
    .words_max = 4096,
    .details =
        "capture runs a command unchanged and writes one profile of all its processes. view shows a profile, compare\n"
        "says what got slower. docs/profile.md has the tables and the file's format.",
    .examples =
        "trine profile capture -o profile.ntff -- python train.py --steps 12\n"
        "trine profile view profile.ntff\n"
        "trine profile view profile.ntff --output-format summary-text\n"
        "trine profile view after.ntff --before before.ntff --html profile.html\n"
        "trine profile capture -n model.trn -s profile.ntff --instance trn2.3xlarge\n"
        "trine profile compare before.ntff after.ntff",
    .options = kOptions,
    .python = "trine.profile.cli",
};

}  // namespace trine::tools
