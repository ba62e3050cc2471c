// `trine debug`: where a model's numbers go wrong. Models are Python's, so the work is too
// (python/trine/debug/command.py); this is its option table.
#include "tools/cli.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    {"--config", "", "FILE", "a config.json, a GGUF file, or a name that comes with Trine: llama-3-8b",
     file(".json .gguf", model_names)},
    {"--baseline", "", "MODEL|FILE", "another MODULE:FACTORY or configuration, or tensors.safetensors (itself in f64)"},
    {"--inputs", "", "1x128:int64,…", "a torch model's inputs, where its factory gives none"},
    {"--dtype", "", "NAME", "config: the model's format", one_of("float32 bfloat16 float16").otherwise("float32")},
    {"--weights", "", "FILE", "config: safetensors or GGUF (random ones)", file(".safetensors .gguf")},
    {"--batch", "", "N", "config: sequences", whole(1).otherwise("1")},
    {"--seq", "", "N", "config: tokens of each", whole(1).otherwise("16")},
    {"--layers", "", "N", "config: only so many", whole(1)},
    {"--generate", "", "N", "config: steps of generation, with tokens that are given", whole(1, 64)},
    {"--train", "", "N", "steps of training: losses, norms of gradients", whole(1, 1000)},
    {"--auto-cast", "", "WHICH", "as neuronx-cc's", one_of("none matmult all").otherwise("none")},
    {"--chip", "", "NAME", "instruction by instruction on this chip: trn2 (natively)"},
    {"--tolerance", "", "X", "relative, of the outputs (0.001 in f32, 0.01 in narrower formats; logits by NxDI's map)",
     real()},
    {"--only", "", "PATTERN", "ops, or modules to save, whose place matches"},
    {"--seed", "", "N", "of random weights and inputs", whole().otherwise("0")},
    {"--svg", "", "FILE", "draw the errors, op by op", file(".svg")},
    {"--output", "-o", "FILE", "save: the file to write", file(".safetensors")},
    kJson,
};

}  // namespace

extern const Command command_debug{
    .name = "debug",
    .summary = "where a model's numbers go wrong: the first op that parts from a baseline, and why",
    .words = "compare [MODULE:FACTORY] | save MODULE:FACTORY | core FILE",
    .words_min = 1,
    .words_max = 2,
    .details =
        "A factory gives a torch module or a JAX function, or (it, its arguments). Exits with 1 where an output is "
        "past "
        "its tolerance. docs/debug.md says what is compared and how.",
    .examples =
        "trine debug compare --config llama-3-8b --layers 2 --dtype bfloat16\n"
        "trine debug compare --config llama-3-8b --layers 1 --generate 4 --svg errors.svg\n"
        "trine debug compare port.py:build --baseline original.py:build --inputs 1x128:int64\n"
        "trine debug compare net:build --train 5 --json\n"
        "trine debug core core.tile_add.4711.0.json",
    .options = kOptions,
    .python = "trine.debug.command",
};

}  // namespace trine::tools
