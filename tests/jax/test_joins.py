"""Concatenations and pads inside loops: rolls, stencils, stacks of numbers, against the same computation in numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

RANDOM = np.random.default_rng(0)


def same(f, *args):
    """On the device as numpy computes it: `f` takes the module."""
    got = jax.jit(lambda *a: f(jnp, *a))(*args)
    np.testing.assert_allclose(got, f(np, *args), rtol=2e-5, atol=1e-6)


def array(*shape, dtype=np.float32):
    x = RANDOM.normal(size=shape) * 4
    return x.astype(dtype)


@pytest.mark.parametrize("shape", [(64, 48), (5, 40), (3, 3), (1, 33)])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.int16])
def test_rolls_of_a_plane(shape, dtype):
    same(lambda m, x: m.roll(x, 1, 0) + m.roll(x, -1, 1) - 2 * m.roll(x, (2, -3), (0, 1)) + x, array(*shape, dtype=dtype))


@pytest.mark.parametrize("mode", ["constant", "wrap", "edge", "reflect"])
def test_pads_of_a_plane(mode):
    def f(m, x):
        p = m.pad(x, 2, mode=mode)
        return p[:-4, 1:-3] * 2 + p[4:, 3:-1] - p[2:-2, 2:-2]

    same(f, array(32, 50))


def test_one_sided_and_reversed():
    same(lambda m, x: m.pad(x * 2, ((3, 0), (0, 1)))[::-1, ::-1] + 1, array(20, 31))
    same(lambda m, x: m.concatenate([x[:, ::-1], x * 3, x[:, 1::2]], 1) - 1, array(9, 64))


def test_roll_is_read_before_it_is_overwritten():
    x = array(64, 64)
    got = jax.jit(lambda x: lax.fori_loop(0, 5, lambda _, u: 0.5 * u + 0.25 * (jnp.roll(u, 1, 0) + jnp.roll(u, 1, 1)), x))(x)
    for _ in range(5):
        x = 0.5 * x + 0.25 * (np.roll(x, 1, 0) + np.roll(x, 1, 1))
    np.testing.assert_allclose(got, x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [2, 3, 8, 9, 31, 33])
def test_rows_of_few_numbers(count):
    def f(m, x):
        y = m.concatenate([x[1:] * x[:-1], x[:1]]) + m.pad(x[1:] - 1, (1, 0)) + m.pad(x[:-1] * 2, (0, 1))
        return m.stack([y[0], y[1] * 2, m.sin(y[-1])]) + y[:2].sum()

    same(f, array(count))


def test_numbers_of_a_step():
    def step(m, v):
        x, y, z = v
        d = m.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])
        return (v + np.float32(0.01) * d).astype(np.float32)

    got = jax.jit(lambda v: lax.scan(lambda v, _: (step(jnp, v), v), v, None, 20)[1])(np.ones(3, np.float32))
    v = np.ones(3, np.float32)
    for g in got:
        np.testing.assert_allclose(g, v, rtol=1e-4)
        v = step(np, v)


def test_gathers_find_their_operand_in_memory():
    a = array(8, 8) + 8 * np.eye(8, dtype=np.float32)
    same(lambda m, a, b: m.linalg.solve(a, b), a, array(8, 1))


def test_uniform_powers():
    same(lambda m, x, i: x / (1 - m.power(np.float32(0.9), i)) + m.arctan2(i, np.float32(3)), array(10), np.float32(7))
