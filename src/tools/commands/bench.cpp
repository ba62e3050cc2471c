// `trine bench`: the checklist of a benchmark, measured in host time or predicted in chip time
// (python/trine/decide/bench.py).
#include "tools/cli.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    {"--seconds", "", "S", "host: of each measurement", real().otherwise("2")},
    {"--workers", "", "N", "host: calls at once", whole(1, 256).otherwise("1")},
    {"--model", "", "MODEL", "host: with serve, what `trine serve` is started with: a GGUF file, a folder, smollm2"},
    {"--rate", "", "N", "host: requests offered a second (30, 60 and 90 % of what it can)", real()},
    {"--body", "", "FILE", "host: what is sent to a server, as a POST", file("")},
    {"--reference", "", "FILE.npz", "host: arrays that a function's results are compared with", file(".npz")},
    {"--tolerance", "", "X", "host: the relative difference that still passes", real().otherwise("0.01")},
    {"--loadgen", "", "SCENARIO", "host: MLPerf LoadGen's, where mlcommons-loadgen is installed",
     one_of("offline server single-stream multi-stream")},
    {"--faults", "", "",
     "host: kill it, slow its link and throttle its core under load: requests lost, time to recover"},
    {"--pid", "", "N", "host: the process of a server that runs, so that it can be throttled", whole(1)},
    {"--config", "", "FILE", "chip: a config.json, a GGUF file, or a name that comes with Trine: bert-base",
     file(".json .gguf", model_names)},
    {"--instance", "-i", "NAME", "chip: the machine", text_like(instance_names).otherwise("trn1.2xlarge")},
    {"--nodes", "", "N", "chip: how many of it", whole(1, 1024).otherwise("2")},
    {"--phase", "", "NAME", "chip: what a request is a call of", one_of("prefill decode forward").otherwise("prefill")},
    {"--batch", "", "N", "chip: requests that one call takes at most", whole(1).otherwise("1")},
    {"--seq", "", "N", "chip: tokens of each (128)", whole(1)},
    {"--tp", "", "N", "chip: logical cores that share one copy", whole(1).otherwise("1")},
    {"--requests", "", "N", "chip: simulated at each load", whole(1000, 1000000).otherwise("20000")},
    {"--slo-ms", "", "MS", "the latency that counts as in time: chip; host: of LoadGen's server scenario", real()},
    {"--bytes-per-request", "", "N", "chip: sent to the user, for the price of transfer", real().otherwise("2000")},
    {"--burst", "", "N", "requests that come at once", whole(1, 100000).otherwise("64")},
    {"--virtual", "", "", "serve: on the chip's clock, without weights"},
    {"--trace", "", "FILE",
     "serve: requests of a log: Mooncake's JSON lines, or a table with time and tokens (Poisson arrivals)",
     file(".jsonl .csv")},
    {"--prompt", "", "N", "serve: tokens of a prompt, on average", whole(1).otherwise("512")},
    {"--output", "", "N", "serve: tokens of an answer, on average", whole(1).otherwise("128")},
    {"--shared", "", "N", "serve: first tokens that all prompts share", whole(0).otherwise("0")},
    {"--copies", "", "N", "serve: of the model (as many as the instance holds)", whole(1, 10000)},
    {"--prompt-copies", "", "N", "serve: of these, that only read prompts", whole(0, 10000).otherwise("0")},
    {"--copies-most", "", "N", "serve: add copies under load, up to so many", whole(1, 10000)},
    {"--cold-start", "", "S", "serve: until an added copy serves", real().otherwise("120")},
    {"--slo-ttft-ms", "", "MS", "serve: the time to the first token that counts as in time", real()},
    {"--slo-itl-ms", "", "MS", "serve: the mean time between tokens that does", real()},
    {"--attain", "", "SHARE", "serve: of requests that must be in time", real().otherwise("0.99")},
    {"--find", "", "WHAT", "serve: the largest rate that holds the SLO, or the fewest copies for the rate",
     one_of("rate fleet")},
    {"--seed", "", "N", "of the arrivals", whole().otherwise("0")},
    {"--html", "", "FILE", "write a page with its pictures in it", file(".html")},
    kJson,
};

}  // namespace

extern const Command command_bench{
    .name = "bench",
    .summary = "latency, load, bursts, cost, energy and failures of a model, a server or a function",
    .words = "[FILE.py:FUNCTION | URL | serve]",
    .words_max = 1,
    .details =
        "Arrivals are open-loop: latency counts from when a request was due. Host and chip time are never mixed.",
    .examples =
        "trine bench --config bert-base --instance inf2.xlarge --batch 8 --slo-ms 50\n"
        "trine bench infer.py:once --reference outputs.npz\n"
        "trine bench http://127.0.0.1:8000/v1 --workers 8 --loadgen server --slo-ms 500\n"
        "trine bench serve --model smollm2 --faults\n"
        "trine bench serve --virtual --config llama-3-8b --instance inf2.48xlarge --tp 24 --rate 2 --slo-ttft-ms 500",
    .options = kOptions,
    .python = "trine.decide.bench",
};

}  // namespace trine::tools
