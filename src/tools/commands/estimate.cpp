// `trine estimate`: a whole model's time and cost from its configuration. Models are JAX functions, so the work is
// Python's (python/trine/estimate/command.py); this is its option table.
#include "tools/cli.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    {"--config", "", "FILE", "a Hugging Face config.json, a GGUF file, or a name that comes with Trine: bert-base",
     file(".json .gguf", model_names)},
    {"--phase", "", "NAME", "the model's usual one without it", one_of("prefill decode train forward")},
    {"--batch", "", "N", "sequences or images at once", whole(1).otherwise("1")},
    {"--seq", "", "N", "tokens of each; for decode, those in the cache (128; a UNet's texts have 77)", whole(1)},
    {"--new-tokens", "", "N", "written after the prompt: the first token, each further one, all of them", whole(1)},
    {"--image-size", "", "N", "of a ResNet's images (the configuration's, else 224)", whole(1)},
    {"--tp", "", "N", "logical cores that share one copy of the model", whole(1).otherwise("1")},
    {"--lnc", "", "N", "physical cores of a logical one, 1 or 2; the chip's own without it", whole(1)},
    {"--nodes", "", "N", "training: instances that work together (as many as the copies take)", whole(1)},
    {"--dp", "", "N", "training: copies of the model that see different data (all that there are cores for)", whole(1)},
    {"--pp", "", "N", "training: groups of layers, each on its own cores, that batches go through (1)", whole(1)},
    {"--accumulate", "", "N", "training: batches between two steps of the optimiser (1)", whole(1)},
    {"--global-batch", "", "N", "training: sequences between two steps, over all copies; instead of --accumulate",
     whole(1)},
    {"--tokens", "", "N", "training: of the whole run, for its steps, days and dollars", whole(1)},
    {"--zero1", "", "", "training: the optimiser's state is shared out over the copies (decoders: yes)"},
    {"--no-zero1", "", "", "training: every copy has all of the optimiser's state (others: yes)"},
    {"--auto-cast", "", "KIND", "what is computed in the cast type", one_of("none matmult all").otherwise("none")},
    {"--auto-cast-type", "", "TYPE", "the cast type", one_of("bf16 f16=fp16 tf32 f8").otherwise("bf16")},
    {"--dtype", "", "TYPE", "of the parameters; the configuration's own without it",
     one_of("bf16=bfloat16 f16=fp16=float16 f32=fp32=float32")},
    {"--sdk", "", "VERSION", "of Neuron's whose choices the likely time follows, such as 2.18 (the newest known)"},
    kInstance,
    {"--compare", "", "A,B,…", "several instances in one table; all: every one there is",
     text_like(instance_names).in_a_list()},
    {"--p50", "", "TIME", "leave out what is likely slower than this half of the time: 20ms, 1.5s"},
    {"--p99", "", "TIME", "leave out what is likely slower than this once in a hundred calls"},
    {"--sort", "", "BY", "the order of the table", one_of("latency throughput cost energy")},
    {"--price", "", "WAY", "the way to rent that the table's dollars are for (the one most of its instances have)",
     one_of("on-demand reserved reserved-3y capacity-block")},
    {"--picture", "", "FILE", "draw the latencies beside one another, as .svg", file(".svg")},
    kJson,
};

}  // namespace

extern const Command command_estimate{
    .name = "estimate",
    .summary = "a whole model's time, memory and cost on an instance, without weights",
    .details =
        "p50 is what Neuron's own compiler and runtime would likely take; our program's own time stands beside it.",
    .examples =
        "trine estimate --config bert-base --batch 8 --seq 128 --auto-cast matmult --compare "
        "inf2.xlarge,trn1.2xlarge\n"
        "trine estimate --config llama-3-8b --phase decode --seq 4096 --tp 32 --instance trn1.32xlarge --json\n"
        "trine estimate --config llama-2-7b --phase train --seq 4096 --tp 8 --dp 64 --global-batch 1024 --instance "
        "trn1.32xlarge\n"
        "trine estimate --config bert-base --batch 8 --compare all --p99 20ms --sort cost",
    .options = kOptions,
    .python = "trine.estimate.command",
};

}  // namespace trine::tools
