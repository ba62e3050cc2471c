// `trine nki`: a kernel's time from its shapes. Kernels are Python, so the work is done there
// (python/trine/nki/command.py); this is its option table.
#include "tools/cli.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    {"--shapes", "", "A=128x512,…",
     "the arrays: sizes joined by x, with :dtype where it differs; names may be left out"},
    {"--dtype", "", "NAME", "of the arrays", Values().otherwise("float32")},
    {"--arg", "", "NAME=VALUE", "any other argument, as Python writes it", Values().repeated()},
    {"--grid", "", "N,M", "launch grid: kernel[N, M](…)"},
    kInstance,
    {"--all", "", "", "every piece of advice, not only the first three"},
    {"--sweep", "", "", "a table over all instances"},
    {"--compare", "", "", "two kernels, before and after: numbers and lines side by side; with --values results too"},
    {"--tune", "", "NAME=V,V,…",
     "time every combination of these parameters, the quickest first; NAME alone: around its default",
     Values().repeated()},
    {"--values", "", "", "run it on random inputs too, which finds what only shows when it runs"},
    {"--seed", "", "N", "of the random inputs", whole().otherwise("0")},
    {"--trace", "", "FILE", "write every instruction's time as .json or .json.gz, which Perfetto opens",
     file(".json .json.gz")},
    {"--picture", "", "FILE", "draw how busy each engine is, as .svg or .png", file(".svg .png")},
    kJson,
};

}  // namespace

extern const Command command_nki{
    .name = "nki",
    .summary = "an NKI kernel's time on an instance, and what bounds it, from shapes alone",
    .words = "FILE.py::KERNEL [FILE.py::KERNEL]",
    .words_min = 1,
    .words_max = 2,
    .word = file(".py"),
    .details = "The kernel's name may be left out where the file has one. docs/nki.md lists what of NKI there is.",
    .examples =
        "trine nki matmul.py::kernel --shapes lhsT=2048x1024,rhs=2048x2048 --dtype bfloat16 --instance trn2.3xlarge\n"
        "trine nki softmax.py --shapes x=4096x512 --arg axis=-1 --sweep\n"
        "trine nki softmax.py --shapes x=4096x512 --tune tile=128,256,512 --tune buffers\n"
        "trine nki --compare old.py::kernel new.py::kernel --shapes x=4096x512 --values",
    .options = kOptions,
    .python = "trine.nki.command",
};

}  // namespace trine::tools
