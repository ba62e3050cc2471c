// `trine accuracy`: predictions beside published measurements. Whole models are JAX functions, so the work is Python's
// (python/trine/accuracy/command.py); this is its option table.
#include "tools/cli.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    {"--rows", "", "FILE", "score another file of measurements; its rows are not shown, only classes", file(".json")},
    {"--class", "", "NAME", "score one class of programs only, such as decode"},
    {"--kernels", "", "DIR", "sources of the kernels (examples/nki of this folder); without them theirs are left out",
     folder()},
    {"--each", "", "", "a line for each measurement of Trine's own file"},
    {"--markdown", "", "", "print docs/accuracy.md"},
    {"--update", "", "", "fit the calibration and the bands again and write them (in Trine's own source folder)"},
    kJson,
};

}  // namespace

extern const Command command_accuracy{
    .name = "accuracy",
    .summary = "predictions beside published measurements: errors, bands and baselines by class",
    .details =
        "Errors are of measurements left out with all of their model family, kernel or instance; a band is where nine "
        "in ten of them lay.",
    .examples =
        "trine accuracy --class decode\n"
        "trine accuracy --rows mine.json --json",
    .options = kOptions,
    .python = "trine.accuracy.command",
};

}  // namespace trine::tools
