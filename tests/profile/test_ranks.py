"""Several processes in one profile: the lines of the common tutorial, unchanged, over torchrun."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

DDP = """
import torch, torch.distributed as dist
dist.init_process_group("neuron")
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).to("neuron"))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(16 + 16 * (dist.get_rank() == 1), 64).to("neuron")  # the second rank has twice the work
for _ in range(4):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""


def run(words, folder, trine):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TRINE_", "NEURON_"))}
    env |= {"PYTHONPATH": str(ROOT / "python"), "VIRTUAL_ENV": sys.prefix, "PATH": f"{trine.parent}:{Path(sys.executable).parent}:{env['PATH']}"}
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=900)


@pytest.mark.slow
def test_torchrun_of_four(tmp_path, trine):
    from trine import profile

    (tmp_path / "train.py").write_text(DDP)
    done = run(["neuron-profile", "capture", "--output", "profile.ntff", "--", "torchrun", "--nproc-per-node", "4", "train.py"], tmp_path, trine)
    assert done.returncode == 0, done.stderr
    p = profile.open(tmp_path / "profile.ntff")
    assert len(p.info["ranks"]) == 4 and p.info["steps"] in (3, 4)
    sums = [e for e in p.info["exchanges"] if e["kind"] == "all_reduce"]
    assert sums and all(e["count"] % 4 == 0 and e["each_ns"] > 0 for e in sums)
    waits = p.waits()
    assert waits[0][1] > 0 and waits[1][1] == 0, "ranks wait for the one with twice the work"
    collectives = [t for t in p.tracks() if t["kind"] == "collective"]
    assert len(collectives) == 4
    ends = {r: p.runs[(p.runs["rank"] == r) & (p.runs["lane"] == 1)]["end"][-1] for r in range(4)}
    assert len(set(ends.values())) == 1, "a collective ends for all its ranks at once"
    done = run(["neuron-profile", "view", "profile.ntff", "--output-format", "summary-text"], tmp_path, trine)
    assert done.returncode == 0 and "4 ranks" in done.stdout and "collectives" in done.stdout


@pytest.mark.slow
def test_the_examples_training_script(tmp_path, trine):
    """The common tutorial's line over examples/torch; what the profile says is what trine.timed says."""
    from trine import profile

    script = ROOT / "examples/torch/bert_training.py"
    done = run(["neuron-profile", "capture", "--output", "profile.ntff", "--", "python", str(script), "--steps", "4"], tmp_path, trine)
    assert done.returncode == 0 and "loss" in done.stdout, done.stderr
    p = profile.open(tmp_path / "profile.ntff")
    assert p.info["steps"] == 3 and any("modeling_bert.py" in line["file"] for line in p.source())
    assert p.source()[0]["text"] and p.advice()[0]["gain_ns"] > 0
    done = run(["trine", "explain", "profile.ntff"], tmp_path, trine)
    assert done.returncode == 0 and "modeling_bert.py:" in done.stdout, done.stderr
