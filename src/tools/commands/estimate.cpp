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
    {"--zero", "", "N", "training: shared out over copies are 1 the optimiser's state, 2 gradients, 3 parameters (1)",
     whole(0, 3)},
    {"--zero1", "", "", "training: as --zero 1 (decoders: yes)"},
    {"--no-zero1", "", "", "training: as --zero 0 (others: yes)"},
    {"--cp", "", "N", "training: cores that share each sequence, keys and values in a ring (1)", whole(1)},
    {"--ep", "", "N", "training: copies that share one set of experts (1)", whole(1)},
    {"--chunks", "", "N", "training: of each stage's layers, for interleaved stages (1)", whole(1)},
    {"--recompute", "", "KIND", "training: on the way back (layers, where memory asks for it)",
     one_of("auto none selective full")},
    {"--optimizer", "", "KIND", "training: moments, and parameters in f32 or rounded stochastically (f32)",
     one_of("f32 f32-sr bf16-sr")},
    {"--overlap-grad-reduce", "", "", "training: sum gradients layer by layer beside the last batch's way back"},
    {"--search", "", "", "training: the fastest layout that fits, and why others lost"},
    {"--tensor-model-parallel-size", "", "N", "Megatron's name of --tp", {}, "--tp"},
    {"--pipeline-model-parallel-size", "", "N", "Megatron's name of --pp", {}, "--pp"},
    {"--context-parallel-size", "", "N", "Megatron's name of --cp", {}, "--cp"},
    {"--expert-model-parallel-size", "", "N", "Megatron's name of --ep", {}, "--ep"},
    {"--num-layers-per-virtual-pipeline-stage", "", "N", "Megatron's way to say --chunks", whole(1)},
    {"--micro-batch-size", "", "N", "Megatron's name of --batch", {}, "--batch"},
    {"--global-batch-size", "", "N", "Megatron's name of --global-batch", {}, "--global-batch"},
    {"--seq-length", "", "N", "Megatron's name of --seq", {}, "--seq"},
    {"--sequence-parallel", "", "", "accepted: long sequences are cut between blocks whenever --tp is"},
    {"--use-distributed-optimizer", "", "", "Megatron's name of --zero 1"},
    {"--recompute-granularity", "", "KIND", "Megatron's name of --recompute", {}, "--recompute"},
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
    {"--profile", "", "FILE", "write the program that was timed as a profile (docs/profile.md)", file(".ntff")},
    kJson,
};

}  // namespace

extern const Command command_estimate{
    .name = "estimate",
    .summary = "a whole model's time, memory and cost on an instance, without weights",
    .words = "[MODEL]",
    .words_max = 1,
    .word = file(".json .gguf", model_names),
    .details =
        "MODEL is what --config takes. p50 is what Neuron's own compiler and runtime would likely take; our program's "
        "own time stands beside it.",
    .examples =
        "trine estimate bert-base --batch 8 --seq 128 --auto-cast matmult --compare inf2.xlarge,trn1.2xlarge\n"
        "trine estimate --config llama-3-8b --phase decode --seq 4096 --tp 32 --instance trn1.32xlarge --json\n"
        "trine estimate --config llama-2-7b --phase train --seq 4096 --tp 8 --dp 64 --global-batch 1024 --instance "
        "trn1.32xlarge\n"
        "trine estimate --config llama-2-13b --phase train --seq 4096 --nodes 4 --global-batch 256 --search --instance "
        "trn1.32xlarge\n"
        "trine estimate --config bert-base --batch 8 --compare all --p99 20ms --sort cost",
    .options = kOptions,
    .python = "trine.estimate.command",
};

}  // namespace trine::tools
