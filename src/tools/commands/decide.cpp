// `trine decide`: audit, estimates, cost and benchmark of a move on one page with sliders
// (python/trine/pages/decide.py).
#include "tools/cli.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    {"--config", "", "FILE", "a Hugging Face config.json, a GGUF file, or a name that comes with Trine: llama-3-8b",
     file(".json .gguf", model_names)},
    {"--tokens-per-day", "", "N", "generated tokens a day; inferences, of a model that writes none",
     real(1).otherwise("1e9")},
    {"--months", "", "N", "how long", real().otherwise("12")},
    {"--batch", "", "N", "sequences at once of one copy of the model", whole(1).otherwise("32")},
    {"--context", "", "N", "tokens of a request, an eighth of them its answer", whole(8).otherwise("1024")},
    {"--machines", "", "A,B,…", "only these"},
    {"--against", "", "NAME", "what the cheapest of Neuron's is weighed against (the cheapest that needs no port)"},
    {"--purchase", "", "WAY", "the cheapest but spot without it",
     one_of("on-demand reserved reserved-3y capacity-block spot owned")},
    {"--audit", "", "PATH", "a project, or what `trine audit --json` found of it", file()},
    {"--bench", "", "FILE", "what `trine bench --json` printed; without it chip time of the cheapest is simulated",
     file(".json")},
    {"--baseline", "", "FILE", "measured by the file that `trine baseline` writes", file(".json")},
    {"--speeds", "", "FILE", "your own, by machine: results a second, or [low, likely, high]", file(".json")},
    {"--prices", "", "FILE", "your own prices, in place of the rows of the same machine and way", file(".json")},
    {"--ahead", "", "N", "other batches and contexts to time while the page is open", whole(0, 64).otherwise("24")},
    {"--host", "", "ADDRESS", "where to listen", Values{}.otherwise("127.0.0.1")},
    {"--port", "", "N", "0: any that is free", whole(0, 65535).otherwise("0")},
    {"--open", "", "", "open it in the browser"},
    {"--html", "", "FILE", "write it as one file instead, each slider with the others at their start", file(".html")},
    {"--json", "", "", "print what the page starts from, and do not serve"},
};

}  // namespace

extern const Command command_decide{
    .name = "decide",
    .summary = "one page on which a move to Trainium is decided: audit, estimates, cost, benchmark, with sliders",
    .details =
        "The page is served on this machine alone, at an address with a token. Its numbers are those of trine audit, "
        "trine estimate, trine tco and trine bench.",
    .examples =
        "trine decide --config llama-3-8b --tokens-per-day 1e9 --audit my_project\n"
        "trine decide --config bert-base --tokens-per-day 5e7 --batch 8 --html decision.html",
    .options = kOptions,
    .python = "trine.pages.decide",
};

}  // namespace trine::tools
