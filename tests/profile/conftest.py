"""A small training script in PyTorch, captured once for all tests of this folder."""

import os
import subprocess
import sys

import pytest

TRAIN = """
import sys
import torch
import trine

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 64)).to("neuron")
optimizer = torch.optim.AdamW(model.parameters())
step = torch.compile(model, backend="neuron")
x, y = torch.randn(32, 64).to("neuron"), torch.randn(32, 64).to("neuron")
with trine.timed("trn1.2xlarge") as t:
    for _ in range(6):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(step(x), y)
        loss.backward()
        optimizer.step()
loss.item()
print(repr(t.time_ns), repr(t.device_ns), repr(t.launch_ns), sum(r.runs for r in t.programs))
"""


class Captured:
    """A captured run: the file, and what the command printed."""

    def __init__(self, path, out, err):
        self.path, self.out, self.err = path, out, err

    def open(self):
        from trine import profile

        return profile.open(self.path)


@pytest.fixture(scope="session")
def capture(tmp_path_factory, request):
    """Runs `trine profile capture` over a Python text in a folder of its own."""

    def run(text, *options, name="profile.ntff", words=()):
        folder = tmp_path_factory.mktemp("profile")
        (folder / "train.py").write_text(text)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("TRINE_", "NEURON_"))}
        env |= {"PYTHONPATH": str(request.config.rootpath / "python"), "VIRTUAL_ENV": sys.prefix, "TRINE_CACHE_DIR": str(folder / "cache")}
        line = [str(request.config.trine), "profile", "capture", "-o", name, "--instance", "trn1.2xlarge", *options, "--", sys.executable, *words, "train.py"]
        done = subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr
        return Captured(folder / name, done.stdout, done.stderr)

    return run


@pytest.fixture(scope="session")
def trained(capture):
    return capture(TRAIN)
