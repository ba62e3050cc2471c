"""The larger ops in all their forms against XLA's CPU backend: dimension numbers, windows, indices out of bounds, orders,
generators, factorisations; in all dtypes, f64 and complex128 among them. Where a factor is not unique, its product is."""

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
import jax.scipy.linalg as jsl  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

TOLERANCE = {"float64": 1e-11, "complex128": 1e-11, "float32": 3e-5, "complex64": 3e-5, "bfloat16": 2e-2, "float16": 4e-3}
INEXACT = ["float32", "float64", "bfloat16", "float16", "complex64", "complex128"]
WHOLE = ["int32", "int8", "uint8", "int64", "uint32", "int16", "uint64"]
FACTORED = ["float32", "float64", "complex64", "complex128"]
CASES = {}


def case(name, function, *args, scale=1):
    """Arguments are shapes with a dtype, to be drawn, or arrays."""
    assert name not in CASES, name
    CASES[name] = (function, args, scale)


def drawn(g, spec):
    if not (isinstance(spec, tuple) and len(spec) == 2 and isinstance(spec[1], str)):
        return np.asarray(spec)
    shape, dtype = spec
    kind = jnp.dtype(dtype)
    if dtype == "bool":
        return g.integers(0, 2, shape) == 1
    if dtype in WHOLE:
        return g.integers(0 if dtype[0] == "u" else -5, 7, shape).astype(kind)
    if dtype.startswith("complex"):
        return (g.standard_normal(shape) + 1j * g.standard_normal(shape)).astype(kind)
    return g.standard_normal(shape).astype(kind)


# Contractions and windows.


def dots():
    for t in [*INEXACT, *WHOLE, "bool"]:
        case(f"dot {t}", lambda a, b: lax.dot_general(a, b, (((1, 3), (2, 0)), ((0,), (3,)))), ((2, 3, 4, 5), t), ((5, 6, 3, 2), t))
        case(f"dot of vectors {t}", lambda a, b: lax.dot_general(a, b, (((1, 2), (2, 0)), ((0,), (1,)))), ((7, 3, 9), t), ((9, 7, 3), t))
        case(f"dot of nothing {t}", lambda a, b: lax.dot(a, b), ((3, 0), t), ((0, 2), t))
    case("dot s8 to s32", lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32), ((3, 40), "int8"), ((40, 2), "int8"))
    case("dot bf16 to f32", lambda a, b: lax.dot(a, b, preferred_element_type=jnp.float32), ((3, 40), "bfloat16"), ((40, 2), "bfloat16"))


def convolutions():
    x, w = (2, 3, 8, 9), (4, 3, 3, 2)
    forms = {
        "strides": (x, w, dict(window_strides=(2, 3), padding=((1, 2), (0, 3)))),
        "dilations": (x, w, dict(window_strides=(1, 1), padding=((-1, 2), (3, -2)), lhs_dilation=(2, 1), rhs_dilation=(1, 2))),
        "groups": ((2, 6, 8, 9), w, dict(window_strides=(1, 1), padding="VALID", feature_group_count=2)),
        "depthwise": ((2, 6, 8, 9), (6, 1, 3, 2), dict(window_strides=(2, 1), padding="SAME", feature_group_count=6)),
        "batch groups": ((4, 3, 8, 9), w, dict(window_strides=(1, 1), padding="VALID", batch_group_count=2)),
        "order": ((2, 8, 9, 3), (3, 2, 3, 4), dict(window_strides=(1, 2), padding="SAME", dimension_numbers=("NHWC", "HWIO", "HWNC"))),
        "empty": ((2, 3, 0, 9), w, dict(window_strides=(1, 1), padding="SAME")),
        "no features": ((2, 0, 5, 9), (4, 0, 3, 2), dict(window_strides=(1, 1), padding="SAME")),
        "3d": ((2, 3, 4, 5, 3), (4, 3, 2, 2, 2), dict(window_strides=(1, 2, 1), padding="SAME")),
        "0d": ((2, 3), (4, 3), dict(window_strides=(), padding=())),
    }
    for t in ["float32", "float64", "bfloat16", "complex64", "int32"]:
        for name, (a, b, options) in forms.items():
            case(f"conv {name} {t}", lambda a, b, o=options: lax.conv_general_dilated(a, b, **o), (a, t), (b, t))

    def loss(a, b):
        return jnp.sum(jnp.sin(lax.conv_general_dilated(a, b, (2, 1), "SAME", feature_group_count=2, rhs_dilation=(1, 2))))

    case("conv gradients", jax.grad(loss, (0, 1)), ((2, 4, 8, 9), "float32"), ((6, 2, 3, 2), "float32"), scale=4)
    case("conv transpose", lambda a, b: lax.conv_transpose(a, b, (2, 2), "SAME"), ((2, 8, 9, 3), "float32"), ((3, 3, 3, 4), "float32"))


def windows():
    for t in ["float32", "int32", "bfloat16", "float64"]:
        low, high = (-np.inf, np.inf) if "float" in t else (np.iinfo(t).min, np.iinfo(t).max)
        for name, f, init in [("max", lax.max, low), ("min", lax.min, high), ("sum", lax.add, 0)]:
            init = np.array(init, jnp.dtype(t))
            case(f"pool {name} {t}", lambda x, f=f, i=init: lax.reduce_window(x, i, f, (1, 3, 2, 1), (1, 2, 1, 1), "SAME"), ((2, 9, 10, 3), t))
            case(
                f"dilated pool {name} {t}",
                lambda x, f=f, i=init: lax.reduce_window(x, i, f, (3, 2), (2, 1), ((1, 2), (2, 0)), (2, 1), (1, 3)),
                ((9, 10), t),
            )
        for axis in range(3):
            for back in (False, True):
                for name in ["cumsum", "cumprod", "cummax", "cummin"]:
                    f = getattr(lax, name)
                    case(f"{name} {t} {axis} {back}", lambda x, f=f, a=axis, b=back: f(x, a, reverse=b), ((3, 7, 5), t), scale=4)
    case("cumlogsumexp", lambda x: lax.cumlogsumexp(x, 1), ((3, 40), "float32"))
    case("init counts once", lambda x: lax.reduce_window(x, np.float32(5), lax.add, (3,), (1,), ((2, 2),)), ((7,), "float32"))
    case("own window", lambda x: lax.reduce_window(x, np.float32(0), jnp.hypot, (3, 2), (2, 1), "SAME"), ((7, 9), "float32"))
    for name, f, init in [("max", lax.max, -np.inf), ("min", lax.min, np.inf), ("sum", lax.add, 0.0)]:
        pool = lambda x, f=f, i=np.float32(init): jnp.sum(jnp.sin(lax.reduce_window(x, i, f, (3, 3), (2, 2), "SAME")))  # noqa: E731
        case(f"gradient of {name} pool", jax.grad(pool), ((9, 10), "float32"))
        case(f"second gradient of {name} pool", jax.jacfwd(jax.grad(pool)), ((5, 4), "float32"))


def reductions():
    for t in [*INEXACT, *WHOLE]:
        for name in ["sum", "prod", "max", "min"]:
            if "complex" not in t or name in ("sum", "prod"):
                f = getattr(lax, f"reduce_{name}")
                case(f"{name} {t}", lambda x, f=f: [f(x, a) for a in ((0,), (2,), (0, 2), (0, 1, 2), ())], ((3, 4, 5), t))
    case("arg max", lambda x: [lax.argmax(x, a, jnp.int32) for a in range(3)], ((3, 4, 5), "int8"))
    case("arg min of many", lambda x: jnp.argmin(x), ((3000,), "float32"))
    case("own reduction", lambda x: lax.reduce(x, np.float32(0), jnp.hypot, (1,)), ((5, 33), "float32"))
    case(
        "own reduction of two",
        lambda x, y: lax.reduce((x, y), (np.float32(0), np.int32(-9)), lambda a, b: (a[0] + b[0], jnp.maximum(a[1], b[1])), (0,)),
        ((5, 3), "float32"),
        ((5, 3), "int32"),
    )


# Indices and orders.


def indices():
    rows, pairs = np.array([0, 3, 3, -1, 17]), (np.array([0, 3, -2]), np.array([6, 1, 2]))
    for t in [*INEXACT, *WHOLE, "bool"]:
        x = ((5, 6, 7), t)
        case(f"take {t}", lambda x, i: [jnp.take(x, i, 1), jnp.take(x, i, 0, mode="clip")], x, np.array([[0, 3], [-1, 9]]))
        case(f"pairs {t}", lambda x, i, j: x[i, :, j], x, *pairs)
        case(f"along {t}", lambda x, i: jnp.take_along_axis(x, i, 2), x, np.random.default_rng(0).integers(0, 7, (5, 6, 3)))
        case(f"set {t}", lambda x, i, u: x.at[:, i].set(u), x, np.array([0, 3, 1]), ((5, 3, 7), t))
        for name in [] if t == "bool" else ["add", "multiply"] + ["max", "min"] * ("complex" not in t):
            case(f"{name} at {t}", lambda x, i, u, n=name: getattr(x.at[i], n)(u), x, rows, ((5, 6, 7), t), scale=4)
    dims = lax.GatherDimensionNumbers(offset_dims=(1, 2), collapsed_slice_dims=(0,), start_index_map=(0, 2))
    case("gather windows", lambda x, i: lax.gather(x, i, dims, (1, 3, 2), mode="clip"), ((5, 6, 7), "float32"), np.array([[0, 1], [4, 6], [9, -3]]))
    where = lax.ScatterDimensionNumbers(update_window_dims=(1,), inserted_window_dims=(), scatter_dims_to_operand_dims=(0,))
    for mode in ["fill", "clip", "promise_in_bounds"]:
        starts = np.array([[3], [0], [2]] if mode == "promise_in_bounds" else [[4], [-1], [2]])
        case(f"scatter windows {mode}", lambda x, i, u, m=mode: lax.scatter_add(x, i, u, where, mode=m), ((6,), "float32"), starts, ((3, 3), "float32"))
    case("own scatter", lambda x, i: x.at[i].apply(jnp.sin), ((5, 6), "float32"), np.array([0, 3, 1]))
    batched = jax.vmap(lambda x, s: lax.dynamic_slice(x, (s,), (3,)))
    case("slices of a batch", batched, ((4, 9), "float32"), np.array([0, 3, 8, -2]))
    case("updates of a batch", jax.vmap(lambda x, u, s: lax.dynamic_update_slice(x, u, (s,))), ((4, 9), "float32"), ((4, 3), "float32"), np.array([0, 3, 8, -2]))
    case("segments", lambda x, i: jax.ops.segment_sum(x, i, 5), ((9, 3), "float32"), np.array([0, 4, 5, 2, 2, 1, 0, 3, -1]))
    case("rows of nothing", lambda x, i: x[i], ((5, 0), "float32"), np.array([0, 3]))
    case("no rows", lambda x, i: x[i], ((5, 3), "float32"), np.zeros(0, int))


def orders():
    special = np.array([1, np.nan, -np.nan, -0.0, 0, np.inf, -np.inf, 2, -3], np.float32)
    for t in [*INEXACT, *WHOLE, "bool"]:
        x = ((3, 40), t)
        case(f"sort {t}", lambda x: [jnp.sort(x, 1), jnp.sort(x, 0), jnp.argsort(x, 1), jnp.argsort(x, 1, descending=True)], x)
        if "complex" not in t:
            case(f"top_k {t}", lambda x: lax.top_k(x, 4), x)
        if t != "bool":
            case(f"two keys {t}", lambda x, y: lax.sort((x, y, x), num_keys=2, dimension=1), x, x)
    case("sort of special floats", lambda x: lax.sort((x, jnp.arange(9)), num_keys=1), special)
    case("top_k of special floats", lambda x: lax.top_k(x, 9), special)
    case("approximate top_k", lambda x: [lax.approx_max_k(x, 5), lax.approx_min_k(x, 5)], ((3, 50), "float32"))
    case("sort of nothing", lambda x: jnp.sort(x, 1), ((3, 0), "float32"))
    case("lexsort", lambda x, y: jnp.lexsort((x, y)), ((31,), "int32"), ((31,), "int32"))


# Generators and transforms.


def generators():
    for algorithm in ["RNG_DEFAULT", "RNG_THREE_FRY", "RNG_PHILOX"]:
        kind = getattr(lax.RandomAlgorithm, algorithm)
        for shape in [(), (1,), (5,), (4, 3), (3, 5), (7, 2, 3), (0,), (2, 0)]:
            for t in ["uint8", "uint16", "uint32", "uint64"]:
                state = np.array([0x123456789ABCDEF, 0xFFFFFFFFFFFFFFFE], np.uint64)
                case(f"{algorithm} {shape} {t}", lambda s, d=shape, t=t, k=kind: lax.rng_bit_generator(s, d, t, k), state)
    for kind in ["threefry2x32", "rbg", "unsafe_rbg"]:
        words = np.array([7, 77] if kind == "threefry2x32" else [7, 77, 777, 7777], np.uint32)
        wrap = lambda k, n=kind: jax.random.wrap_key_data(k, impl=n)  # noqa: E731
        case(f"split {kind}", lambda k, w=wrap: jax.random.key_data(jax.random.split(w(k), 5)), words)
        case(f"bits {kind}", lambda k, w=wrap: [jax.random.bits(w(k), (3, 5), t) for t in ("uint8", "uint32", "uint64")], words)
        case(f"permutation {kind}", lambda k, w=wrap: jax.random.permutation(w(k), 50), words)


def transforms():
    for n in [1, 2, 3, 5, 8, 12, 31, 97, 128]:
        for real, t in [("float32", "complex64"), ("float64", "complex128")]:
            case(f"fft {n} {t}", lambda x: [jnp.fft.fft(x), jnp.fft.ifft(x)], ((3, n), t), scale=4)
            case(f"rfft {n} {real}", jnp.fft.rfft, ((3, n), real), scale=4)
            case(f"irfft {n} {t}", lambda x, n=n: jnp.fft.irfft(x, n), ((3, n // 2 + 1), t), scale=4)
    case("fft of more dims", lambda x: [jnp.fft.fft2(x), jnp.fft.fftn(x)], ((4, 6, 5), "complex128"))
    case("rfft of more dims", lambda x: [jnp.fft.rfft2(x), jnp.fft.rfftn(x)], ((4, 6, 5), "float64"))
    case("irfft of more dims", lambda x: [jnp.fft.irfft2(x, (6, 9)), jnp.fft.irfftn(x, (4, 6, 8))], ((4, 6, 5), "complex128"))


# Linear algebra.


def conjugated(x):
    return jnp.swapaxes(x, -1, -2).conj()


def positive(x):
    return x @ conjugated(x) + x.shape[-1] * jnp.eye(x.shape[-1], dtype=x.dtype)


def eig_again(a):
    w, v = jnp.linalg.eig(a)
    return jnp.linalg.norm(a @ v - v * w[..., None, :]) < 1e-3, jnp.linalg.norm(v, axis=-2)


def eigh_again(a):
    w, v = jnp.linalg.eigh(positive(a))
    return w, (v * w[..., None, :]) @ conjugated(v)


def svd_again(a, full):
    u, s, v = jnp.linalg.svd(a, full_matrices=full)
    k = s.shape[-1]
    return s, (u[..., :k] * s[..., None, :]) @ v[..., :k, :], conjugated(u) @ u, v @ conjugated(v)


def schur_again(a):
    t, z = jsl.schur(a)
    return z @ t @ conjugated(z), conjugated(z) @ z, jnp.tril(t, -2) == 0


def factorisations():
    shapes = [(2, 5, 3), (3, 5), (4, 4), (5, 1), (0, 3), (3, 0)]
    for t in FACTORED:
        square = ((2, 6, 6), t)
        case(f"cholesky {t}", lambda x: [jnp.linalg.cholesky(positive(x)), jnp.linalg.cholesky(positive(x), upper=True)], square, scale=8)
        case(f"cholesky of none {t}", lambda x: jnp.linalg.cholesky(x), np.diag([1, -1, 2]).astype(t))
        for shape in shapes:
            case(f"qr {t} {shape}", lambda x: [jnp.linalg.qr(x), jnp.linalg.qr(x, mode="complete")], (shape, t), scale=16)
            case(f"lu {t} {shape}", lambda x: lax.linalg.lu(x), (shape, t), scale=16)
            case(f"svd {t} {shape}", lambda x: [svd_again(x, False), svd_again(x, True)], (shape, t), scale=16)
        case(f"pivoted qr {t}", lambda x: jsl.qr(x, pivoting=True), ((5, 4), t), scale=16)
        case(f"solve {t}", lambda x, y: [jnp.linalg.solve(positive(x), y), jnp.linalg.inv(positive(x))], square, ((2, 6, 3), t), scale=16)
        case(f"determinant {t}", lambda x: [jnp.linalg.det(x), jnp.linalg.slogdet(x)], square, scale=64)
        case(f"eigh {t}", eigh_again, square, scale=16)
        case(f"eig {t}", eig_again, square, scale=16)
        case(f"schur {t}", schur_again, ((6, 6), t), scale=16)
        case(f"hessenberg {t}", lambda x: jsl.hessenberg(x, calc_q=True), ((6, 6), t), scale=16)
        case(f"tridiagonal {t}", lambda x: [lax.linalg.tridiagonal(positive(x), lower=b) for b in (True, False)], ((5, 5), t), scale=64)
        case(f"least squares {t}", lambda x, y: jnp.linalg.lstsq(x, y)[0], ((5, 3), t), ((5, 2), t), scale=64)
        case(f"exponential {t}", jsl.expm, ((4, 4), t), scale=64)
        for form in range(16):
            left, lower, turned, unit = (bool(form >> i & 1) for i in range(4))
            options = dict(left_side=left, lower=lower, transpose_a=turned, conjugate_a=turned and "complex" in t, unit_diagonal=unit)
            case(f"triangular solve {t} {form}", lambda a, b, o=options: lax.linalg.triangular_solve(a + 3 * jnp.eye(4, dtype=a.dtype), b, **o), ((2, 4, 4), t), ((2, 4, 4), t), scale=64)


for group in (dots, convolutions, windows, reductions, indices, orders, generators, transforms, factorisations):
    with jax.enable_x64(True):
        group()


def different(got, want, scale):
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
    tolerance = TOLERANCE.get(str(want.dtype), 0) * scale
    wide = got.dtype if want.dtype.kind in "iubc" else np.float64
    x, y = got.astype(wide), want.astype(wide)
    if not tolerance:
        return "" if np.array_equal(x, y) else f"{x.ravel()[:5]}, expected {y.ravel()[:5]}"
    size = np.max(np.abs(y), initial=1, where=np.isfinite(y))
    return "" if np.allclose(x, y, rtol=tolerance, atol=tolerance * size, equal_nan=True) else f"{x.ravel()[:5]}, expected {y.ravel()[:5]}"


def marked(name):
    """Other dtypes than the usual ones take their time."""
    usual = not any(t in name.split() for t in [*INEXACT[2:], *WHOLE[1:]] + ["float64"])
    return pytest.param(name, marks=() if usual else pytest.mark.slow)


@pytest.mark.parametrize("name", [marked(name) for name in CASES])
def test_case(name):
    function, specs, scale = CASES[name]
    with jax.enable_x64(True):
        g = np.random.default_rng(len(name))
        args = [drawn(g, s) for s in specs]
        results = []
        for device in (jax.devices("neuron")[0], jax.devices("cpu")[0]):
            with jax.default_device(device):
                results.append(jax.tree.map(np.asarray, jax.tree.leaves(jax.jit(function)(*(jax.device_put(a, device) for a in args)))))
    for i, (got, want) in enumerate(zip(*results, strict=True)):
        wrong = different(got, want, scale)
        assert not wrong, f"result {i}: {wrong}"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8"])
@pytest.mark.parametrize("function", [jnp.argmax, jnp.argmin])
def test_first_place_of_ties(function, dtype):
    x = jnp.asarray(np.random.default_rng(0).integers(0, 9, (70, 300)), dtype)
    for axis in (0, 1, None):
        want = getattr(np, function.__name__)(np.asarray(x, np.float32), axis)
        np.testing.assert_array_equal(jax.jit(lambda a: function(a, axis))(x), want)  # noqa: B023
    rows = jax.jit(lambda a: jax.lax.scan(lambda c, row: (c, function(row)), 0, a)[1])(x)  # inside a loop
    np.testing.assert_array_equal(rows, jax.jit(lambda a: function(a, 1))(x))


@pytest.mark.parametrize("values", [[1, np.nan, 2, np.nan], [-np.inf] * 3, [np.inf] * 3, [0.0, -0.0], [-0.0, 0.0]])
def test_first_place_of_nans_and_limits(values):
    x = jnp.asarray(values, jnp.float32)
    assert jax.jit(lambda a: (jnp.argmax(a), jnp.argmin(a)))(x) == (np.argmax(values), np.argmin(values))


@pytest.mark.parametrize("size", [40, 60, 5000])
def test_running_sums_short_and_long(size):
    x = np.random.default_rng(0).normal(size=(3, size)).astype(np.float32)
    got = jax.jit(lambda a: (jnp.cumsum(a, 1), jax.lax.cummax(a, 1, reverse=True), jnp.cumsum(a.T, 0)))(x)
    want = x.cumsum(1), np.maximum.accumulate(x[:, ::-1], 1)[:, ::-1], x.T.cumsum(0)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "complex64", "complex128"])
def test_columns_side_by_side(dtype):
    with jax.enable_x64(True):
        rows = 2**21 // np.dtype(dtype).itemsize
        parts = [(np.arange(rows * n) % 251).reshape(rows, n).astype(dtype) for n in (1, 2, 3)]
        got = jax.jit(lambda *p: (jnp.concatenate(p, 1), jnp.stack([p[0], p[0]], -1)))(*parts)
        np.testing.assert_array_equal(got[0], np.concatenate(parts, 1))
        np.testing.assert_array_equal(got[1], np.stack([parts[0]] * 2, -1))


@pytest.mark.parametrize("dtype", ["bool", "bfloat16", "int32", "float64", "complex128"])
@pytest.mark.parametrize("index", ["int32", "uint8"])
def test_elements_at_places(dtype, index):
    with jax.enable_x64(True):
        g = np.random.default_rng(1)
        x = g.integers(0, 2, (50, 60)).astype(jnp.dtype(dtype))
        i, j = (g.integers(0, n, (40, 1, 70), index) for n in (50, 60))
        np.testing.assert_array_equal(jax.jit(lambda x, i, j: x[i, j])(x, i, j), x[i, j])
        # One place of each column: batches and places lie in another order than the results.
        by_column = i[:, 0, :60]
        got = jax.jit(jax.vmap(lambda column, at: column[at], (1, 1)))(x, by_column)
        np.testing.assert_array_equal(got, x[by_column, np.arange(60)].T)
