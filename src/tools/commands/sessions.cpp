// `trine sessions`: what `trine serve` keeps of conversations (python/trine/serve/sessions_command.py).
#include "tools/cli.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    {"--state", "", "FOLDER", "of the server (~/.local/state/trine/serve)"},
    {"--at", "", "TURN", "fork: before this one (after the last)", whole(0)},
    {"--output", "-o", "FILE", "export: where to (ID.tar)", file(".tar")},
    kJson,
};

}  // namespace

extern const Command command_sessions{
    .name = "sessions",
    .summary = "sessions that a server keeps: ls, show, fork, export, rm",
    .words = "[ls|show ID|fork ID|export ID|rm ID...]",
    .words_max = 4096,
    .details = "Reads and writes the server's state; the server may run meanwhile.",
    .examples =
        "trine sessions ls\n"
        "trine sessions show sess_4f1c\n"
        "trine sessions fork sess_4f1c --at 3\n"
        "trine sessions export sess_4f1c -o agent.tar",
    .options = kOptions,
    .python = "trine.serve.sessions_command",
};

}  // namespace trine::tools
