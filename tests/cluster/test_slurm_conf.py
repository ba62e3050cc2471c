"""Slurm's configuration of a cluster, as text."""

import os
import subprocess

import pytest

from trine.cluster import slurm


def test_every_path_is_in_the_folder_and_every_node_has_its_chips():
    of = slurm.cluster(3, "trn1.32xlarge")
    conf = slurm.slurm_conf(of, "/x")
    nodes = [line for line in conf.splitlines() if line.startswith("NodeName=")]
    assert [n.split()[0] for n in nodes] == ["NodeName=trn-1", "NodeName=trn-2", "NodeName=trn-3"]
    assert all("Gres=neuron:trn1:16" in n and "CPUs=128" in n for n in nodes)
    assert "topology/none" in conf
    for line in conf.splitlines():
        key, _, value = line.partition("=")
        if value.startswith("/"):
            assert value.startswith("/x/"), line


def test_hosts_of_an_ultraserver_share_a_switch():
    of = slurm.cluster(8, "trn2-ultraserver")
    assert (of.node, of.chips, of.cores, of.logical) == ("trn2u.48xlarge", 16, 128, 2)
    assert slurm.topology_conf(of).splitlines() == [
        "SwitchName=us1 Nodes=trn-[1-4]", "SwitchName=us2 Nodes=trn-[5-8]", "SwitchName=spine Switches=us[1-2]"]  # fmt: skip
    with pytest.raises(ValueError, match="found 6 nodes, expected a multiple of 4"):
        slurm.cluster(6, "trn2-ultraserver")
    with pytest.raises(ValueError, match="trn9"):
        slurm.cluster(1, "trn9.48xlarge")


def test_addresses_are_all_different():
    assert len({slurm.address(i) for i in range(slurm.NODES_MAX)}) == slurm.NODES_MAX


def test_prolog_gives_the_cores_of_a_jobs_chips(tmp_path):
    """With a `scontrol` that answers as Slurm does for two nodes with different chips."""
    (tmp_path / "scontrol").write_text("""#!/bin/bash
case "$*" in
  *"show job"*) echo "     Nodes=trn-[1-2] CPU_IDs=0 Mem=0 GRES=neuron:trn2:3(IDX:0-1,5)"
                echo "     Nodes=trn-3 CPU_IDs=0 Mem=0 GRES=neuron:trn2:1(IDX:7)" ;;
  *"trn-[1-2]"*) printf 'trn-1\\ntrn-2\\n' ;;
  *) echo trn-3 ;;
esac
""")
    (tmp_path / "scontrol").chmod(0o755)
    (tmp_path / "prolog").write_text(slurm.task_prolog(slurm.cluster(4, "trn2-ultraserver")))
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "1"}

    def cores(node, **more):
        done = subprocess.run(["bash", tmp_path / "prolog"], env=env | {"SLURMD_NODENAME": node} | more, capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr
        first, *rest = done.stdout.split("\n")
        assert first == "export TRINE_INSTANCE=trn2u.48xlarge"
        return rest[0].removeprefix("export NEURON_RT_VISIBLE_CORES=")

    assert cores("trn-2") == "0-7,20-23"
    assert cores("trn-3") == "28-31"
    assert cores("trn-3", NEURON_LOGICAL_NC_CONFIG="1") == "56-63"
    assert cores("trn-4") == ""  # none of its chips were asked for: it sees all
    assert cores("trn-1", NEURON_RT_NUM_CORES="2") == ""  # its user chose
