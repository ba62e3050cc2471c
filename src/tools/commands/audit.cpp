// `trine audit`: what of a project depends on CUDA. Projects are Python and text, so the work is Python's
// (python/trine/decide/audit/command.py); this is its option table.
#include "tools/cli.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    {"--diff", "", "", "show the patches of all that is mechanical"},
    {"--fix", "", "", "write them; a patched Python file compiles, or it is left as it was"},
    {"--all", "", "", "every line, with what stands in for it, and every file that was not read"},
    {"--model", "", "MODULE:FACTORY",
     "dry run: the model that this function gives is exported and timed (runs its code)"},
    {"--inputs", "", "1x128:int64,…",
     "dry run: the model's inputs, sizes joined by x, with :dtype where it is not float32; NAME= gives one by name"},
    {"--train", "", "", "dry run: a training step, with gradients"},
    kInstance,
    {"--sarif", "", "FILE", "write the findings for editors and code hosts", file(".sarif .json")},
    {"--html", "", "FILE", "write all of it as one page", file(".html")},
    kJson,
};

}  // namespace

extern const Command command_audit{
    .name = "audit",
    .summary = "what of a project depends on CUDA, what stands in for it, and the hours to port it",
    .words = "PATH",
    .words_min = 1,
    .words_max = 1,
    .word = file(),
    .details =
        "Reads a project's folder or one file (requirements.txt) without running it. Hours are ranges, with their "
        "reasons "
        "in --html and --json. docs/audit.md has all rules.",
    .examples =
        "trine audit my_project\n"
        "trine audit my_project --diff\n"
        "trine audit my_project --model models.net:build --inputs 8x128:int64 --instance trn1.32xlarge\n"
        "trine audit requirements.txt --json",
    .options = kOptions,
    .python = "trine.decide.audit.command",
};

}  // namespace trine::tools
