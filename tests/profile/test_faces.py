"""The other ways to a profile: jax, NKI kernels, a compiled program, NEURON_RT_INSPECT_ENABLE, a block, torch.profiler."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
JAX = """
import jax, jax.numpy as jnp
f = jax.jit(lambda w, x: jax.nn.gelu(x @ w).sum())
for _ in range(5):
    f(jnp.ones((128, 128)), jnp.ones((64, 128))).block_until_ready()
"""
KERNEL = """
import numpy as np
import trine.nki as nki, trine.nki.isa as nisa, trine.nki.language as nl
@nki.jit
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out
for _ in range(3):
    nki.simulate(double)(np.ones((128, 512), np.float32))
"""
BLOCK = """
import sys
import torch
from trine import profile
x = torch.randn(64, 64, device="neuron")
(x @ x).sum()
with profile.recorded(sys.argv[1], "trn1.2xlarge") as r:
    for _ in range(3):
        (x @ x).sum()
print(r.info["ranks"][0]["runs"], r.info["time_ns"])
"""

KINETO = """
import torch
from torch.profiler import profile, ProfilerActivity
import trine
m, x = torch.nn.Linear(64, 64).to("neuron"), torch.randn(16, 64, device="neuron")
m(x)
with trine.timed("trn1.2xlarge") as t:
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as p:
        for _ in range(3):
            m(x)
p.export_chrome_trace("trace.json")
import json
rows = [e for e in json.load(open("trace.json"))["traceEvents"] if e.get("cat") == "kernel"]
print(len(rows), sum(e["args"]["chip_ns"] for e in rows), t.time_ns, sum(r.runs for r in t.programs))
"""


EAGER = """
import torch
x = torch.ones(64, 64, device="neuron")
for _ in range(3):
    y = torch.tanh(
        x @ x)
y.cpu()
"""
LAZY = """
import torch
import torch_xla.core.xla_model as xm
x = torch.ones(64, 64, device=xm.xla_device())
for _ in range(3):
    y = torch.tanh(x @ x)
    xm.mark_step()
y.cpu()
"""
COMPILED = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(64, 64)
    def forward(self, x):
        return torch.tanh(self.inner(x))
plain = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
net, plain = (torch.compile(m.to("neuron"), backend="neuron") for m in (Net(), plain))
x = torch.ones(64, 64, device="neuron")
net(x).sum().backward()
plain(x).cpu()
"""


def python(text, folder, *words, **env):
    (folder / "script.py").write_text(text)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TRINE_", "NEURON_"))}
    done = subprocess.run([sys.executable, "script.py", *words], cwd=folder, env=clean | {"PYTHONPATH": str(ROOT / "python")} | env, capture_output=True,
                          text=True, timeout=600)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_jax(capture):
    p = capture(JAX).open()
    row = next(r for r in p.info["programs"] if "lambda" in r["name"])
    assert row["runs"] == 5 and row["each_ns"] > 0 and p.info["steps"] >= 4
    assert any(line["file"].endswith("train.py") and "gelu" in line["text"] for line in p.source())


@pytest.mark.parametrize(("text", "wanted"), [(EAGER, {5, 6}), (LAZY, {6}), (COMPILED, {8, 13})], ids=["eager", "lazy", "compiled"])
def test_explain_names_lines_of_torch(capture, trine, text, wanted):
    """A layer's line where the model has one; for layers that torch calls itself (a Sequential) the line that calls the model."""
    captured = capture(text)
    done = subprocess.run([trine, "explain", captured.path, "--json"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    lines = json.loads(done.stdout)["explain"]["lines"]
    assert wanted <= {line["line"] for line in lines if line["file"].endswith("train.py") and line["text"]}, lines


def test_explain_names_nodes_of_onnx(trine, tmp_path):
    """What is fused into a product (the Tanh) has its node's name."""
    onnx = pytest.importorskip("onnx")
    h, f32 = onnx.helper, onnx.TensorProto.FLOAT
    w = h.make_tensor("w", f32, [64, 64], [0.01] * 64 * 64)
    nodes = [h.make_node("MatMul", ["x", "w"], ["a"], name="/model/up"), h.make_node("Tanh", ["a"], ["b"], name="/model/act"),
             h.make_node("MatMul", ["b", "w"], ["y"], name="/model/down")]  # fmt: skip
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", f32, [32, 64])], [h.make_tensor_value_info("y", f32, [32, 64])], [w])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    for words in (["compile", "m.onnx", "--instance", "trn1.2xlarge", "-o", "m.trn"], ["profile", "capture", "-n", "m.trn", "-s", "m.ntff", "--instance", "trn1.2xlarge"],
                  ["explain", "m.ntff"]):  # fmt: skip
        done = subprocess.run([trine, *words], cwd=tmp_path, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
    from trine import profile

    p = profile.open(tmp_path / "m.ntff")
    assert {"/model/up", "/model/down"} <= {op["framework_op"] for op in p.operators()}, done.stdout
    assert {line["text"] for line in p.source()} >= {"/model/up", "/model/down"} and "m.onnx /model/" in done.stdout


def test_kernel(capture):
    p = capture(KERNEL, "--instance", "trn2.3xlarge").open()
    (row,) = p.info["programs"]
    assert row["runs"] == 3 and row["name"] == "double" and not row["why_not"]
    assert {line["line"] for line in p.source()} == {8, 9, 10}


def test_a_program_alone(trine, tmp_path):
    sys.path.insert(0, str(ROOT / "tests/run"))
    from test_trace import SMALL

    (tmp_path / "small.tasm").write_text(SMALL)
    line = [trine, "profile", "capture", "-n", tmp_path / "small.tasm", "-s", tmp_path / "p.ntff", "--instance", "trn2.3xlarge", "--num-exec", "2"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    from trine import profile

    p = profile.open(tmp_path / "p.ntff")
    assert p.info["programs"][0]["runs"] == 2 and p.memory("sbuf")


def test_inspect_variable(tmp_path):
    python(JAX, tmp_path, NEURON_RT_INSPECT_ENABLE="1", NEURON_RT_INSPECT_OUTPUT_DIR=str(tmp_path / "out"))
    from trine import profile

    (file,) = (tmp_path / "out").rglob("*.ntff")
    assert any(r["runs"] == 5 for r in profile.open(file).info["programs"])


def test_block(tmp_path):
    runs, ns = python(BLOCK, tmp_path, str(tmp_path / "b.ntff")).split()
    assert int(runs) == 6 and float(ns) > 0


def test_an_estimate_without_weights(trine, tmp_path):
    """A model by its config: time, layers by name, the model's lines."""
    from trine import profile

    line = [trine, "estimate", "--config", "bert-base", "--batch", "1", "--instance", "inf2.xlarge", "--profile", tmp_path / "e.ntff", "--json"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    p = profile.open(tmp_path / "e.ntff")
    assert p.info["time_ns"] > 1e6 and any("mlp" in op["framework_op"] for op in p.operators()[:5])
    assert p.source()[0]["text"] and p.source()[0]["file"].endswith(".py")
    done = subprocess.run([trine, "explain", tmp_path / "e.ntff", "--json"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and '"advice"' in done.stdout


def test_torch_profiler_has_the_chips_time(tmp_path):
    rows, ns, timed, runs = (float(n) for n in python(KINETO, tmp_path, TRINE_INSTANCE="trn1.2xlarge").split())
    assert rows == runs == 3 and abs(ns - timed) <= rows
