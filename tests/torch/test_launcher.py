"""Ranks that torchrun starts are forked from one process, and find what a process of their own would: environment, arguments,
main module, output, status. A launcher that is killed takes them with it."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]

SCRIPT = """
import json, os, pickle, sys
import numpy, torch
class Kept: pass
rank = int(os.environ["RANK"])
ours = open(f"/proc/{os.getppid()}/cmdline").read()
with open(f"found{rank}", "w") as file:
    json.dump({"argv": sys.argv, "file": __file__, "name": __name__, "parent": os.getppid(), "forked": "rank_server" in ours,
               "session": os.getsid(0) == os.getpid(), "main": pickle.loads(pickle.dumps(Kept())).__class__.__module__,
               "threads": os.environ["TRINE_THREADS"], "path": sys.path[0], "random": float(numpy.random.rand())}, file)
print("value", (torch.ones(2, device="neuron") + rank).tolist(), flush=True)
if "fail" in sys.argv:
    if rank == 1:
        raise ValueError("from rank 1")
    import time
    time.sleep(600)
"""


def run(folder, *words, **env):
    (folder / "script.py").write_text(SCRIPT)
    return subprocess.run([*LAUNCH, *words], cwd=folder, env={**os.environ, "TRINE_INSTANCE": "trn1.32xlarge", **env},
                          capture_output=True, text=True, timeout=300)  # fmt: skip


def found(folder):
    import json

    return [json.loads((folder / f"found{r}").read_text()) for r in (0, 1)]


@pytest.mark.parametrize("words", [["script.py", "a", "-b"], ["-m", "script", "a", "-b"]])
def test_a_forked_rank_is_like_one_of_its_own(tmp_path, words):
    done = run(tmp_path, *words, TRINE_THREADS="1")
    assert done.returncode == 0, done.stderr
    assert "value [1.0, 1.0]" in done.stdout and "value [2.0, 2.0]" in done.stdout
    both = found(tmp_path)
    for rank in both:
        assert rank["forked"] and rank["session"]
        assert rank["argv"][1:] == ["a", "-b"] and rank["argv"][0].endswith("script.py")
        assert os.path.samefile(rank["file"], tmp_path / "script.py") and rank["name"] == rank["main"] == "__main__"
        assert os.path.samefile(rank["path"], tmp_path)
        assert rank["threads"] == "1"
    assert both[0]["parent"] == both[1]["parent"]
    assert both[0]["random"] != both[1]["random"]


def test_a_failed_rank_ends_the_job_with_its_own_traceback(tmp_path):
    done = run(tmp_path, "script.py", "fail")
    assert done.returncode == 1
    assert "exitcode: 1" in done.stderr or "exitcode  : 1" in done.stderr
    trace = done.stderr[done.stderr.index("Traceback") :].splitlines()
    assert "script.py" in trace[1] and "rank_server" not in done.stderr
    assert found(tmp_path)[0]["threads"] == str(max(1, len(os.sched_getaffinity(0)) // 2))


def test_a_killed_launcher_leaves_no_rank(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT.replace("rank == 1", "rank == 7"))
    job = subprocess.Popen([*LAUNCH, "script.py", "fail"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    with job:
        for _ in range(2):
            assert "value" in job.stdout.readline()
        server = found(tmp_path)[0]["parent"]
        job.send_signal(signal.SIGKILL)
    until = time.monotonic() + 60
    while os.path.exists(f"/proc/{server}") and time.monotonic() < until:
        time.sleep(0.05)
    ours = [p for p in os.listdir("/proc") if p.isdigit() and _runs_in(p, tmp_path)]
    assert not os.path.exists(f"/proc/{server}") and not ours


def _runs_in(process, folder):
    try:
        return os.readlink(f"/proc/{process}/cwd") == str(folder)
    except OSError:
        return False


def test_apart_is_a_choice(tmp_path):
    done = run(tmp_path, "script.py", TRINE_RANKS="apart")
    assert done.returncode == 0 and not found(tmp_path)[0]["forked"]


BY_HAND = """
import os
import torch, torch.distributed as dist
for name, theirs in (("RANK", "RANK"), ("WORLD_SIZE", "SIZE")):
    os.environ.setdefault(name, os.environ.get(f"OMPI_COMM_WORLD_{theirs}", ""))
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
dist.init_process_group("neuron")
x = torch.full((3,), dist.get_rank() + 1.0, device="neuron")
dist.all_reduce(x)
print(f"rank {dist.get_rank()} on core {x.device.index}, {os.environ['TRINE_THREADS']} thread: {x.tolist()}", flush=True)
dist.destroy_process_group()
"""


def test_mpirun(tmp_path):
    if not shutil.which("mpirun"):
        pytest.skip("needs mpirun, of Debian's openmpi-bin")
    (tmp_path / "script.py").write_text(BY_HAND)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3", "-x", f"MASTER_PORT={port}", sys.executable, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "TRINE_INSTANCE": "trn1.32xlarge"}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for rank in range(3):
        assert f"rank {rank} on core {rank}, 1 thread: [6.0, 6.0, 6.0]" in done.stdout


ACCELERATED = """
import torch
from accelerate import Accelerator
accelerator = Accelerator(gradient_accumulation_steps=2)
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
data = torch.utils.data.TensorDataset(torch.randn(16, 4, generator=torch.Generator().manual_seed(1)), torch.ones(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(data, batch_size=2))
for x, y in loader:
    with accelerator.accumulate(model):
        accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
        optimizer.step()
        optimizer.zero_grad()
weights = accelerator.gather(torch.cat([p.detach().flatten() for p in model.parameters()])[None])
assert torch.equal(weights[0], weights[-1])
whole = torch.nn.Linear(4, 1)
whole.load_state_dict({k: v.cpu() for k, v in accelerator.unwrap_model(model).state_dict().items()})
accelerator.print(f"{accelerator.distributed_type} {accelerator.device.type} {accelerator.num_processes}: loss "
                  f"{torch.nn.functional.mse_loss(whole(data.tensors[0]), data.tensors[1]).item():.4f}")
accelerator.end_training()
"""


def test_accelerate_launch(tmp_path):
    pytest.importorskip("accelerate")
    (tmp_path / "script.py").write_text(ACCELERATED)
    options = "--multi_gpu --num_processes 2 --num_machines 1 --mixed_precision no --dynamo_backend no".split()
    launches = {"neuron": [sys.executable, "-m", "accelerate.commands.launch", *options], "cpu": LAUNCH}
    said = {}
    for device, launch in launches.items():
        env = {**os.environ, "TRINE_INSTANCE": "trn1.32xlarge", "USE_TORCH_XLA": "0", "HF_HOME": str(tmp_path)}
        env |= {"ACCELERATE_USE_CPU": "true"} if device == "cpu" else {}
        done = subprocess.run([*launch, "script.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
        assert f"{device} 2: loss" in done.stdout
        said[device] = done.stdout.rpartition("loss")[2]
    assert said["neuron"] == said["cpu"]


ADAPTED = """
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from trine.torch import cache

class Adapted(nn.Module):  # a frozen base, and two thin matrices beside it
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(0)
        self.base = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)).requires_grad_(False)
        torch.manual_seed(seed)
        self.a, self.b = nn.Linear(32, 4, bias=False), nn.Linear(4, 32, bias=False)
    def forward(self, x):
        return self.base(x) + self.b(self.a(x))

dist.init_process_group("neuron")
made = []
for seed in (1, 2):
    before = cache.COUNTS["made"]
    model = DistributedDataParallel(torch.compile(Adapted(seed).to("neuron"), backend="neuron"))
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for _ in range(2):
        model(torch.full((8, 32), dist.get_rank() + 1.0, device="neuron")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    count = torch.tensor([float(cache.COUNTS["made"] - before)], device="neuron")
    dist.all_reduce(count)
    made.append(int(count.item()))
if dist.get_rank() == 0:
    print("made by all ranks:", *made, flush=True)
dist.destroy_process_group()
"""


def test_ranks_compile_a_base_once_and_nothing_for_another_adapter(tmp_path):
    (tmp_path / "script.py").write_text(ADAPTED)
    said = []
    for folder in ("one", "four"):
        env = {**os.environ, "TRINE_INSTANCE": "trn1.32xlarge", "NEURON_COMPILE_CACHE_URL": str(tmp_path / folder), "NEURON_CC_FLAGS": "-q"}
        launch = [*LAUNCH[:-1], f"--nproc_per_node={1 if folder == 'one' else 4}"]
        done = subprocess.run([*launch, "script.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
        said.append(done.stdout.partition("made by all ranks: ")[2].split())
    assert int(said[0][0]) >= 2  # forward and backward
    assert said[0] == said[1] and said[1][1] == "0"
