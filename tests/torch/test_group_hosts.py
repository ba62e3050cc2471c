"""Ranks on two hosts, which are network namespaces joined by a cable: the bits of one host, and a cable that is pulled."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENV = {**os.environ, "PYTHONPATH": f"{ROOT}/python:{ROOT}/python/compat", "TRINE_INSTANCE": "trn1.32xlarge", "OMP_NUM_THREADS": "1"}
FORK = [sys.executable, str(ROOT / "tests/torch/fork_ranks.py")]
ADDRESSES = ("10.213.7.1", "10.213.7.2")


def ip(*args):
    return subprocess.run(["ip", *args], capture_output=True, text=True)


@pytest.fixture
def hosts():
    names = [f"trine{os.getpid()}{c}" for c in "ab"]
    if not shutil.which("ip") or ip("netns", "add", names[0]).returncode:
        pytest.skip("no network namespaces here")
    try:
        ip("netns", "add", names[1])
        cable = [f"tr{os.getpid() % 100000}{c}" for c in "ab"]
        ip("link", "add", cable[0], "netns", names[0], "type", "veth", "peer", "name", cable[1], "netns", names[1])
        for name, end, address in zip(names, cable, ADDRESSES):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", end, "up")
        yield names, cable
    finally:
        for name in names:
            ip("netns", "del", name)


def start(names, script, *args):
    """Two ranks on each host."""
    out = []
    for i, name in enumerate(names):
        env = ENV | {"FIRST_RANK": str(2 * i), "WORLD_SIZE": "4", "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29511"}
        command = ["ip", "netns", "exec", name, *FORK, "2", str(script), *args]
        out.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env))
    return out


def finish(processes, timeout=120):
    return [(*p.communicate(timeout=timeout), p.returncode) for p in processes]


BITS = """
import hashlib
import torch, torch.distributed as dist
dist.init_process_group("neuron")
rank = dist.get_rank()
h = hashlib.sha256()
for i, dtype in enumerate([torch.float32, torch.bfloat16, torch.float64]):
    for count in (5, 1000, 300_000):
        x = torch.randn(count, generator=torch.Generator().manual_seed(100 * rank + i)).to(dtype).to("neuron")
        dist.all_reduce(x)
        part = torch.empty(count // 4 + 1, dtype=dtype, device="neuron")
        dist.reduce_scatter_tensor(part, torch.nn.functional.pad(x, (0, 4 * part.numel() - count)), op=dist.ReduceOp.AVG)
        h.update(x.cpu().view(torch.uint8).numpy().tobytes() + part.cpu().view(torch.uint8).numpy().tobytes())
print(f"rank {rank} has {h.hexdigest()}\\n", end="", flush=True)
dist.destroy_process_group()
"""


def test_two_hosts_have_the_bits_of_one(hosts, tmp_path):
    script = tmp_path / "bits.py"
    script.write_text(BITS)
    alone = subprocess.run([*FORK, "4", str(script)], capture_output=True, text=True, env=ENV)
    found = finish(start(hosts[0], script))
    assert all(code == 0 for _, _, code in found), [err[-2000:] for _, err, _ in found]
    lines = sorted(line for out, _, _ in found for line in out.splitlines() if " has " in line)
    assert len(lines) == 4 and lines == sorted(line for line in alone.stdout.splitlines() if " has " in line)


@pytest.mark.slow
def test_every_call_between_hosts(hosts):
    found = finish(start(hosts[0], ROOT / "tests/torch/group_ranks.py", "neuron"))
    assert sum(out.count("agrees") for out, _, _ in found) == 4, [err[-2000:] for _, err, _ in found]


STEPS = """
import datetime
import torch, torch.distributed as dist
dist.init_process_group("neuron", timeout=datetime.timedelta(seconds=12))
x = torch.ones(100_000, device="neuron")
for step in range(1_000_000):
    dist.all_reduce(x)
    if step == 20:
        print("step 20", flush=True)
"""


def test_a_pulled_cable_is_named_on_every_rank(hosts, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(STEPS)
    names, cable = hosts
    processes = start(names, script)
    while "step 20" not in processes[0].stdout.readline():
        assert processes[0].poll() is None
    ip("-n", names[0], "link", "set", cable[0], "down")
    pulled = time.monotonic()
    found = finish(processes, timeout=60)
    assert time.monotonic() - pulled < 12 + 10  # the timeout, and the ends of the processes
    for (_, err, code), far in zip(found, ("23", "01")):
        named = re.findall(r"DistBackendError: ranks? ([\d, ]+) did not answer in time", err)
        assert code == 1 and len(named) == 2 and set("".join(named)) <= {*far, ",", " "} and f"{script}:7" in err, err[-3000:]
