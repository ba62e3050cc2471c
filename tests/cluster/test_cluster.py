"""`trine cluster` with the distribution's Slurm: nodes, chips, switches, and a job that outlives a node. `make test-cluster`."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples/cluster"
pytestmark = pytest.mark.skipif("TRINE_TEST_CLUSTER" not in os.environ, reason="starts a real Slurm: make test-cluster")


def trine(*words, name, check=True):
    command = [ROOT / "build/trine", "cluster", words[0], "--name", name, *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert not check or done.returncode == 0, done.stderr
    return done


@pytest.fixture
def cluster(tmp_path):
    """Starts clusters; takes them down and looks for what they left."""
    name = f"test{os.getpid()}"
    folder = tmp_path / "work"
    folder.mkdir()
    os.chdir(folder)
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def up(nodes, instance):
        trine("up", "--nodes", str(nodes), "--instance", instance, name=name)
        return lambda *words, **more: trine("run", "--", *words, name=name, **more)

    up.name = name
    yield up
    trine("down", name=name)
    time.sleep(0.2)
    left = subprocess.run(["pgrep", "-fa", f"clusters/{name}"], capture_output=True, text=True).stdout
    assert not left
    assert name not in Path("/proc/mounts").read_text()


def until(what, seconds=240):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.3)
    raise AssertionError(f"did not happen in {seconds} s")


def test_nodes_chips_and_switches(cluster):
    run = cluster(8, "trn2-ultraserver")
    assert sorted(run("srun", "--nodes", "8", "hostname").stdout.split()) == [f"trn-{i}" for i in range(1, 9)]
    seen = run("srun", "--nodes", "1", "--gres=neuron:2", "bash", "-c", "echo $TRINE_INSTANCE $NEURON_RT_VISIBLE_CORES; ls /dev/neuron* | wc -l")
    assert seen.stdout.split() == ["trn2u.48xlarge", "0-7", "16"]
    kept = run("srun", "--nodes", "1", "cat", "/proc/sys/net/ipv4/ip_local_reserved_ports").stdout.split(",")
    assert "44000" in kept, "an outgoing connection may take the port that torchrun listens on"
    refused = run("srun", "--nodes", "1", "--gres=neuron:17", "true", check=False)
    assert refused.returncode and "not available" in refused.stderr
    near = run("srun", "--nodes", "4", "--switches=1", "bash", "-c", "echo $SLURM_TOPOLOGY_ADDR").stdout.split()
    assert len({n.split(".")[1] for n in near}) == 1
    listed = json.loads(trine("ls", "--json", name=cluster.name).stdout)["clusters"]
    mine = next(c for c in listed if c["name"] == cluster.name)
    assert list(mine["nodes"].values()) == ["idle"] * 8


def test_bad_input(cluster):
    cluster(2, "trn1.32xlarge")
    again = trine("up", name=cluster.name, check=False)
    assert again.returncode == 2 and "is up already" in again.stderr
    node = trine("lose", "trn-9", name=cluster.name, check=False)
    assert node.returncode == 2 and "found trn-9, expected one of trn-1 to trn-2" in node.stderr
    none = trine("down", name="nobody", check=False)
    assert none.returncode == 2 and "no cluster nobody" in none.stderr


def losses(text):
    return {int(step): loss for step, loss in re.findall(r"step (\d+) loss (\S+)", text)}


def submit(run, folder, steps, wait):
    folder.mkdir()
    os.environ["TRAIN"] = str(EXAMPLE / "train.py")
    out = folder / "out"
    said = run("sbatch", "--nodes", "2", f"--output={out}", str(EXAMPLE / "train.sbatch"), str(folder), "--steps", str(steps), "--seconds-per-step", str(wait))
    job = said.stdout.split()[-1]
    return job, out


def state(run, job):
    return run("squeue", "-h", "-j", job, "-t", "all", "-o", "%T").stdout.strip()


@pytest.mark.parametrize("how", ["scontrol", "power"])
def test_a_requeued_job_goes_on(cluster, tmp_path, how):
    run = cluster(4, "trn1.32xlarge")
    job, out = submit(run, tmp_path / "whole", 8, 0)
    until(lambda: state(run, job) == "COMPLETED" or "FAILED" == state(run, job) and pytest.fail(out.read_text()))
    whole = losses(out.read_text())
    assert sorted(whole) == list(range(8))

    job, out = submit(run, tmp_path / "cut", 8, 1.0)
    until(lambda: out.exists() and len(losses(out.read_text())) >= 3)
    node = run("squeue", "-h", "-j", job, "-o", "%B").stdout.strip()
    if how == "scontrol":
        run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    else:
        trine("lose", node, name=cluster.name)
    until(lambda: state(run, job) == "COMPLETED" or "FAILED" == state(run, job) and pytest.fail(out.read_text()))
    details = run("scontrol", "show", "job", job).stdout
    assert "Restarts=1" in details
    assert node not in run("scontrol", "show", "hostnames", re.search(r" NodeList=(\S+)", details).group(1)).stdout.split()
    assert losses(out.read_text()) == whole


def worker(*words):
    return ["srun", "--nodes", "2", "--ntasks-per-node=1", sys.executable, str(ROOT / "tests/cluster/jax_worker.py"), *words]


def test_jax_over_two_machines(cluster):
    rows = sorted(cluster(2, "trn1.32xlarge")(*worker("sum")).stdout.split("\n"))[1:]
    first, second = (row.split() for row in rows)
    assert first[:5] == ["0", "64", "32", "0", "0"] and second[:5] == ["1", "64", "32", "32", "1"]
    assert first[5] == second[5]
    assert abs(float.fromhex(first[5]) - (np.sin(np.arange(256, dtype=np.float32)).astype(np.float64) ** 2).sum()) < 1e-4


def test_a_cable_that_is_pulled(cluster, tmp_path):
    """Both processes end with an error that says which they no longer reach, long before they would wait for ever."""
    run = cluster(2, "trn1.32xlarge")
    steps, log = tmp_path / "steps", tmp_path / "log"
    with open(log, "w") as out:
        job = subprocess.Popen([ROOT / "build/trine", "cluster", "run", "--name", cluster.name, "--", *worker("steps", str(steps))], stdout=out, stderr=out)  # fmt: skip
        until(lambda: steps.exists() and int(steps.read_text() or 0) > 3)
        run("ip", "link", "set", "trn-2", "down")
        assert job.wait(timeout=120) != 0
    assert re.search(r"process [01] is gone", log.read_text()), log.read_text()[-3000:]


@pytest.fixture(autouse=True)
def tools():
    for tool in ("slurmctld", "slurmd", "munged"):
        assert shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin"), "make test-cluster installs Slurm"
