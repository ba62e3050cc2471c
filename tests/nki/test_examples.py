"""The kernels of examples/nki against NumPy, on every generation: values by the exact executor, and no findings."""

import importlib.util
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import trine

FOLDER = Path(__file__).resolve().parents[2] / "examples/nki"
CHIPS = ["trn1", "trn2", "trn3"]
BF16 = ml_dtypes.bfloat16


def load(name):
    spec = importlib.util.spec_from_file_location(f"examples_nki_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=CHIPS)
def chip(request, monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", request.param)
    return request.param


@pytest.fixture
def random():
    return np.random.default_rng(5)


def close(got, want, dtype):
    limit = {np.float32: 2e-5, BF16: 2e-2}[dtype]
    got, want = got.astype(np.float64), want.astype(np.float64)
    assert np.abs(got - want).max() <= limit * max(1, np.abs(want).max())


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_layernorm(chip, random, dtype):
    x = random.standard_normal((200, 1100)).astype(dtype)
    gamma, beta = (random.standard_normal(1100).astype(dtype) for _ in range(2))
    f = x.astype(np.float64)
    want = (f - f.mean(1, keepdims=True)) / np.sqrt(f.var(1, keepdims=True) + 1e-5) * gamma.astype(float) + beta.astype(float)
    close(load("norms").layernorm(x, gamma, beta), want, dtype)


@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_rmsnorm(chip, random, dtype):
    x, w = random.standard_normal((130, 700)).astype(dtype), random.standard_normal(700).astype(dtype)
    f = x.astype(np.float64)
    want = f / np.sqrt((f**2).mean(1, keepdims=True) + 1e-6) * w.astype(float)
    close(load("norms").rmsnorm(x, w), want, dtype)


@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_softmax(chip, random, dtype):
    x = (3 * random.standard_normal((260, 333))).astype(dtype)
    close(load("norms").softmax(x), softmax(x.astype(np.float64)), dtype)


def test_rope(chip, random):
    x = random.standard_normal((150, 128)).astype(np.float32)
    angle = np.arange(150)[:, None] * 10000.0 ** (-np.arange(64) / 64)
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    a, b = x[:, :64], x[:, 64:]
    close(load("rope").rope(x, cos, sin), np.concatenate([a * cos - b * sin, b * cos + a * sin], 1), np.float32)


def test_cumsum(chip, random):
    x = random.standard_normal((100, 1500)).astype(np.float32)
    close(load("scan").cumsum(x, chunk=512), np.cumsum(x.astype(np.float64), 1), np.float32)


def test_topk(chip, random):
    x = random.permutation(100 * 300).reshape(100, 300).astype(np.float32)
    values, indices = load("scan").topk(x, 24)
    order = np.argsort(-x, 1)[:, :24]
    assert (indices == order).all()
    assert (values == np.take_along_axis(x, order, 1)).all()


@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_conv1d(chip, random, dtype):
    x, w = random.standard_normal((64, 700)).astype(dtype), random.standard_normal((5, 64, 96)).astype(dtype)
    f, g = x.astype(np.float64), w.astype(np.float64)
    want = sum(g[k].T @ f[:, k : k + 696] for k in range(5))
    close(load("conv1d").conv1d(x, w), want, dtype)


def test_average_pool(chip, random):
    x = random.standard_normal((2, 256, 7, 7)).astype(np.float32)
    close(load("pool").average_pool(x), x.mean((2, 3), keepdims=True), np.float32)


def test_cross_entropy(chip, random):
    logits = random.standard_normal((140, 3000)).astype(np.float32)
    labels = random.integers(0, 3000, (140, 1))
    f = logits.astype(np.float64)
    want = np.log(np.exp(f).sum(1, keepdims=True)) - np.take_along_axis(f, labels, 1)
    close(load("cross_entropy").cross_entropy(logits, labels.astype(np.float32)), want, np.float32)


def attention(q, k, v, causal):
    s = q.T @ k / np.sqrt(q.shape[0])
    if causal:
        s = np.where(np.tril(np.ones(s.shape, bool)), s, -np.inf)
    return softmax(s) @ v


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_flash_attention(chip, random, dtype, causal):
    q, k = (random.standard_normal((64, 512)).astype(dtype) for _ in range(2))
    v = random.standard_normal((512, 64)).astype(dtype)
    out, lse = load("attention").flash_attention(q, k, v, causal=causal, block=256)
    close(out, attention(q.astype(float), k.astype(float), v.astype(float), causal), dtype)


@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention_backward(chip, random, causal):
    n, d = 256, 64
    q, k = (random.standard_normal((d, n)).astype(np.float32) for _ in range(2))
    v, grad = (random.standard_normal((n, d)).astype(np.float32) for _ in range(2))
    kernels = load("attention")
    out, lse = kernels.flash_attention(q, k, v, causal=causal, block=256)
    dq, dk, dv = kernels.flash_attention_backward(q, k, v, out, lse, grad, causal=causal)
    s = (q.T @ k).astype(float) / np.sqrt(d)
    if causal:
        s = np.where(np.tril(np.ones(s.shape, bool)), s, -np.inf)
    p = softmax(s)
    dp = grad.astype(float) @ v.T
    ds = p * (dp - (dp * p).sum(1, keepdims=True)) / np.sqrt(d)
    close(dq, k @ ds.T, np.float32)
    close(dk, q @ ds, np.float32)
    close(dv, p.T @ grad, np.float32)


@pytest.mark.parametrize("schedule", ["narrow", "tiled", "hoisted", "blocked", "blocked_k", "one_accumulator", "two_accumulators"])
@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_matmul(chip, random, dtype, schedule):
    a, b = random.standard_normal((512, 512)).astype(dtype), random.standard_normal((512, 1024)).astype(dtype)
    got = getattr(load("matmul"), schedule)(a, b)
    close(got, a.astype(np.float64).T @ b.astype(np.float64), dtype)


def test_better_matmul_schedules_are_faster():
    """2048 cubed in bf16 on trn2, from naive loads to blocks in every dimension."""
    times = [trine.report(k, (2048, 2048), (2048, 2048), dtype="bfloat16", instance="trn2.3xlarge").time_ns
             for k in load("matmul").SCHEDULES]  # fmt: skip
    assert times == sorted(times, reverse=True)
    assert times[-1] < times[0] / 5


def test_rmsnorm_qkv(chip, random):
    x, w = random.standard_normal((2, 256, 384)).astype(BF16), random.standard_normal((384, 200)).astype(BF16)
    f = x.astype(np.float64)
    want = f / np.sqrt((f**2).mean(-1, keepdims=True) + 1e-6) @ w.astype(np.float64)
    close(load("qkv").rmsnorm_qkv(x, w), want, BF16)
