// `trine route`: a small model here, a large one elsewhere, and rules that choose
// (python/trine/serve/route/command.py).
#include "tools/cli.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    {"--local", "", "MODEL|URL", "the small one", Values().otherwise("smollm2")},
    {"--remote", "", "MODEL|URL", "the large one: any OpenAI-compatible server"},
    {"--remote-model", "", "NAME", "the name it is asked for"},
    {"--remote-key", "", "FILE", "holds its key", file("")},
    {"--remote-usd", "", "IN,OUT", "dollars for a million tokens of prompts and of answers", Values().otherwise("1,4")},
    {"--policy", "", "NAME", "what decides", one_of("local remote rules cascade classifier random").otherwise("rules")},
    {"--threshold", "", "X", "of cascade and classifier: more goes to the large one as it grows",
     real().otherwise("0.5")},
    {"--rules", "", "FILE", "your own rows of rules, as JSON", file(".json")},
    {"--classifier", "", "FILE", "what `trine route train` wrote", file(".json")},
    {"--budget-usd", "", "X", "spent on the large one at most; then all goes to the small one", real()},
    {"--latency-ms", "", "MS", "the large one has so long to its first byte; then the small one answers", real()},
    {"--shadow", "", "SHARE", "of requests that are answered by both; the second answer is only logged",
     real().otherwise("0")},
    {"--log", "", "FILE", "each request: what was chosen and why, time, tokens, cost", file(".jsonl")},
    {"--instance", "-i", "NAME", "the small one's machine", text_like(instance_names).otherwise("inf2.xlarge")},
    {"--host", "", "ADDRESS", "where to listen", Values().otherwise("127.0.0.1")},
    {"--port", "-p", "N", "0 takes a free one", whole(0, 65535).otherwise("8001")},
    {"--key-file", "", "FILE", "holds the key of this address (~/.config/trine/key)", file("")},
    {"--output", "-o", "FILE", "train: where to", file(".json")},
    {"--for-s", "", "S", "end after so long (until Ctrl-C)", real()},
    kJson,
};

}  // namespace

extern const Command command_route{
    .name = "route",
    .summary = "a small model here and a large one elsewhere behind one address: policies, caps, shadow, cost report",
    .words = "[serve|report LOG|train LOG]",
    .words_max = 2,
    .details =
        "report draws cost against quality from a log and says what each threshold would have cost; train fits the "
        "classifier to it. Rows of the log get a quality by `quality` (0 to 1) or by comparing shadowed answers.",
    .examples =
        "trine route --local smollm2 --remote https://api.example.com/v1 --remote-model large --policy cascade --log "
        "traffic.jsonl\n"
        "trine route report traffic.jsonl\n"
        "trine route train traffic.jsonl -o classifier.json",
    .options = kOptions,
    .python = "trine.serve.route.command",
};

}  // namespace trine::tools
