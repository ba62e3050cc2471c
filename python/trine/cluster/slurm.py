"""Slurm's configuration of a cluster: what an instance is, in the words of slurm.conf, gres.conf and topology.conf."""

import dataclasses

from trine import _core

PREFIX = "trn-"
HEAD = "head"
NETWORK = "198.18.0.0/15"  # RFC 2544: for benchmarks, never routed
HEAD_ADDRESS = "198.19.255.254"
PORT_CONTROLLER, PORT_NODE = 6817, 6818
NODES_MAX = 1024


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Nodes of one kind. An UltraServer is several hosts: `switch` of them share a leaf switch."""

    nodes: int
    instance: str
    node: str  # the instance that one node is
    chip: str
    chips: int  # of a node
    cores: int  # of a node
    logical: int  # cores in a logical one, unless a job sets it
    cpus: int
    memory_mb: int
    switch: int

    @property
    def names(self):
        return [f"{PREFIX}{i + 1}" for i in range(self.nodes)]


def cluster(nodes, instance):
    """The cluster of so many nodes (hosts) of an instance; ValueError where there is no such instance."""
    found = _core.instance(instance)
    hosts = found["hosts"]
    if nodes % hosts:
        raise ValueError(f"found {nodes} nodes, expected a multiple of {hosts}: {instance} is {hosts} hosts")
    node = next((i["name"] for i in _core.instances() if i["hosts"] == 1 and i["name"] in found["title"]), found["name"])
    return Cluster(nodes=nodes, instance=found["name"], node=node, chip=found["chip"], chips=found["chips"] // hosts, cores=found["cores"] // hosts,
                   logical=found["logical"],
                   cpus=found["host.vcpus"] // hosts, memory_mb=(found["host.memory_bytes"] // hosts) >> 20, switch=hosts)  # fmt: skip


def address(node):
    """Of a node, counted from 0."""
    return f"198.18.{node // 250}.{node % 250 + 1}"


def hosts_file(of):
    rows = ["127.0.0.1 localhost", f"{HEAD_ADDRESS} {HEAD}"]
    return "\n".join(rows + [f"{address(i)} {name}" for i, name in enumerate(of.names)]) + "\n"


def slurm_conf(of, folder):
    """The daemons find one another by names of the hosts file; every path lies in the cluster's folder."""
    grouped = of.switch > 1
    rows = {
        "ClusterName": "trine",
        "SlurmctldHost": f"{HEAD}({HEAD_ADDRESS})",
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        # A requeued job may start when the credentials of its first run have expired; 120 s are Slurm's default.
        "AuthInfo": f"socket={folder}/munge.socket,cred_expire=10",
        "CredType": "cred/munge",
        "MpiDefault": "none",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "SwitchType": "switch/none",
        "SlurmctldPort": PORT_CONTROLLER,
        "SlurmdPort": PORT_NODE,
        "StateSaveLocation": f"{folder}/state",
        "SlurmdSpoolDir": f"{folder}/spool/%n",
        "SlurmctldPidFile": f"{folder}/slurmctld.pid",
        "SlurmdPidFile": f"{folder}/spool/%n.pid",
        "SlurmctldLogFile": f"{folder}/slurmctld.log",
        "SlurmdLogFile": f"{folder}/%n.log",
        "SlurmdParameters": "config_overrides",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": "batch_sched_delay=0,sched_interval=5",
        "GresTypes": "neuron",
        "TaskProlog": f"{folder}/task_prolog.sh",
        "ReturnToService": 1,  # a node that did not answer; one that an administrator took down stays down
        "SlurmdTimeout": 15,
        "SlurmctldTimeout": 30,
        "MessageTimeout": 20,
        "KillWait": 5,
        "InactiveLimit": 0,
        "MinJobAge": 3600,
        "JobRequeue": 1,
        "TopologyPlugin": "topology/tree" if grouped else "topology/none",
    }
    names = f"{PREFIX}[1-{of.nodes}]"
    lines = [f"{key}={value}" for key, value in rows.items()]
    lines += [f"NodeName={name} NodeAddr={address(i)} NodeHostname={name} CPUs={of.cpus} RealMemory={of.memory_mb} "
              f"Gres=neuron:{of.chip}:{of.chips} State=UNKNOWN" for i, name in enumerate(of.names)]  # fmt: skip
    lines += [f"PartitionName=neuron Nodes={names} Default=YES MaxTime=INFINITE State=UP"]
    return "\n".join(lines) + "\n"


def gres_conf(of):
    return f"NodeName={PREFIX}[1-{of.nodes}] Name=neuron Type={of.chip} File=/dev/neuron[0-{of.chips - 1}]\n"


def topology_conf(of):
    """One leaf an UltraServer under one spine."""
    leaves = of.nodes // of.switch
    first = lambda leaf: leaf * of.switch + 1  # noqa: E731
    rows = [f"SwitchName=us{leaf + 1} Nodes={PREFIX}[{first(leaf)}-{first(leaf) + of.switch - 1}]" for leaf in range(leaves)]
    return "\n".join(rows + [f"SwitchName=spine Switches=us[1-{leaves}]"]) + "\n"


def task_prolog(of):
    """Runs before each task; a line it prints is set in the task's environment. A job that asked for chips sees the
    cores of its chips alone, as on the real machine with NEURON_RT_VISIBLE_CORES."""
    return f"""#!/bin/bash
echo export TRINE_INSTANCE={of.node}
[ -n "$NEURON_RT_VISIBLE_CORES$NEURON_RT_NUM_CORES" ] && exit 0
logical=${{NEURON_LOGICAL_NC_CONFIG:-${{NEURON_RT_VIRTUAL_CORE_SIZE:-{of.logical}}}}}
per_chip=$(({of.cores // of.chips} / logical))
scontrol -d show job "$SLURM_JOB_ID" 2>/dev/null | sed -n 's/^ *Nodes=\\([^ ]*\\) .*neuron:{of.chip}:[0-9]*(IDX:\\([0-9,-]*\\)).*/\\1 \\2/p' | while read -r nodes chips; do
  scontrol show hostnames "$nodes" | grep -qx "$SLURMD_NODENAME" || continue
  cores=
  for range in ${{chips//,/ }}; do
    cores=$cores${{cores:+,}}$((${{range%-*}} * per_chip))-$(((${{range#*-}} + 1) * per_chip - 1))
  done
  echo "export NEURON_RT_VISIBLE_CORES=$cores"
done
exit 0
"""
