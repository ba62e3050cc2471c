// `trine migrate`: from a CUDA project to a decision (python/trine/decide/migrate/).
#include "tools/cli.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    {"--output", "-o", "DIR", "where state, ported copy and reports go (PROJECT.migration beside the file)", file()},
    {"--again", "", "STEP,…", "do these steps anew: pick, port, baseline, validate, benchmark, evaluate"},
    {"--prices", "", "FILE", "your own prices, in place of the rows of the same machine and way", file(".json")},
    kJson,
};

}  // namespace

extern const Command command_migrate{
    .name = "migrate",
    .summary = "audit, port, validate, benchmark and price a CUDA project, and write the report",
    .words = "PROJECT.toml",
    .words_min = 1,
    .words_max = 1,
    .word = file(".toml"),
    .details =
        "Six steps, each kept when it is done: killed at any moment it goes on where it was. The project itself is "
        "never written;\n"
        "its ported copy lies in the folder of the reports. docs/migrate.md has the file's tables.",
    .examples =
        "trine migrate examples/migrate/infer.toml\n"
        "trine migrate train.toml -o out --again evaluate --prices ours.json",
    .options = kOptions,
    .python = "trine.decide.migrate.command",
};

}  // namespace trine::tools
