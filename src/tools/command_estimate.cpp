// `trine estimate`: a whole model's time and cost from its configuration. Models are JAX functions, so the work is
// Python's (trine.estimate); this checks the options and becomes that Python.
#include "tools/choose.h"
#include "tools/cli.h"
#include "tools/python.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    {"--config", "", "FILE", "a Hugging Face config.json, a GGUF file, or a name that comes with Trine: bert-base"},
    {"--phase", "", "NAME", "prefill, decode, train or forward; the model's usual one without it"},
    {"--batch", "", "N", "sequences or images at once (1)"},
    {"--seq", "", "N", "tokens of each; for decode, those in the cache (128)"},
    {"--new-tokens", "", "N", "written after the prompt: the first token, each further one, all of them"},
    {"--image-size", "", "N", "of a ResNet's images (224)"},
    {"--tp", "", "N", "logical cores that share one copy of the model (1)"},
    {"--lnc", "", "N", "physical cores of a logical one, 1 or 2; the chip's own without it"},
    {"--nodes", "", "N", "training: instances that work together (as many as the copies take)"},
    {"--dp", "", "N", "training: copies of the model that see different data (all that there are cores for)"},
    {"--pp", "", "N", "training: groups of layers, each on its own cores, that batches go through (1)"},
    {"--accumulate", "", "N", "training: batches between two steps of the optimiser (1)"},
    {"--global-batch", "", "N", "training: sequences between two steps, over all copies; instead of --accumulate"},
    {"--zero1", "", "", "training: the optimiser's state is shared out over the copies (decoders: yes)"},
    {"--no-zero1", "", "", "training: every copy has all of the optimiser's state (others: yes)"},
    {"--auto-cast", "", "KIND", "none, matmult or all: what is computed in the cast type (none)"},
    {"--auto-cast-type", "", "TYPE", "bf16, f16, tf32 or f8 (bf16)"},
    {"--dtype", "", "TYPE", "of the parameters; the configuration's own without it"},
    kInstance,
    {"--compare", "", "A,B,…", "several instances in one table"},
    {"--picture", "", "FILE", "draw the latencies beside one another, as .svg"},
    kJson,
};

Result<Exit> run_estimate(const Args& args) {
  return become_python("trine.estimate.__main__", "estimate", args, kOptions);
}

}  // namespace

extern const Command command_estimate;
const Command command_estimate{
    .name = "estimate",
    .summary = "a whole model's time, memory and cost on an instance, without weights",
    .details =
        "p50 is what Neuron's own compiler and runtime would likely take; our program's own time stands beside it.\n\n"
        "  trine estimate --config bert-base --batch 8 --seq 128 --auto-cast matmult --compare "
        "inf2.xlarge,trn1.2xlarge\n"
        "  trine estimate --config llama-3-8b --phase decode --seq 4096 --tp 32 --instance trn1.32xlarge --json\n"
        "  trine estimate --config llama-2-7b --phase train --seq 4096 --tp 8 --dp 64 --global-batch 1024 --instance "
        "trn1.32xlarge\n",
    .options = kOptions,
    .run = run_estimate,
};

}  // namespace trine::tools
