"""Gradients of attention on the device: found however they are written, and right."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trine import _core
from trine.estimate.lowering import stablehlo
from trine.models.layers import attend

RNG = np.random.default_rng(0)


def seen(q, k):
    return (jnp.arange(k)[None] <= jnp.arange(q)[:, None] + (k - q))[None, None]


def by_jax(q, k, v, extra, **how):
    return jax.nn.dot_product_attention(q, k, v, **how)


def by_hand(q, k, v, extra):
    """Softmax as textbooks write it: its derivative is another expression."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 3
    e = jnp.exp(scores - jax.lax.stop_gradient(scores.max(-1, keepdims=True)))
    return jnp.einsum("bhqk,bkhd->bqhd", e / e.sum(-1, keepdims=True), v)


# (batch, queries, keys, heads, heads of keys, dim), the function, what it has besides
CASES = {
    "plain": ((2, 64, 64, 4, 4, 32), lambda q, k, v, e: attend(q, k, v, None), None),
    "causal": ((2, 64, 64, 2, 2, 32), lambda q, k, v, e: attend(q, k, v, seen(64, 64)), None),
    "causal, heads share keys": ((1, 200, 200, 4, 2, 16), lambda q, k, v, e: attend(q, k, v, seen(200, 200)), None),
    "causal, odd": ((1, 33, 33, 2, 1, 16), lambda q, k, v, e: attend(q, k, v, seen(33, 33)), None),
    "causal, after others": ((1, 40, 100, 2, 1, 32), lambda q, k, v, e: attend(q, k, v, seen(40, 100)), None),
    "causal, blocks": ((1, 700, 700, 1, 1, 16), lambda q, k, v, e: attend(q, k, v, seen(700, 700)), None),
    "across": ((1, 130, 70, 2, 1, 32), lambda q, k, v, e: attend(q, k, v, None), None),
    "padding": ((3, 48, 70, 2, 2, 32), lambda q, k, v, e: attend(q, k, v, e[:, None, None]), RNG.integers(0, 4, (3, 70)) > 0),
    "all padding": ((2, 48, 70, 2, 2, 32), lambda q, k, v, e: attend(q, k, v, e[:, None, None]), np.arange(140).reshape(2, 70) > 100),
    "a mask": ((2, 48, 70, 2, 2, 32), lambda q, k, v, e: attend(q, k, v, e), RNG.integers(0, 4, (2, 1, 48, 70)) > 0),
    "a bias": ((2, 48, 70, 4, 2, 32), lambda q, k, v, e: attend(q, k, v, None, bias=e), RNG.standard_normal((4, 48, 70)).astype(np.float32)),
    "jax.nn": ((2, 64, 64, 4, 4, 32), by_jax, None),
    "jax.nn, causal": ((2, 64, 64, 4, 2, 32), lambda *a: by_jax(*a, is_causal=True), None),
    "by hand": ((2, 64, 64, 2, 2, 32), by_hand, None),
}


def step_of(name):
    (b, q, k, heads, kv, d), f, extra = CASES[name]
    args = [RNG.standard_normal(s).astype(np.float32) for s in ((b, q, heads, d), (b, k, kv, d), (b, k, kv, d), (b, q, heads * d))]

    def step(q, k, v, w, *rest):
        def loss(q, k, v):
            return (jnp.sin(f(q * 1.1, k, v, *(rest or [None]))).reshape(w.shape) * w).sum()

        return jax.value_and_grad(loss, (0, 1, 2))(q, k, v)

    return step, args if extra is None else [*args, extra]


def check(name, chip, cast="none", tolerance=1e-4):
    step, args = step_of(name)
    with jax.default_device(jax.devices("cpu")[0]):
        want = [np.asarray(w) for w in jax.tree.leaves(jax.jit(step)(*args))]
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in args]
    compiled = _core.compile_device(stablehlo(step, *shapes), chip, cast, "bf16", [])
    assert "op0=subtract op1=multiply" in compiled.program.disassemble(), "the gradient is not computed as a whole"
    got, findings, _ = compiled.run(args, chip)
    assert not findings
    for g, w in zip(got, want, strict=True):
        assert np.abs(g - w).max() <= tolerance * (1e-3 + np.abs(w).max())


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_found_and_right(name):
    check(name, "trn1")


@pytest.mark.parametrize("chip", ["trn2", "trn3"])
def test_on_other_chips(chip):
    check("causal, heads share keys", chip)


def test_with_multiplies_in_bf16():
    check("causal, heads share keys", "trn1", "matmult", 2e-2)
