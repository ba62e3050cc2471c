// `trine tco`: a workload's cost over months on Neuron's machines and on others (python/trine/decide/tco.py).
#include "tools/cli.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    {"--config", "", "FILE", "a Hugging Face config.json, a GGUF file, or a name that comes with Trine: llama-3-8b",
     file(".json .gguf", model_names)},
    {"--tokens-per-day", "", "N", "generated tokens a day; inferences, of a model that writes none", real(1)},
    {"--train", "", "", "a training run instead: --tokens, or --steps, or so many --tokens-per-day"},
    {"--tokens", "", "N", "train: tokens that are read, of all runs", real(1)},
    {"--steps", "", "N", "train: steps of --global-batch sequences", real(1)},
    {"--global-batch", "", "N", "train: sequences of a step (1024)", whole(1)},
    {"--nodes", "", "N", "train: machines that train together (as many as end within the months)", whole(1, 4096)},
    {"--pp", "", "N", "train: stages; without --tp and --pp the fastest layout is searched", whole(1)},
    {"--months", "", "N", "how long", real().otherwise("12")},
    {"--batch", "", "N", "sequences at once of one copy of the model", whole(1).otherwise("32")},
    {"--prompt", "", "N", "tokens of a request's prompt", whole(1).otherwise("896")},
    {"--output", "", "N", "tokens of its answer", whole(1).otherwise("128")},
    {"--seq", "", "N", "tokens of an inference, of a model that writes none (128); of a sequence that trains (4096)",
     whole(1)},
    {"--duty", "", "SHARE", "of the hours in which there is load", real().otherwise("1")},
    {"--utilisation", "", "SHARE", "of a machine's saturated rate that is used (0.4 to 0.8, 0.6 likely)", real()},
    {"--neuron-price", "", "FACTOR", "Neuron's hourly prices, times this", real().otherwise("1")},
    {"--peer-price", "", "FACTOR", "others' hourly prices, times this", real().otherwise("1")},
    {"--no-autoscale", "", "", "hold as many machines as the peak needs, all the time"},
    {"--p99-ms", "", "MS", "leave out machines whose step likely takes longer once in a hundred", real()},
    {"--tp", "", "N", "logical cores that share one copy (the fewest that hold it)", whole(1)},
    {"--machines", "", "A,B,…", "only these"},
    {"--against", "", "NAME", "what the cheapest of Neuron's is weighed against (the cheapest that needs no port)"},
    {"--purchase", "", "WAY", "the cheapest but spot without it",
     one_of("on-demand reserved reserved-3y capacity-block spot owned")},
    {"--basis", "", "KIND", "of others' speeds: only this kind (measured, else published, else roofline)",
     one_of("measured published roofline")},
    {"--baseline", "", "FILE", "measured by the file that `trine baseline` writes", file(".json")},
    {"--speeds", "", "FILE", "your own, by machine: results a second, or [low, likely, high]", file(".json")},
    {"--prices", "", "FILE", "your own prices, in place of the rows of the same machine and way", file(".json")},
    {"--audit", "", "FILE", "what `trine audit --json` found: the hours to port", file(".json")},
    {"--check-prices", "", "", "list prices older than 90 days, and exit with 1 where there are any"},
    {"--draws", "", "N", "of the Monte Carlo", whole(100, 1000000).otherwise("4000")},
    {"--seed", "", "N", "of its random numbers", whole().otherwise("0")},
    {"--xlsx", "", "FILE", "write a spreadsheet with live formulas", file(".xlsx")},
    {"--html", "", "FILE", "write a page with its pictures in it", file(".html")},
    kJson,
};

}  // namespace

extern const Command command_tco{
    .name = "tco",
    .summary = "what a workload costs over a year on Trainium and on others, with bands and break-even points",
    .details = "low and high are the 5th and 95th of a hundred; docs/tco.md has every line of the arithmetic.",
    .examples =
        "trine tco --config llama-3-8b --tokens-per-day 1e9 --months 12\n"
        "trine tco --config bert-base --tokens-per-day 5e7 --batch 8 --machines inf2.48xlarge,p5en.48xlarge\n"
        "trine tco --train --config llama-3-8b --tokens 1e12 --months 3\n"
        "trine tco --config llama-3-8b --tokens-per-day 1e9 --xlsx tco.xlsx --html tco.html --prices ours.json",
    .options = kOptions,
    .python = "trine.decide.tco",
};

}  // namespace trine::tools
