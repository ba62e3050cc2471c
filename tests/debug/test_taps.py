"""Tensors of programs that run as they are: dumped, replaced, watched for NaN."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from trine import debug
from trine.debug import names

PROGRAM = """
import jax, jax.numpy as jnp
@jax.jit
def inner(x):
    return jnp.log(x) * 2
@jax.jit
def f(x):
    for i in range(3):
        with jax.named_scope(f"layer {i}"):
            x = inner(x + 1)
    return x
print(f(jnp.full((4,), START)).tolist())
print(f(jnp.full((4,), 3.0)).tolist())
"""


def run(tmp_path, program, **env):
    (tmp_path / "program.py").write_text(program)
    return subprocess.run([sys.executable, "program.py"], cwd=tmp_path, env={**os.environ, **env}, capture_output=True, text=True)


def test_jax_dump_by_the_environment(tmp_path):
    done = run(tmp_path, PROGRAM.replace("START", "2.0"), TRINE_DUMP="layer.1.*", TRINE_DUMP_STEPS="1", RANK="5")
    assert done.returncode == 0, done.stderr
    files = sorted(p.relative_to(tmp_path / "trine_dump").as_posix() for p in tmp_path.rglob("*.safetensors"))
    assert files and all(f.startswith("rank5/step1/layer.1.") for f in files), files
    assert "rank5/step1/layer.1.log.safetensors" in files  # inside a function that three layers call
    x = 2 * np.log(np.float32(3 + 1)) + 1
    assert load_file(tmp_path / "trine_dump/rank5/step1/layer.1.log.safetensors")["layer.1.log"] == pytest.approx(np.log([x] * 4), rel=1e-6)


def test_jax_fails_on_nan_and_names_the_op(tmp_path):
    good = run(tmp_path, PROGRAM.replace("START", "2.0"), NEURON_FAIL_ON_NAN="1")
    assert good.returncode == 0, good.stderr
    done = run(tmp_path, PROGRAM.replace("START", "-5.0"), NEURON_FAIL_ON_NAN="1")
    assert done.returncode != 0
    for words in ("NaN: layer 0/log", "program.py", "float32[4] -4 to -4", "step      0"):
        assert words in done.stderr, done.stderr


def test_jax_replacement_and_blocks(tmp_path):
    @jax.jit
    def f(x):
        with jax.named_scope("layer 0"):
            y = jnp.sin(x)
        with jax.named_scope("layer 1"):
            return y * 3

    x = jnp.arange(4.0)
    plain = f(x)
    save_file({"any": np.ones(4, np.float32)}, tmp_path / "one.safetensors")
    with debug.replace({"layer.0.sin": tmp_path / "one.safetensors"}):
        assert f(x).tolist() == [3.0] * 4
    with debug.dump("layer.0.*", to=tmp_path / "out"):
        assert f(x).tolist() == plain.tolist()
    assert f(x).tolist() == plain.tolist()
    assert load_file(tmp_path / "out/rank0/step0/layer.0.sin.safetensors")["layer.0.sin"].tolist() == np.asarray(jnp.sin(x)).tolist()
    save_file({"any": np.ones(3, np.float32)}, tmp_path / "short.safetensors")
    with debug.replace({"layer.0.sin": tmp_path / "short.safetensors"}), pytest.raises(Exception, match="no tensor of shape"):
        f(x).block_until_ready()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)])

    def forward(self, x):
        for layer in self.layers:
            x = torch.log(layer(x) ** 2 + 1)
        return x / x.sum().clamp(max=0)


@pytest.mark.parametrize("how", ["eager", "compiled"])
def test_torch_watch_names_op_line_and_ranges(how):
    torch.manual_seed(0)
    model, x = Net().to("neuron"), torch.randn(2, 4).to("neuron")
    model = torch.compile(model, backend="neuron") if how == "compiled" else model
    with debug.fail_on_nan(), pytest.raises(FloatingPointError) as e, torch.no_grad():
        model(x)
    for words in ("infinity", "div", "test_taps.py:", "float32[2, 4]"):
        assert words in str(e.value), e.value
    with torch.no_grad():
        assert torch.isinf(model(x).cpu()).all()


@pytest.mark.parametrize("how", ["eager", "compiled"])
def test_torch_dump_and_replace(how, tmp_path):
    torch.manual_seed(0)
    model, x = Net(), torch.randn(2, 4)
    with torch.no_grad():
        wanted = model.layers[1](torch.log(model.layers[0](x) ** 2 + 1))
    model = model.to("neuron")
    called = torch.compile(model, backend="neuron") if how == "compiled" else model
    with debug.dump("layer.1*", to=tmp_path, steps=[1]), torch.no_grad():
        called(x.to("neuron"))
        called(x.to("neuron"))
    files = list(tmp_path.rglob("*.safetensors"))
    assert files and {f.parent.name for f in files} == {"step1"}, files
    values = [v for f in files for v in load_file(f).values()]
    assert any(v.shape == (2, 4) and np.allclose(v, wanted.numpy(), atol=1e-5) for v in values), files
    if how == "eager":
        save_file({"any": np.zeros((2, 4), np.float32)}, tmp_path / "zero.safetensors")
        with debug.replace({"layers.1": tmp_path / "zero.safetensors"}), torch.no_grad():
            assert torch.isnan(called(x.to("neuron")).cpu()).all()  # 0 / 0


def test_torch_fails_on_nan_by_the_environment(tmp_path):
    program = "import torch\nx = torch.zeros(3, device='neuron')\ny = x + 1\nz = x / x\nprint('not reached')\n"
    done = run(tmp_path, program, NEURON_FAIL_ON_NAN="1")
    assert done.returncode != 0 and "not reached" not in done.stdout
    assert "NaN: div" in done.stderr and "program.py:4" in done.stderr, done.stderr
    assert "not reached" in run(tmp_path, program).stdout


def test_torch_anomaly_mode_finds_the_backward_op():
    x = torch.zeros(3, device="neuron", requires_grad=True)
    with torch.autograd.detect_anomaly(check_nan=True), pytest.raises(RuntimeError, match="nan"):
        torch.sqrt(x * 0).sum().backward()


PRINTS = """
import jax, jax.numpy as jnp, numpy as np
import trine.nki as nki, trine.nki.isa as nisa, trine.nki.language as nl

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nl.device_print("first", tile)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nl.device_print("second", tile)
    nisa.dma_copy(dst=out, src=tile)
    return out

nki.simulate(kernel)(np.ones((1, 2), np.float32))

@jax.jit
def f(x):
    jax.debug.print("third {}", x, ordered=True)
    jax.debug.print("fourth {}", x * 2, ordered=True)
    return x

f(jnp.float32(1)).block_until_ready()
jax.effects_barrier()
"""


def test_prints_in_order_and_by_rank(tmp_path):
    wanted = ["first [[1. 1.]]", "second [[2. 2.]]", "third 1.0", "fourth 2.0"]
    alone = run(tmp_path, PRINTS)
    assert alone.stdout.splitlines() == wanted, alone.stderr
    several = run(tmp_path, PRINTS, RANK="2", WORLD_SIZE="4")
    assert several.stdout.splitlines() == [f"[rank 2] {line}" for line in wanted], several.stderr


def test_names():
    assert names.matches("layer 3/attention/dot", "layer.3.*") and names.matches("model.layers.3.mlp", "layer.3.*")
    assert not names.matches("layer 31/mlp", "layer.3.*") and names.matches("transformer.h.0.ln", "layer.0.ln")
    assert names.numbers("0,3-5") == {0, 3, 4, 5} and names.numbers("") is None
    with pytest.raises(ValueError, match="expected numbers and ranges"):
        names.numbers("a")
