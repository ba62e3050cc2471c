// `trine gatherinfo` (`neuron-gatherinfo`): one archive for a report (python/trine/watch/gather.py).
#include "tools/cli.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    {"--output", "-o", "DIR", "where the archive is put", folder().otherwise(".")},
    {"--include", "-i", "FILE", "another file to put in, its lines cleaned too", file().repeated()},
    kJson,
};

}  // namespace

extern const Command command_gatherinfo{
    .name = "gatherinfo",
    .summary = "one archive with what a report of a problem needs, without secrets",
    .alias = "neuron-gatherinfo",
    .details =
        "Versions, the virtual machine, settings and NEURON_ and TRINE_ variables, processes and counters, core dumps. "
        "Values that look like keys, tokens or passwords, home folders and addresses are taken out. Nothing is sent.",
    .examples = "trine gatherinfo --output /tmp",
    .options = kOptions,
    .python = "trine.watch.gather",
};

}  // namespace trine::tools
