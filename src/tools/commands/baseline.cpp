// `trine baseline`: the file that measures models on a GPU machine (python/trine/decide/baseline/).
#include "tools/cli.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    {"--output", "-o", "FILE.py", "the file to write", file(".py").otherwise("gpu_baseline.py")},
};

}  // namespace

extern const Command command_baseline{
    .name = "baseline",
    .summary = "write the file that measures models on a GPU machine, to compare with",
    .details =
        "The file needs PyTorch or JAX, and nothing of Trine. It measures latency, cold start, throughput, power, "
        "memory\n"
        "and how busy the GPU is, saves samples of outputs, and goes on where it was when it is started again.",
    .examples = "trine baseline -o gpu_baseline.py",
    .options = kOptions,
    .python = "trine.decide.baseline.command",
};

}  // namespace trine::tools
