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


@pytest.mark.parametrize("length", [1, 2, 9, 10, 11, 40])
@pytest.mark.parametrize("width", [1, 3, 8, 13, 64, 65])
def test_loops_of_moves_and_numbers(length, width):
    """Rows in and out, a count and a carried row: machine code from the ninth iteration on, on memory that changes."""

    def f(x, c):
        def step(s, v):
            a, b, n = s
            return (a * 0.5 + v, a, n + 1), jnp.where(n % 2 == 0, a + b, v - b)

        return lax.scan(step, (c, c * 2, 0), x)

    g = jax.jit(f)
    for _ in range(3):
        x, c = array(length, width), array(width)
        (a, b, n), rows = g(x, c)
        wa, wb = c, c * 2
        for i, v in enumerate(x):
            np.testing.assert_allclose(rows[i], wa + wb if i % 2 == 0 else v - wb, rtol=1e-5, atol=1e-6)
            wa, wb = wa * np.float32(0.5) + v, wa
        np.testing.assert_allclose(a, wa, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(b, wb, rtol=1e-5, atol=1e-6)
        assert n == length


def test_loops_within_loops_and_other_steps():
    """A loop inside, a product, a gather and a branch are called from a loop's machine code."""

    def f(x, w, table):
        def line(c, v):
            c = lax.fori_loop(0, 12, lambda i, y: y * 0.9 + v[i % 4], c)
            c = jnp.tanh(c @ w) + table[jnp.int32(jnp.abs(c.sum())) % 3]
            return lax.cond(c[0] > 0, lambda c: c * 0.5, lambda c: c + 1, c), c.sum()

        return lax.scan(line, jnp.ones(4), x)

    x, w, table = array(30, 4), array(4, 4), array(3, 4)
    got = jax.jit(f)(x, w, table)
    with jax.default_device(jax.devices("cpu")[0]):
        want = jax.jit(f)(x, w, table)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_starts_beyond_the_ends_in_loops():
    def f(x, at):
        def step(i, s):
            y, sums = s
            v = lax.dynamic_slice(x, (at[i], 0), (1, 3))
            return lax.dynamic_update_slice(y, v + i, (at[i] * 2 - 5, 0)), sums + v

        return lax.fori_loop(0, len(at), step, (jnp.zeros((8, 3)), jnp.zeros((1, 3))))

    x, at = array(8, 3), np.int32([0, 7, 8, -1, -100, 100, 3, 4, 5, 6, 2**29, -(2**29), 1, 2])
    y, sums = np.zeros((8, 3), np.float32), np.zeros((1, 3), np.float32)
    place = lambda k: np.clip(k + 8 if k < 0 else k, 0, 7)  # JAX counts those below zero from the end
    for i, k in enumerate(at):
        v = x[place(k)][None]
        y[place(k * 2 - 5)] = v + i
        sums = sums + v
    got = jax.jit(f)(x, at)
    np.testing.assert_allclose(got[0], y, rtol=1e-6)
    np.testing.assert_allclose(got[1], sums, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(4, 6, 5, 3), (2, 33, 7, 3), (3, 5, 9, 16), (1, 300, 2, 2), (2, 3, 4, 1)])
def test_sums_over_two_dims_of_what_is_flipped(shape):
    x, flip = array(*shape), np.arange(shape[0]) % 2 == 0

    def f(x, flip):
        x = jnp.where(flip[:, None, None, None], x[:, :, ::-1], x)
        place = jnp.arange(shape[1])[:, None, None] * 10 + jnp.arange(shape[2])[:, None]
        return x.mean((1, 2)), x.max((1, 2)), (x * place).sum((1, 2)), (x - x.mean((1, 2), keepdims=True)) / 2

    y = np.where(flip[:, None, None, None], x[:, :, ::-1], x)
    place = np.arange(shape[1])[:, None, None] * 10 + np.arange(shape[2])[:, None]
    want = y.mean((1, 2)), y.max((1, 2)), (y * place).sum((1, 2)), (y - y.mean((1, 2), keepdims=True)) / 2
    for a, b in zip(jax.jit(f)(x, flip), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * max(1, np.abs(b).max()))


@pytest.mark.parametrize("batch", [2, 65])
@pytest.mark.parametrize("m, k, n", [(1, 16, 8), (16, 8, 1), (1, 8, 16), (3, 3, 3), (4, 4, 4), (4, 3, 4), (3, 4, 3), (2, 5, 7),
                                     (5, 9, 23), (1, 1, 64), (16, 1, 33), (7, 17, 2)])  # fmt: skip
@pytest.mark.parametrize("turned", ["", "a", "b", "ab", "c"])
def test_batches_of_small_products(batch, m, k, n, turned):
    a, b = array(batch, m, k), array(batch, k, n)
    want = a.astype(np.float64) @ b
    a = np.swapaxes(a, 1, 2).copy() if "a" in turned else a
    b = np.swapaxes(b, 1, 2).copy() if "b" in turned else b
    spec = f"z{'ki' if 'a' in turned else 'ik'},z{'jk' if 'b' in turned else 'kj'}->z{'ji' if turned == 'c' else 'ij'}"
    want = np.swapaxes(want, 1, 2) if turned == "c" else want
    np.testing.assert_allclose(jax.jit(lambda a, b: jnp.einsum(spec, a, b))(a, b), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [1, 15, 16, 63, 64, 65, 100, 128, 200, 257])
@pytest.mark.parametrize("k", [1, 3, 200])
def test_vectors_by_weights_in_a_loop(n, k):
    w, x = array(k, n), array(k)
    got = jax.jit(lambda x, w: lax.fori_loop(0, 12, lambda i, y: y + x @ w * i, jnp.zeros(n)))(x, w)
    np.testing.assert_allclose(got, x.astype(np.float64) @ w * 66, rtol=1e-3, atol=1e-3)


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


@pytest.mark.parametrize("width", [1, 5, 8, 16, 19, 32, 40])
@pytest.mark.parametrize("kind", ["add", "multiply", "max", "min"])
def test_scatter_of_rows(width, kind):
    """Many short rows, some of them met again and again, some outside."""
    to, rows = array(50, width), array(3000, width)
    at = RANDOM.integers(-3, 55, 3000)
    got = jax.jit(lambda t, i, r: getattr(t.at[i], kind)(r, mode="drop", wrap_negative_indices=False))(to, at, rows)
    want = to.copy()
    inside = (at >= 0) & (at < 50)
    {"add": np.add, "multiply": np.multiply, "max": np.maximum, "min": np.minimum}[kind].at(want, at[inside], rows[inside])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("rounds", [1, 3, 6])
@pytest.mark.parametrize("wide", [False, True])
def test_short_loop_in_a_long_one(rounds, wide):
    """A loop of few iterations that runs many times: its code is made after some of them, and rows outside are dropped."""

    def f(x):
        def outer(c, v):
            def inner(i, s):
                rows, n = s
                return rows.at[n - 1].set(rows[i] * 0.5 + v, mode="drop"), n + 1

            rows, n = lax.fori_loop(0, rounds, inner, (c, 0))
            return rows, rows.sum() + n

        return lax.scan(outer, jnp.zeros((5, 2), x.dtype), x)

    with jax.enable_x64(wide):
        x = array(40, 2).astype(np.float64 if wide else np.float32)
        rows, sums = jax.jit(f)(x)
        want = np.zeros((5, 2), x.dtype)
        for v, total in zip(x, sums, strict=True):
            for i in range(rounds):
                row = want[min(i, 4)] * 0.5 + v
                at = i - 1 if i > 0 else 4  # a negative index counts from the end
                if at < 5:
                    want[at] = row
            np.testing.assert_allclose(total, want.sum() + rounds, rtol=1e-5)
        np.testing.assert_allclose(rows, want, rtol=1e-5)


@pytest.mark.parametrize("n", [17, 24, 64, 100, 200, 333])
@pytest.mark.parametrize("k", [1, 33, 800])
def test_vector_by_matrix_in_a_loop(n, k):
    a, b, scale = array(k, n), array(n, k), np.float32(0.2 / (k + n))
    f = jax.jit(lambda x, a, b: lax.fori_loop(0, 12, lambda _, x: jnp.tanh((x @ a) * scale @ b + x), x))
    x = array(k)
    want = x.astype(np.float64)
    for _ in range(12):
        want = np.tanh((want @ a) * scale @ b + want)
    np.testing.assert_allclose(f(x, a, b), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 8, 15, 16, 17])
@pytest.mark.parametrize("lower", [True, False])
def test_choleskys_side_by_side(n, lower):
    """Each as if it were alone, among them one that has no factor and one of an infinity."""
    x = array(11, n, n)
    x = x @ np.swapaxes(x, 1, 2) + np.eye(n, dtype=np.float32)
    x[5, n - 1, n - 1] = -1
    x[6, 0, 0] = np.inf
    f = jax.jit(lambda a: lax.linalg.cholesky(a, symmetrize_input=False) if lower else jnp.linalg.cholesky(a, upper=True))
    got, alone = f(x), [np.asarray(f(a)) for a in x]
    np.testing.assert_array_equal(got, np.stack(alone))
    for i in (0, 4, 7, 10):
        factor = np.asarray(got[i], np.float64)
        back = factor @ factor.T if lower else factor.T @ factor
        np.testing.assert_allclose(back, x[i], rtol=1e-5, atol=1e-5)
    assert np.isnan(np.asarray(got)[5]).any()


@pytest.mark.parametrize("n", [511, 512, 513, 575, 600, 5000])
def test_long_chains(n):
    p, x = array(9), array(n)
    want = np.zeros(n)
    for c in p.astype(np.float64):
        want = want * x + c
    np.testing.assert_allclose(jax.jit(jnp.polyval)(p, x), want, rtol=1e-3, atol=1e-4 * np.abs(want).max())


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 15, 20])
@pytest.mark.parametrize("n", [1, 7, 8, 9, 16, 23, 1000])
def test_matrix_of_short_rows_by_vector(n, k):
    b, a = array(n, k), array(k)
    want = b.astype(np.float64) @ a
    np.testing.assert_allclose(jax.jit(lambda b, a: b @ a)(b, a), want, rtol=1e-4, atol=1e-5)
