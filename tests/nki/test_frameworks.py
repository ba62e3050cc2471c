"""Arrays of torch and JAX, in and out, in both dialects. Each half is skipped where its library is not installed."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python/compat"))

import neuronxcc.nki as old_nki  # noqa: E402
import neuronxcc.nki.language as old_nl  # noqa: E402

import trine  # noqa: E402
import trine.nki as nki  # noqa: E402
import trine.nki.language as nl  # noqa: E402


@nki.jit
def double(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(a), 2))
    return out


@old_nki.jit
def old_double(a):
    out = old_nl.ndarray(a.shape, dtype=a.dtype, buffer=old_nl.shared_hbm)
    old_nl.store(out, old_nl.load(a) * 2)
    return out


@nki.jit
def double_in_place(a):
    nl.store(a, nl.multiply(nl.load(a), 2))
    return a


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def jax():
    return pytest.importorskip("jax")


@pytest.mark.parametrize("kernel", [double, old_double])
@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float8_e5m2", "int32", "int8", "uint8"])
def test_torch(torch, kernel, name):
    x = torch.arange(64).reshape(32, 2).to(getattr(torch, name))
    got = kernel(x)
    assert got.dtype == x.dtype and torch.equal(got.float(), (2 * x.float()).to(x.dtype).float())


def test_torch_tensors_of_all_kinds(torch):
    x = torch.arange(64.0).reshape(2, 32)
    assert torch.equal(double(x.T), 2 * x.T)  # not contiguous
    assert torch.equal(double(x.requires_grad_()), 2 * x.detach())
    with pytest.raises(trine.NkiError, match="NKI006.*\n.*\n.*no data"):
        double(torch.empty(32, 2, device="meta"))
    assert trine.report(double, torch.empty(32, 2, device="meta")).time_ns > 0
    with pytest.raises(trine.NkiError, match="torch.float64"):
        double(torch.ones(2, 2, dtype=torch.float64))


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_torch_arguments_are_written_in_place(torch, name):
    for x in (torch.ones(32, 2), torch.ones(2, 32).T):
        x = x.to(getattr(torch, name))
        assert (double_in_place(x) == 2).all() and (x == 2).all()


@pytest.mark.parametrize("kernel", [double, old_double])
@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float8_e5m2", "int32"])
def test_jax(jax, kernel, name):
    x = jax.numpy.arange(64).reshape(32, 2).astype(getattr(jax.numpy, name))
    got = kernel(x)
    assert isinstance(got, jax.Array) and got.dtype == x.dtype
    assert (np.asarray(got, np.float32) == np.asarray((2 * x.astype("float32")).astype(x.dtype), np.float32)).all()


def test_a_kernel_inside_jax_jit(jax):
    x = jax.numpy.arange(64.0).reshape(32, 2)
    with jax.default_device(jax.devices("cpu")[0]):  # a kernel in jit is a call back to Python, which CPU has
        here = jax.device_put(x, jax.devices("cpu")[0])
        assert (jax.jit(lambda v: double(v + 1) + 1)(here) == 2 * (here + 1) + 1).all()
    assert jax.eval_shape(double, x).shape == (32, 2)
    assert (double_in_place(x) == 2 * x).all() and x[0, 1] == 1  # JAX's arrays stay as they are
    assert trine.report(double, jax.ShapeDtypeStruct((32, 2), "bfloat16")).time_ns > 0


def test_neither_is_imported_by_us():
    """A process that has only NumPy stays that way."""
    import subprocess

    code = "import sys, trine.nki, neuronxcc.nki; sys.exit(any(m in sys.modules for m in ('torch', 'jax')))"
    path = Path(importlib.import_module("neuronxcc").__file__).parents[1]
    assert subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(path)!r}); {code}"]).returncode == 0
