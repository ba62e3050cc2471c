// `trine parallel-compile`, which python/compat also installs as neuron_parallel_compile: a torch script's programs
// compiled ahead of its run. The work is Python's (python/trine/torch/old/parallel_compile.py); this is its option
// table.
#include "tools/cli.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    {"--command", "", "WHAT", "collect only runs the script, compile only compiles what --folder holds",
     one_of("collect compile both").otherwise("both")},
    {"--folder", "", "DIR", "where collected graphs lie; a temporary one without it", folder()},
};

}  // namespace

extern const Command command_parallel_compile{
    .name = "parallel-compile",
    .summary = "run a torch script once to collect its steps' graphs, and compile them in parallel",
    .words = "[COMMAND...]",
    .words_max = 1 << 20,
    .word = file(),
    .rest_is_words = true,
    .details =
        "COMMAND runs the script. While collecting nothing is computed: results are zeros, and what the script prints "
        "or\nsaves means nothing. The programs go into the compile cache, where the next run of the script finds them.",
    .examples =
        "trine parallel-compile python train.py --steps 10\n"
        "trine parallel-compile --command collect --folder graphs python train.py",
    .options = kOptions,
    .python = "trine.torch.old.parallel_compile",
};

}  // namespace trine::tools
