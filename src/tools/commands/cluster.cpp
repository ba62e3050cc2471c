// `trine cluster`: the distribution's Slurm over virtual nodes, on this machine. Daemons and namespaces are Python's
// work (python/trine/cluster/command.py); this is its option table.
#include "tools/cli.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    {"--nodes", "-n", "N", "up: how many hosts", whole(1, 1024).otherwise("4")},
    kInstance,
    {"--name", "", "NAME", "of the cluster, where there are several", Values().otherwise("default")},
    kJson,
};

}  // namespace

extern const Command command_cluster{
    .name = "cluster",
    .summary = "a Slurm cluster of virtual instances on this machine: up, down, ls, run, lose, return",
    .words = "[up|down|ls|run -- COMMAND...|lose NODE|return NODE]",
    .words_min = 0,
    .words_max = 4096,
    .details =
        "Every node has processes, network, host name, /dev/neuron* and shared memory of its own; files are shared, as "
        "on a "
        "cluster's file system. Jobs ask for chips with --gres=neuron:N; an UltraServer's hosts share a switch. `down` "
        "leaves "
        "nothing behind. Slurm comes from the distribution: slurmctld slurmd slurm-client munge iproute2.",
    .examples =
        "trine cluster up --nodes 8 --instance trn1.32xlarge\n"
        "trine cluster run -- sbatch --nodes 2 train.sbatch\n"
        "trine cluster run -- squeue\n"
        "trine cluster lose trn-2\n"
        "trine cluster down",
    .options = kOptions,
    .python = "trine.cluster.command",
};

}  // namespace trine::tools
