"""nki.language against NumPy on one tile: every function of elements, the reductions and what is built of them."""

import ml_dtypes
import numpy as np
import pytest

import trine.nki as nki
import trine.nki.language as nl

SHAPE = (96, 130)


@pytest.fixture(autouse=True, params=["trn1", "trn3"])
def chip(request, monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", request.param)
    return request.param


def run(f, *arrays):
    """f(*tiles) on the chip; arrays are loaded and the result stored."""

    @nki.jit
    def kernel(*given):
        result = f(*[nl.load(g) for g in given])
        if result.buffer == nl.psum:
            result = nl.copy(result)
        out = nl.ndarray(result.shape, result.dtype, buffer=nl.shared_hbm)
        nl.store(out, result)
        return out

    return kernel(*arrays)


def numbers(low=-3.0, high=3.0, seed=1, shape=SHAPE):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def erf(x):
    from math import erf

    return np.vectorize(erf)(x.astype(float))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


UNARY = {
    "abs": np.abs, "exp": np.exp, "negative": np.negative, "square": np.square, "tanh": np.tanh, "sign": np.sign,
    "relu": lambda x: np.maximum(x, 0), "sigmoid": sigmoid, "silu": lambda x: x * sigmoid(x),
    "softplus": lambda x: np.log1p(np.exp(x)), "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))), "erf": erf,
    "gelu": lambda x: x * 0.5 * (1 + erf(x / np.sqrt(2))), "gelu_apprx_sigmoid": lambda x: x * sigmoid(1.702 * x),
    "gelu_apprx_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "sin": np.sin, "cos": np.cos, "logical_not": lambda x: x == 0,
    "silu_dx": lambda x: sigmoid(x) * (1 + x * (1 - sigmoid(x))), "copy": lambda x: x,
    "erf_dx": lambda x: 2 / np.sqrt(np.pi) * np.exp(-x * x),
    "gelu_dx": lambda x: 0.5 * (1 + erf(x / np.sqrt(2))) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi),
}  # fmt: skip
POSITIVE = {"log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x}


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_element(name):
    x = numbers()
    got = run(getattr(nl, name), x)
    np.testing.assert_allclose(got, UNARY[name](x).astype(np.float32), rtol=3e-5, atol=3e-6)


@pytest.mark.parametrize("name", POSITIVE)
def test_functions_of_positive_numbers(name):
    x = numbers(0.01, 50)
    np.testing.assert_allclose(run(getattr(nl, name), x), POSITIVE[name](x), rtol=3e-5)


def test_rounding_of_large_and_negative_numbers():
    x = np.array([[-2.5, -0.5, 0.5, 1.5, 2.5, 8388609.0, -1e9, 3e9, 1e30, -0.0]] * 4, np.float32)
    for f, want in ((nl.floor, np.floor), (nl.ceil, np.ceil), (nl.trunc, np.trunc)):
        assert (run(f, x) == want(x)).all()


def test_angles_far_from_zero():
    x = numbers(-200, 200)
    np.testing.assert_allclose(run(nl.sin, x), np.sin(x), atol=3e-5)
    np.testing.assert_allclose(run(nl.tan, x[:, :40] / 200), np.tan(x[:, :40] / 200), rtol=1e-4, atol=1e-5)


BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
    "divide": np.divide, "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal, "logical_and": np.logical_and, "logical_or": np.logical_or,
    "logical_xor": np.logical_xor, "mod": np.mod, "fmod": np.fmod,
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_elements(name):
    x, y = np.round(numbers(seed=2)), np.round(numbers(seed=3))
    if name in ("divide", "mod", "fmod"):
        y = np.where(y == 0, 4, y).astype(np.float32)
        x = x + 0.25
    want = BINARY[name](x, y).astype(np.float32)
    np.testing.assert_allclose(run(getattr(nl, name), x, y), want, rtol=1e-5, atol=1e-5)
    column = y[:, :1]
    want = BINARY[name](x, column).astype(np.float32)
    np.testing.assert_allclose(run(getattr(nl, name), x, column), want, rtol=1e-5, atol=1e-5)


def test_numbers_on_either_side():
    x = numbers(1, 4)
    np.testing.assert_allclose(run(lambda t: nl.subtract(2.0, t), x), 2 - x, rtol=1e-6)
    np.testing.assert_allclose(run(lambda t: nl.subtract(t, 2.0), x), x - 2, rtol=1e-6)
    np.testing.assert_allclose(run(lambda t: nl.power(t, 2.5), x), x**2.5, rtol=1e-5)


def test_bits():
    x = np.random.default_rng(4).integers(0, 2**31, SHAPE, np.int64).astype(np.int32)
    y = np.random.default_rng(5).integers(0, 16, SHAPE).astype(np.int32)
    assert (run(nl.bitwise_and, x, y) == (x & y)).all()
    assert (run(nl.bitwise_or, x, y) == (x | y)).all()
    assert (run(nl.bitwise_xor, x, y) == (x ^ y)).all()
    assert (run(nl.invert, x) == ~x).all()
    assert (run(nl.left_shift, x, y) == np.left_shift(x, y)).all()
    assert (run(nl.right_shift, x, y) == np.right_shift(x, y)).all()
    assert (run(nl.add, x // 2, y) == x // 2 + y).all()  # exact above 2^24


def test_where():
    c, x, y = numbers(seed=6) > 0, numbers(seed=7), numbers(seed=8)
    assert (run(nl.where, c.astype(np.float32), x, y) == np.where(c, x, y)).all()
    assert (run(lambda p, t: nl.where(p, t, -1.0), c.astype(np.float32), x) == np.where(c, x, -1)).all()


@pytest.mark.parametrize("name", ["sum", "max", "min", "mean", "var", "prod"])
def test_reductions(name):
    x = numbers(0.9, 1.1, shape=(64, 3, 20))
    for axis, keepdims in ((2, False), ((1, 2), False), (-1, True)):
        got = run(lambda t: getattr(nl, name)(t, axis=axis, keepdims=keepdims), x)  # noqa: B023
        want = getattr(np, name)(x.astype(float), axis=axis, keepdims=keepdims)
        np.testing.assert_allclose(got.reshape(-1), want.reshape(-1), rtol=2e-5, atol=1e-7)


def test_all():
    x = (numbers(0, 1) > 0.02).astype(np.float32)
    assert (run(lambda t: nl.all(t, axis=1), x)[:, 0] == x.all(1)).all()


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_softmax_and_rms_norm(dtype):
    x = numbers().astype(dtype)
    w = np.broadcast_to(numbers(seed=9, shape=(1, SHAPE[1])), SHAPE).astype(dtype)
    f = x.astype(float)
    e = np.exp(f - f.max(1, keepdims=True))
    limit = 1e-5 if dtype == np.float32 else 1e-2
    np.testing.assert_allclose(run(nl.softmax, x).astype(float), e / e.sum(1, keepdims=True), rtol=limit, atol=limit)
    want = f / np.sqrt((f**2).mean(1, keepdims=True) + 1e-6) * w.astype(float)
    got = run(lambda t, v: nl.rms_norm(t, v, axis=1, n=SHAPE[1]), x, w)
    np.testing.assert_allclose(got.astype(float), want, rtol=2 * limit, atol=2 * limit)


def test_matrices():
    x, y = numbers(shape=(64, 100)), numbers(seed=2, shape=(100, 200))
    np.testing.assert_allclose(run(nl.matmul, x, y), x @ y, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(run(lambda a, b: nl.matmul(a, b, transpose_x=True), x.T.copy(), y), x @ y, rtol=1e-4, atol=1e-4)
    assert (run(nl.transpose, x) == x.T).all()


def test_movement():
    x, row = numbers(shape=(64, 100)), numbers(shape=(1, 70))
    assert (run(lambda r: nl.broadcast_to(r, (100, 70)), row) == np.broadcast_to(row, (100, 70))).all()
    index = np.random.default_rng(1).integers(0, 100, (64, 30)).astype(np.uint32)
    assert (run(nl.gather_flattened, x, index) == np.take_along_axis(x, index.astype(int), 1)).all()

    @nki.jit
    def turned(a):
        out = nl.ndarray((a.shape[1], a.shape[0]), a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load_transpose2d(a))
        return out

    assert (turned(x) == x.T).all()


def test_creation_in_every_memory():
    @nki.jit
    def kernel():
        far = nl.full((130, 33), 2.5, nl.float32, buffer=nl.shared_hbm)
        eye = nl.ndarray((16, 16), nl.float32, buffer=nl.shared_hbm)
        nl.store(eye, nl.copy(nl.shared_identity_matrix(16, nl.float32)))
        bank = nl.ones((8, 4), nl.float32, buffer=nl.psum)
        near = nl.ndarray((8, 4), nl.float32, buffer=nl.shared_hbm)
        nl.store(near, nl.copy(bank))
        return far, eye, near

    far, eye, near = kernel()
    assert (far == 2.5).all() and far.shape == (130, 33)
    assert (eye == np.eye(16)).all()
    assert (near == 1).all()


def test_random_numbers():
    @nki.jit
    def kernel():
        out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
        nl.random_seed(nl.full((1, 1), 42, nl.int32))
        nl.store(out, nl.rand((128, 512), nl.float32))
        return out

    x = kernel()
    assert 0 <= x.min() and x.max() < 1 and abs(x.mean() - 0.5) < 0.01
    assert (kernel() == x).all()


def test_dropout():
    x = np.ones((128, 512), np.float32)
    kept = run(lambda t: nl.dropout(t, 0.25), x)
    assert set(np.unique(kept)) == {0, 1} and abs(kept.mean() - 0.75) < 0.02
