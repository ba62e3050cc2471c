"""jax.distributed: several processes of this machine share the devices of one instance, and compute what one does."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("jax")

WORKER = Path(__file__).parent / "distributed_worker.py"
INSTANCE = {"TRINE_INSTANCE": "trn1.32xlarge", "JAX_PLATFORMS": "neuron"}


class Job:
    """A process whose output lies in a file: it never waits for us to read."""

    def __init__(self, args, env):
        self.text = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(args, env=env, stdout=self.text, stderr=subprocess.STDOUT)

    def end(self):
        """(exit status, output)"""
        status = self.process.wait(timeout=240)
        self.text.seek(0)
        return status, self.text.read()


def start(count, what, each=lambda p: {}, **env):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        coordinator = f"127.0.0.1:{free.getsockname()[1]}"
    return [Job([sys.executable, str(WORKER), str(p), str(count), coordinator, what],
                os.environ | INSTANCE | env | each(p)) for p in range(count)]  # fmt: skip


def results(jobs):
    out = []
    for job in jobs:
        status, text = job.end()
        assert status == 0, text[-3000:]
        out.append(json.loads(next(line for line in text.splitlines() if line.startswith("{"))))
    return out


def counts(*n):
    return {"NEURON_PJRT_PROCESSES_NUM_DEVICES": ",".join(map(str, n))}


@pytest.fixture(scope="module")
def alone():
    (one,) = results(start(1, "values", NEURON_RT_NUM_CORES="8"))
    return one["values"]


@pytest.mark.parametrize("shares", [(4, 4), (2, 1, 4, 1)], ids=["2 processes", "4 processes"])
def test_values_are_those_of_one_process(shares, alone):
    """To the bit: the order of sums is that of the devices' schedule, wherever they are."""
    found = results(start(len(shares), "values", **counts(*shares)))
    assert [len(r["here"]) for r in found] == list(shares)
    assert sorted(i for r in found for i in r["here"]) == list(range(8))
    for p, r in enumerate(found):
        assert (r["devices"], r["index"]) == (8, p)
        for name, want in alone.items():
            assert r["values"][name] == want, name


def test_processes_share_a_machine_evenly_or_as_told():
    jobs = start(2, "devices"), start(2, "devices", each=lambda p: {"NEURON_RT_VISIBLE_CORES": ("4-7", "0,1")[p]})
    even, told = map(results, jobs)
    assert [r["here"] for r in even] == [list(range(16)), list(range(16, 32))]
    assert [r["here"] for r in told] == [[4, 5, 6, 7], [0, 1]]


def test_what_is_told_wrong_is_an_error():
    for count, env, message in [
        (1, counts(4, 4), "counts of 1 processes"),
        (1, counts(40), "the 32 cores of trn1.32xlarge"),
        (2, {"NEURON_RT_VISIBLE_CORES": "0-3"}, "core 0 is used by process 0 and by process 1"),
    ]:
        ended = [job.end() for job in start(count, "devices", **env)]
        assert all(status for status, _ in ended) and message in ended[0][1], ended[0][1][-2000:]


@pytest.mark.parametrize("how,message", [("die", "process 2 is gone"), ("stop", "did not come")])
def test_a_lost_process_is_an_error_soon(how, message):
    jobs = start(3, how, **counts(4, 2, 2), NEURON_RT_EXEC_TIMEOUT="4")
    try:
        for r in results(jobs[:2]):
            assert message in r["error"] and r["seconds"] < 30
    finally:
        jobs[2].process.kill()
        jobs[2].process.wait()
