"""The kernels of examples/nki/functional against NumPy. Programs of measured kernels are among them, so their values count too."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "python/compat"))


@pytest.fixture(params=["trn1", "trn2"], autouse=True)
def chip(request, monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", request.param)


def load(name):
    spec = importlib.util.spec_from_file_location(f"functional_{name}", ROOT / f"examples/nki/functional/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def numbers(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(got, want, limit=1e-4):
    assert np.abs(got - want).max() <= limit * max(1, np.abs(want).max())


def test_silu():
    x = numbers(128, 2, 1024)
    close(load("elementwise").silu(x), x / (1 + np.exp(-x)))


def test_adamw():
    w, g, m, v = numbers(200, 1024), numbers(200, 1024, seed=2), numbers(200, 1024, seed=3), np.abs(numbers(200, 1024, seed=4))
    first, second = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    close(load("elementwise").adamw(w, g, m, v), w * (1 - 1e-5) - 0.01 * first / (np.sqrt(1000 * second) + 1e-8))


def test_rope():
    x, angle = numbers(128, 1024), numbers(64, 1024, seed=2)
    a, b, cos, sin = x[:64], x[64:], np.cos(angle), np.sin(angle)
    close(load("elementwise").rope(x, cos, sin), np.concatenate([a * cos - b * sin, b * cos + a * sin]))


def test_batched():
    left, right = numbers(2, 1024, 64), numbers(2, 64, 2048, seed=2)
    close(load("products").batched(left, right), (left @ right).reshape(2, 8, 128, 2048))


def test_deep():
    left, right = numbers(2, 128, 16, 128), numbers(16, 128, 1024, seed=2)
    close(load("products").deep(left, right), (left.reshape(256, 2048) @ right.reshape(2048, 1024)).reshape(2, 128, 1024))


def test_swiglu():
    x, up, gate = numbers(1, 4, 128, 4, 128) / 8, numbers(4, 128, 1024, seed=2) / 8, numbers(4, 128, 1024, seed=3) / 8
    down = numbers(8, 128, 512, seed=4) / 8
    rows, up_, gate_ = x.reshape(512, 512), up.reshape(512, 1024), gate.reshape(512, 1024)
    gated = rows @ gate_
    want = (gated / (1 + np.exp(-gated)) * (rows @ up_)) @ down.reshape(1024, 512)
    close(load("products").swiglu(x, up, down, gate), want.reshape(4, 128, 512))


@pytest.mark.parametrize("order", ["states_outside", "channels_outside"])
def test_selective_scan(order):
    delta, u, a = np.abs(numbers(1, 256, 64)) * 0.1, numbers(1, 256, 64, seed=2), -np.abs(numbers(256, 3, seed=3))
    b, c = numbers(1, 3, 64, seed=4), numbers(1, 3, 64, seed=5)
    h, want = np.zeros((256, 3)), np.zeros((1, 256, 64))
    for t in range(64):
        h = np.exp(delta[0, :, t, None] * a) * h + (delta[0, :, t] * u[0, :, t])[:, None] * b[0, :, t]
        want[0, :, t] = h @ c[0, :, t]
    close(getattr(load("scan"), order)(delta, u, a, b, c), want)
