"""Small programs that are run again and again: loops that stay wired, short rows, pieces, products of tiny matrices."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

RANDOM = np.random.default_rng(0)


def array(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def test_loop_with_other_memory_each_time():
    f = jax.jit(lambda x, w: lax.scan(lambda c, v: (jnp.tanh(c + v * w), c * 2), jnp.zeros(5), x))
    for _ in range(6):
        x, w, c = array(7, 5), array(5), np.zeros(5, np.float32)
        last, rows = f(x, w)
        for v, row in zip(x, rows, strict=True):
            np.testing.assert_allclose(row, c * 2, rtol=1e-5, atol=1e-6)
            c = np.tanh(c + v * w)
        np.testing.assert_allclose(last, c, rtol=1e-5, atol=1e-6)


def test_loop_that_does_not_begin_and_one_that_does():
    f = jax.jit(lambda x, n: lax.while_loop(lambda s: s[1] < n, lambda s: (s[0] * 2, s[1] + 1), (x, 0)))
    for n in (0, 3, 0, 1):
        x, count = f(np.float32([1, 3]), n)
        np.testing.assert_array_equal(x, np.float32([1, 3]) * 2**n)
        assert count == n


def test_loop_by_several_threads():
    f = jax.jit(lambda x: lax.fori_loop(0, 200, lambda _, v: v * 1.001 + x, x))
    want = [np.asarray(f(np.full(3, i, np.float32))) for i in range(8)]
    wrong = []

    def run(i):
        for _ in range(50):
            if not np.array_equal(f(np.full(3, i, np.float32)), want[i]):
                wrong.append(i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.parametrize("width", range(1, 34))
def test_short_rows(width):
    x, y = array(9, 5, width), array(9, 5, width)
    np.testing.assert_allclose(jax.jit(lambda x, y: x[:, ::-1] * 2 + y)(x, y), x[:, ::-1] * 2 + y, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(lambda x: (x[0, 0] + 1) * x[0, 1])(x), (x[0, 0] + 1) * x[0, 1], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float16])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 6, 8, 12])
def test_flips_of_images(dtype, channels):
    x = (array(11, 13, channels) * 50).astype(dtype)
    for flipped in (lambda x: x[:, ::-1], lambda x: x[::-1], lambda x: x[::-1, ::-1]):
        np.testing.assert_array_equal(jax.jit(flipped)(x), flipped(x))


@pytest.mark.parametrize("m, k, n", [(3, 3, 3), (2, 4, 3), (4, 2, 4), (5, 3, 2), (16, 8, 1), (8, 16, 1), (1, 7, 1)])
@pytest.mark.parametrize("is_left_transposed", [False, True])
def test_products_of_tiny_matrices(m, k, n, is_left_transposed):
    a, b = array(37, *((k, m) if is_left_transposed else (m, k))), array(37, k, n)

    def f(module, a, b):
        return module.matmul(a.swapaxes(1, 2) if is_left_transposed else a, b)

    np.testing.assert_allclose(jax.jit(lambda a, b: f(jnp, a, b))(a, b), f(np, a, b), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(jax.jit(lambda a, b: f(jnp, a, b) * 2 + 1)(a, b), f(np, a, b) * 2 + 1, rtol=1e-4, atol=1e-5)


def test_squares_are_part_of_loops():
    x = array(8, 40)
    np.testing.assert_allclose(jax.jit(lambda x: jnp.square(x + 1).sum(1))(x), np.square(x + 1).sum(1), rtol=1e-5)
    i = np.arange(-4, 5, dtype=np.int32)
    np.testing.assert_array_equal(jax.jit(jnp.square)(i), i * i)


@pytest.mark.parametrize("kind, start", [(lax.bitwise_or, False), (lax.bitwise_and, True)])
@pytest.mark.parametrize("size", [2, 5])
def test_windows_of_truths(kind, start, size):
    x = RANDOM.random((20, 33)) < (0.1 if kind is lax.bitwise_or else 0.9)
    got = jax.jit(lambda x: lax.reduce_window(x, start, kind, (size, size), (1, 1), "VALID"))(x)
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size))
    np.testing.assert_array_equal(got, windows.any((2, 3)) if kind is lax.bitwise_or else windows.all((2, 3)))
