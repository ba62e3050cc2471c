// `trine batch`: a file of requests answered, each exactly once, whatever happens
// (python/trine/serve/batch_command.py).
#include "tools/cli.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    {"--output", "-o", "FILE", "answers, a line each; lines that are there are not computed again", file(".jsonl")},
    {"--model", "-m", "MODEL", "a GGUF file, a folder with config.json, or smollm2", Values().otherwise("smollm2")},
    {"--instance", "-i", "NAME", "the machine whose time and cost are told",
     text_like(instance_names).otherwise("inf2.48xlarge")},
    {"--tp", "", "N", "logical cores that share one copy; all cores of the instance work", whole(1).otherwise("1")},
    {"--max-tokens", "", "N", "of an answer, where a line says none", whole(1).otherwise("256")},
    {"--at-once", "", "N", "requests in the batch at most", whole(1, 4096).otherwise("32")},
    {"--ray", "", "ADDRESS",
     "run on Ray, a worker for each copy: auto (the cluster that runs), local (one made here) or host:port"},
    kJson,
};

}  // namespace

extern const Command command_batch{
    .name = "batch",
    .summary = "answer a file of requests, resumable after a kill, with progress on both clocks",
    .words = "FILE.jsonl",
    .words_min = 1,
    .words_max = 1,
    .word = file(".jsonl"),
    .details =
        "A line is OpenAI's batch form {custom_id, url, body}, or {prompt: …}, or {messages: […]}, with an id if it "
        "has "
        "one. Run it again after a kill: no line is lost and none is done twice.",
    .examples =
        "trine batch in.jsonl -o out.jsonl --model smollm2 --instance inf2.48xlarge\n"
        "trine batch products.jsonl -o answers.jsonl --max-tokens 64 --json\n"
        "trine batch products.jsonl -o answers.jsonl --ray auto --tp 2",
    .options = kOptions,
    .python = "trine.serve.batch_command",
};

}  // namespace trine::tools
