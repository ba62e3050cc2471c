// `trine chat`: a conversation in the terminal, with a model here or with a server
// (python/trine/serve/chat_command.py).
#include "tools/cli.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    {"--prompt", "-p", "TEXT", "ask this once and end (else lines of stdin)"},
    {"--system", "", "TEXT", "what the model is told first"},
    {"--url", "", "URL", "a server's, in place of a model here"},
    {"--key-file", "", "FILE", "holds that server's key (~/.config/trine/key)", file("")},
    {"--instance", "-i", "NAME", "the machine whose time and cost are told",
     text_like(instance_names).otherwise("inf2.xlarge")},
    {"--max-tokens", "", "N", "of an answer", whole(1).otherwise("512")},
    {"--temperature", "", "T", "0 always takes the likeliest token", real().otherwise("0.2")},
    {"--seed", "", "N", "of the sampling", whole()},
    kJson,
};

}  // namespace

extern const Command command_chat{
    .name = "chat",
    .summary = "talk with a model in the terminal; each answer with its time and cost on the chip",
    .words = "[MODEL]",
    .words_max = 1,
    .details = "The answer goes to stdout, what it took to stderr.",
    .examples =
        "trine chat smollm2\n"
        "trine chat smollm2 --prompt 'What is the capital of France?'\n"
        "trine chat --url http://127.0.0.1:8000",
    .options = kOptions,
    .python = "trine.serve.chat_command",
};

}  // namespace trine::tools
