"""The process groups `neuron` and `xla`: every call between processes, and how a group ends when a rank does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENV = {**os.environ, "PYTHONPATH": f"{ROOT}/python:{ROOT}/python/compat", "TRINE_INSTANCE": "trn1.32xlarge", "OMP_NUM_THREADS": "1"}
LAUNCH = [sys.executable, str(ROOT / "tests/torch/fork_ranks.py")]


def run(ranks, script, *args, timeout=240):
    return subprocess.run([*LAUNCH, str(ranks), str(script), *args], capture_output=True, text=True, timeout=timeout, env=ENV)


@pytest.mark.parametrize("device", ["neuron", "xla", pytest.param("cpu", marks=pytest.mark.slow)])
def test_every_call_gives_what_it_must(device):
    done = run(4, ROOT / "tests/torch/group_ranks.py", device)
    assert done.returncode == 0 and all(f"rank {i} agrees" in done.stdout for i in range(4)), done.stderr[-3000:]


ENDS = """
import atexit, pathlib
count = lambda: len(list(pathlib.Path("/proc/self/task").iterdir()))
atexit.register(lambda: print(count() < during))  # runs after what importing registers
import torch, torch.distributed as dist
dist.init_process_group("xla", store=dist.HashStore(), rank=0, world_size=1)
dist.all_reduce(torch.ones(2, device="xla"), async_op=True).wait()
during = count()
"""


def test_threads_of_a_group_end_before_python_does():
    # Such a thread lets go of its tensors after the call has returned, and ends the process if Python is ending by then.
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, env=ENV)
    assert done.stdout.split() == ["True"] and done.returncode == 0, done.stderr


TROUBLE = """
import datetime, os, signal, sys, time
import torch, torch.distributed as dist
dist.init_process_group("neuron", timeout=datetime.timedelta(seconds=2 if sys.argv[1] == "hang" else 60))
rank = dist.get_rank()
x = torch.ones(4, device="neuron")
dist.all_reduce(x)
if rank == 1:
    if sys.argv[1] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[1] == "leave":
        dist.destroy_process_group()
        sys.exit(0)
    if sys.argv[1] == "hang":
        time.sleep(5)
    if sys.argv[1] == "diverge":
        dist.broadcast(x, 0)
dist.all_reduce(x)
"""
EXPECTED = {
    "die": ["rank 1 has ended while others wait for it", "rank 1: finished all_reduce 1, add of f32[4] ({script}:7)"],
    "leave": ["rank 1 has left the group while others wait for it", "rank 1: finished all_reduce 1"],
    "hang": ["rank 1 did not come in time", "rank 1: finished all_reduce 1, add of f32[4] ({script}:7)"],
    "diverge": ["ranks came to different collectives", "rank 1: broadcast 2 of f32[4], root 0 ({script}:17)"],
}


@pytest.mark.parametrize("how", EXPECTED)
def test_a_rank_in_trouble_ends_every_rank_with_its_line(how, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TROUBLE)
    done = run(3, script, how)
    assert done.returncode == 1
    waiting = f"ranks 0, 2: {'' if how == 'diverge' else 'waiting in '}all_reduce 2, add of f32[4] ({script}:18)"
    for text in [*EXPECTED[how], waiting]:
        assert done.stderr.count(text.format(script=script)) >= 2, done.stderr[-4000:]  # on ranks 0 and 2


MONITORED = """
import datetime, time
import torch.distributed as dist
dist.init_process_group("neuron")
if dist.get_rank() == 1:
    time.sleep(4)
else:
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=1))
"""


def test_a_monitored_barrier_names_who_did_not_come(tmp_path):
    (tmp_path / "wait.py").write_text(MONITORED)
    done = run(3, tmp_path / "wait.py")
    assert done.returncode == 1
    came = "Rank 2 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0"
    for text in ("Rank 1 failed to pass monitoredBarrier: rank 1 did not come in time, a timeout of 1000 ms", came):
        assert text in done.stderr, done.stderr[-3000:]
