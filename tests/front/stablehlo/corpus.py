"""Real JAX programs, one function each: name -> (function, arguments). Written for these tests; needs jax.

Each is lowered; those whose values are stored are also run. Together they name nearly every op, dtype and attribute JAX 0.10 can hand to a plugin.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/tests/front/stablehlo/")

PROGRAMS = {}


PLATFORM = {}  # of the few that are not lowered for ours


def program(*args, name=None, platform=None, **options):
    def add(f):
        PROGRAMS[name or f.__name__] = (jax.jit(f, **options), args)
        if platform:
            PLATFORM[name or f.__name__] = platform
        return f

    return add


def s(shape, dtype="float32"):
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


FLOATS = ["float64", "float32", "float16", "bfloat16"]
SMALL_FLOATS = [
    "float8_e3m4", "float8_e4m3", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn",
]  # fmt: skip
INTS = ["int2", "int4", "int8", "int16", "int32", "int64", "uint2", "uint4", "uint8", "uint16", "uint32", "uint64"]
COMPLEX = ["complex64", "complex128"]

for _dtype in FLOATS:

    @program(s((2, 3), _dtype), s((2, 3), _dtype), name=f"elementwise_{_dtype}")
    def _(x, y):
        unary = [
            lax.abs, lax.cbrt, lax.ceil, lax.cos, lax.exp, lax.expm1, lax.floor, lax.log, lax.log1p, lax.logistic,
            lax.neg, lax.round, lax.rsqrt, lax.sign, lax.sin, lax.sqrt, lax.tan, lax.tanh, lax.erf, lax.erfc,
            lax.erf_inv, lax.asin, lax.acos, lax.atan, lax.sinh, lax.cosh, lax.asinh, lax.acosh, lax.atanh, lax.lgamma,
            lax.digamma, lax.bessel_i1e, lax.square,
        ]  # fmt: skip
        binary = [lax.add, lax.sub, lax.mul, lax.div, lax.rem, lax.max, lax.min, lax.pow, lax.atan2, lax.nextafter]
        compare = [lax.eq, lax.ne, lax.lt, lax.le, lax.gt, lax.ge]
        out = [f(x) for f in unary] + [f(x, y) for f in binary] + [f(x, y) for f in compare]
        return out + [lax.is_finite(x), lax.clamp(x, y, x), lax.select(x < y, x, y), lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)]


for _dtype in INTS:

    @program(s((5,), _dtype), s((5,), _dtype), name=f"integers_{_dtype}")
    def _(x, y):
        binary = [lax.add, lax.sub, lax.mul, lax.max, lax.min, lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor]
        out = [f(x, y) for f in binary] + [lax.eq(x, y), lax.lt(x, y), lax.bitwise_not(x)]
        if jnp.dtype(x.dtype).itemsize > 1 or "8" in str(x.dtype):
            shifts = [lax.shift_left, lax.shift_right_arithmetic, lax.shift_right_logical, lax.div, lax.rem]
            out += [f(x, y) for f in shifts] + [lax.population_count(x), lax.clz(x)]
        return out + [x + jnp.array([1, 0, 1, 1, 0], x.dtype), jnp.full_like(x, 1)]


for _dtype in SMALL_FLOATS:

    @program(s((4,), "float32"), s((4,), _dtype), name=f"small_{_dtype}")
    def _(x, y):
        constant = jnp.array([0.5, 1, 2, 4], y.dtype)
        return lax.convert_element_type(x, y.dtype), y.astype(jnp.float32), constant, jnp.full((300,), 2, y.dtype)


for _dtype in COMPLEX:

    @program(s((3,), _dtype), name=f"complex_{_dtype}")
    def _(x):
        constant = jnp.array([1 + 2j, -3.5 + 0j, complex("nan-infj")], x.dtype)
        return x * constant, lax.real(x), lax.imag(x), lax.conj(x), lax.complex(lax.real(x), lax.imag(x)), jnp.abs(x), jnp.exp(x)


@program(s((4,), "bool"), s((4,), "bool"))
def booleans(x, y):
    return x & y, x | y, x ^ y, ~x, jnp.where(x, jnp.array([True, False, True, True]), y), jnp.full((9, 9), True), jnp.zeros((9, 9), bool)


@program(s((4,)))
def constants(x):
    mixed = np.arange(1000, dtype=np.float32).reshape(10, 100) / 7
    bits = (np.arange(999) % 3 == 0).reshape(27, 37)
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.4e38, 0.1], np.float32)
    empty = np.zeros((0, 3), np.float32)
    return x, mixed, bits, odd, empty, np.float64(0.1), np.int8(-7), np.full((64, 64), 2.5, np.float16), np.uint64(2**64 - 1)


@program(s((8, 9)), s((9, 7)))
def dot(a, b):
    high = lax.dot(a, b, precision=lax.Precision.HIGHEST)
    mixed = lax.dot(a.astype(jnp.bfloat16), b.astype(jnp.bfloat16), preferred_element_type=jnp.float32)
    algorithm = lax.dot(a, b, precision=lax.DotAlgorithmPreset.BF16_BF16_F32)
    return high, mixed, a @ b, algorithm, lax.dot(a, b, precision=("high", "default"))


@program(s((2, 3, 4, 5)), s((3, 2, 5, 6)))
def dot_general(a, b):
    return lax.dot_general(a, b, (((3,), (2,)), ((0, 1), (1, 0)))), jnp.einsum("abcd,efdg->ag", a, b), jnp.tensordot(a, b, 0)


@program(s((2, 8, 8, 3)), s((3, 3, 3, 4)))
def conv(x, w):
    numbers = ("NHWC", "HWIO", "NHWC")
    conv = functools.partial(lax.conv_general_dilated, dimension_numbers=numbers)
    plain = conv(x, w, (1, 1), "VALID")
    strided = conv(x, w, (2, 1), ((1, 2), (0, 1)), lhs_dilation=(2, 1), rhs_dilation=(1, 2))
    grads = jax.grad(lambda x, w: conv(x, w, (2, 2), "SAME").sum(), (0, 1))(x, w)
    grouped = conv(x, jnp.zeros((3, 3, 1, 6)).astype(x.dtype), (1, 1), "SAME", feature_group_count=3, precision="highest")
    return plain, strided, grads, grouped


@program(s((2, 4, 10)), s((6, 4, 3)))
def conv_1d(x, w):
    transposed = lax.conv_transpose(x, jnp.zeros((3, 10, 5), x.dtype), (2,), "SAME")
    return lax.conv_general_dilated(x, w, (1,), "SAME"), transposed, lax.conv_general_dilated(x, jnp.zeros((4, 4, 10), x.dtype), (1,), [(0, 0)], batch_group_count=2)


@program(s((3, 4, 5)), s((3, 4, 5), "int32"))
def reduce(x, i):
    sums = [x.sum(), x.sum(0), x.max((1, 2)), x.min(-1), x.prod(1), (x > 0).any(), (x > 0).all(1), i.sum(2)]
    arg = [jnp.argmax(x, 1), jnp.argmin(x, axis=None), jnp.mean(x), jnp.var(x, 0), jax.nn.logsumexp(x, 2)]
    many = lax.reduce((x, i), (jnp.float32(0), jnp.int32(1)), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0, 2))
    return sums, arg, many


@program(s((2, 9, 9, 3)))
def reduce_window(x):
    pool = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    mean = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 1, 1), ((0, 0), (1, 0), (0, 1), (0, 0)), (1, 2, 1, 1), (1, 1, 2, 1))
    grad = jax.grad(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID").sum())(x)
    return pool, mean, grad, jnp.cumsum(x, 1), lax.cummax(x, 2), lax.cumprod(x, 1, reverse=True), lax.cumlogsumexp(x, 1)


@program(s((4,)), s((), "int32"))
def loops(x, n):
    w = lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2), (jnp.int32(0), x))
    scanned = lax.scan(lambda c, y: (c + y, c * y), x[0], x)
    nested = lax.fori_loop(0, 3, lambda i, a: lax.fori_loop(0, i, lambda j, b: b + j, a), x)
    return w, scanned, nested, lax.map(jnp.sin, x)


@program(s((4,)), s((), "int32"), s((), "bool"))
def branches(x, i, p):
    switch = lax.switch(i, [jnp.sin, jnp.cos, lambda y: y * 2, lambda y: jnp.zeros_like(y)], x)
    return switch, lax.cond(p, lambda a: a + x, lambda a: a, x), jax.grad(lambda y: lax.cond(p, jnp.sum, jnp.prod, y))(x)


@program(s((5, 6)), s((5, 6), "int32"))
def sorting(x, i):
    pair = lax.sort((x, i), dimension=0, num_keys=2)
    return jnp.sort(x, 0), jnp.argsort(x, 1), pair, lax.top_k(x, 3), jnp.median(x), lax.sort(x, is_stable=False), jnp.unique(i, size=4)


@program(s((5, 6, 7)), s((2, 3), "int32"))
def gathers(x, i):
    taken = x[i, :, i], x[:, i[0]], jnp.take(x, i, axis=1, mode="clip"), jnp.take_along_axis(x, i[0, 0] * jnp.ones((5, 6, 1), jnp.int32), 2)
    return taken, x[1:4:2, ::-1], lax.dynamic_slice(x, (i[0, 0], i[0, 1], i[1, 1]), (2, 3, 4)), jax.vmap(lambda a, j: a[j])(x[:2], i[:, 0])


@program(s((5, 6)), s((3,), "int32"), s((3, 6)))
def scatters(x, i, u):
    sets = x.at[i].set(u), x.at[i].add(u, unique_indices=True), x.at[i].mul(u, indices_are_sorted=True), x.at[i].min(u)
    return sets, x.at[i, 0].max(u[:, 0], mode="drop"), lax.dynamic_update_slice(x, u, (i[0], i[1])), jax.grad(lambda a: a[i].sum())(x)


@program(s((3, 4)))
def shapes(x):
    moved = x.T, x.reshape(2, 6), jnp.flip(x, 1), jnp.broadcast_to(x[:, None], (3, 5, 4)), jnp.concatenate([x, x, x[:1]])
    padded = lax.pad(x, jnp.float32(0), ((1, -1, 0), (0, 2, 3)))
    iota = lax.iota(jnp.int32, 7), lax.broadcasted_iota(jnp.bfloat16, (2, 3), 1), jnp.arange(5), jnp.eye(3)
    return moved, padded, iota, lax.bitcast_convert_type(x, jnp.uint32), lax.bitcast_convert_type(x, jnp.uint8), lax.reduce_precision(x, 5, 10), jnp.tril(x), lax.rev(x, (0,))


@program(s((2,), "uint32"))
def random(k):
    key = jax.random.wrap_key_data(k)
    a, b, c = jax.random.split(key, 3)
    return jax.random.normal(a, (3,)), jax.random.permutation(b, 8), jax.random.uniform(c, (2, 2), jnp.bfloat16), jax.random.bernoulli(a, 0.3, (4,)), jax.random.gamma(b, 2.0, (2,))


@program(s((2,), "uint32"))
def threefry(k):
    return jax.random.bits(jax.random.wrap_key_data(k), (5,))


@program(s((4,), "uint32"))
def random_bits(k):
    return lax.rng_bit_generator(k, (3, 4)), lax.rng_bit_generator(k, (2,), dtype=jnp.uint64, algorithm=lax.RandomAlgorithm.RNG_PHILOX), lax.rng_uniform(0.0, 1.0, (3,))


@program(s((4, 8), "complex64"), s((4, 8)))
def fft(c, x):
    return jnp.fft.fft(c), jnp.fft.ifft2(c), jnp.fft.rfft(x), jnp.fft.irfft(c, 8)


@program(s((4, 4)), s((4, 2)), platform="cpu")
def linalg(a, b):
    solve = lax.linalg.triangular_solve(a, b, left_side=True, lower=True, transpose_a=True)
    return jnp.linalg.cholesky(a), jnp.linalg.qr(a), jnp.linalg.svd(a), jnp.linalg.eigh(a), jnp.linalg.solve(a, b), jnp.linalg.det(a), solve


@program(s((4, 4)), s((4, 2)), platform="tpu")
def linalg_calls(a, b):
    """As custom calls, the way platforms without LAPACK get them."""
    lu = lax.linalg.lu(a)
    solve = lax.linalg.triangular_solve(a, b, left_side=True, lower=True)
    return jnp.linalg.cholesky(a), jnp.linalg.qr(a), jnp.linalg.svd(a), jnp.linalg.eigh(a), lu, solve, jnp.linalg.inv(a)


@program(s((4, 6)), s((4, 6)), s((4, 6), "int32"))
def numpy_functions(x, y, i):
    unary = (
        "abs angle around average cbrt ceil conj cos cosh cumprod cumsum deg2rad diag diff ediff1d exp exp2 expm1 fabs "
        "flatnonzero floor frexp gradient i0 imag isfinite isinf isnan isneginf log log10 log1p log2 max mean "
        "median min modf nan_to_num nanmax nanmean nanmin nanprod nanstd nansum nanvar negative positive prod ptp "
        "rad2deg ravel real reciprocal rint round sign signbit sin sinc sinh sort sqrt square std sum tan tanh trace "
        "transpose tril triu trunc var argmax argmin argsort count_nonzero all any nanargmax fliplr flipud rot90"
    )
    binary = (
        "add allclose arctan2 array_equal copysign cross dot equal float_power floor_divide fmax fmin fmod greater "
        "heaviside hypot inner isclose kron ldexp logaddexp logaddexp2 logical_and matmul maximum minimum multiply "
        "nextafter outer polyval power remainder subtract tensordot true_divide vdot hstack"
    )
    out = [getattr(jnp, n)(x, size=3) if n == "flatnonzero" else getattr(jnp, n)(x) for n in unary.split()]
    for n in binary.split():
        a, b = x, y
        if n in ("matmul", "dot"):
            b = y.T
        if n == "cross":
            a, b = x[:, :3], y[:, :3]
        if n == "ldexp":
            b = i
        if n == "polyval":
            a, b = x[0], y[0]
        out.append(jnp.hstack([a, b]) if n == "hstack" else getattr(jnp, n)(a, b))
    integer = "bitwise_and bitwise_left_shift bitwise_xor gcd lcm left_shift right_shift mod divmod".split()
    return out + [getattr(jnp, n)(i, i + 1) for n in integer]


@program(s((4, 6)), s((4, 6)), s((6,)), s((3,), "int32"))
def numpy_shapes(x, y, v, i):
    where = jnp.where(x > y, x, y), jnp.select([x > 0, y > 0], [x, y], 0.5), jnp.clip(x, -1, 1), jnp.piecewise(v, [v < 0], [0.0, 1.0])
    joined = jnp.stack([x, y], 1), jnp.vstack([x, y]), jnp.block([[x, y], [y, x]]), jnp.tile(x, (2, 3)), jnp.repeat(x, 2, 1)
    parts = jnp.split(x, 2, 1), jnp.array_split(v, 4), jnp.roll(x, (1, 2), (0, 1)), jnp.pad(x, ((1, 2), (0, 3)), "reflect")
    padded = jnp.pad(x, 1, "edge"), jnp.pad(x, 2, "wrap"), jnp.pad(x, 1, "linear_ramp"), jnp.pad(v, 2, "symmetric")
    picked = jnp.take(x, i, 1), x.at[i[:2], i[1:]].get(mode="fill", fill_value=2.0), jnp.searchsorted(v, x), jnp.digitize(x, v), jnp.interp(x, v, v)
    counted = jnp.histogram(x, 5), jnp.bincount(i, length=8), jnp.unique(x, size=5), jnp.nonzero(x, size=4), jnp.convolve(v, v[:3]), jnp.correlate(v, v[:2])
    made = jnp.linspace(0, 1, 5), jnp.meshgrid(v, v), jnp.indices((2, 3)), jnp.tri(4), jnp.vander(v, 3), jnp.fft.fft2(x), jnp.cov(x), jnp.corrcoef(x)
    ranked = jnp.quantile(x, jnp.array([0.1, 0.9]), 1), jnp.percentile(x, 30), jnp.lexsort((v, v)), jnp.partition(v, 2), jnp.apply_along_axis(jnp.cumsum, 1, x)
    return where, joined, parts, padded, picked, counted, made, ranked


@program(s((4, 6)))
def special_functions(x):
    sp = jax.scipy.special
    one = [sp.bessel_jn, sp.digamma, sp.entr, sp.erf, sp.erfc, sp.erfinv, sp.expit, sp.gamma, sp.gammaln, sp.i0, sp.i0e, sp.i1, sp.i1e, sp.log_ndtr, sp.logit, sp.ndtr, sp.ndtri, sp.spence, sp.exp1, sp.expi]  # fmt: skip
    two = [sp.betaln, sp.gammainc, sp.gammaincc, sp.xlog1py, sp.xlogy, sp.kl_div, sp.rel_entr, sp.poch, sp.zeta]
    out = [f(x) for f in one[1:]] + [f(x, x + 1) for f in two] + [sp.betainc(x, x + 1, x), sp.logsumexp(x, 1), sp.polygamma(2, x)]
    return out + [f(x) for f in (jax.nn.gelu, jax.nn.silu, jax.nn.softplus, jax.nn.elu, jax.nn.selu, jax.nn.swish, jax.nn.log_softmax, jax.nn.standardize, jax.nn.glu, jax.nn.relu6)]


@program(s((2,), "uint32"))
def distributions(k):
    key = jax.random.wrap_key_data(k)
    names = "cauchy exponential gumbel laplace logistic normal rademacher rayleigh truncated_normal maxwell"
    out = []
    for n in names.split():
        f = getattr(jax.random, n)
        args = {"rademacher": ((3,),), "rayleigh": (2.0, (3,)), "truncated_normal": (-1.0, 1.0, (3,))}.get(n, ((3,),))
        out.append(f(key, *args))
    out += [jax.random.beta(key, 1.0, 2.0, (3,)), jax.random.dirichlet(key, jnp.ones(3)), jax.random.poisson(key, 3.0, (3,)), jax.random.categorical(key, jnp.ones((2, 3))), jax.random.choice(key, 8, (3,), replace=False)]
    return out, jax.random.randint(key, (4,), 0, 9), jax.random.bits(key, (2, 2)), jax.random.orthogonal(key, 2), jax.random.ball(key, 3)


@program(s((4, 8)), s((8, 8)), s((5, 4, 8)))
def transformed(h, w, xs):
    """vmap, jvp, vjp, hessians and custom rules through scans, as training code has them."""

    def cell(h, x):
        new = jnp.tanh(h @ w + x)
        return new, new.sum(-1)

    def loss(w):
        last, seen = lax.scan(lambda c, x: cell(c, x @ w), h, xs)
        return (last**2).mean() + seen.mean()

    small = w[:2, :2]
    jacobians = jax.hessian(lambda v: jnp.sin(v @ small).prod())(h[0, :2]), jax.jacfwd(jnp.cumsum)(h[0]), jax.jacrev(jnp.sort)(h[0])
    mapped = jax.vmap(jax.grad(lambda v: jnp.linalg.norm(v)))(h), jax.vmap(lambda a: lax.fori_loop(0, 3, lambda i, b: b * a, a))(h)
    return jax.value_and_grad(loss)(w), jax.jvp(loss, (w,), (w,)), jacobians, mapped, lax.associative_scan(jnp.add, xs, axis=0)


@program(s((2, 16, 16, 3)), s((3, 3, 3, 8)), s((8,)), s((4, 4, 8, 8)))
def resnet_step(x, w, scale, deep):
    def loss(w):
        h = lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        mean, var = h.mean((0, 1, 2)), h.var((0, 1, 2))
        h = jax.nn.relu((h - mean) * lax.rsqrt(var + 1e-5) * scale)
        h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        h = lax.conv_transpose(h, deep, (2, 2), "SAME") + jax.image.resize(h, (2, 8, 8, 8), "bilinear")
        return jax.nn.log_softmax(h.mean((1, 2))).sum()

    return jax.value_and_grad(loss)(w)


@program(s((3,)))
def barriers(x):
    a, b = lax.optimization_barrier((x, x + 1))
    return jax.checkpoint(lambda y: jnp.sin(y) * y)(a), jax.grad(jax.checkpoint(lambda y: jnp.sin(jnp.sin(y)).sum()))(b)


@program(s((3,)), donate_argnums=0)
def donated(x):
    return jax.jit(lambda y: y * 2)(x) + jax.jit(lambda y: y * 3)(x)


@program(s((6, 5)), s((3, 5, 7)), s((3,), "int32"))
def ragged(x, w, sizes):
    return lax.ragged_dot(x, w, sizes)


@program(s((2, 16, 32)), s((32, 32)), s((64, 32)), s((2, 16), "int32"))
def transformer_step(x, w, e, tokens):
    def loss(w):
        h = jax.nn.softmax(jnp.einsum("bsd,de,bte->bst", x, w, x) / 5.66 + jnp.tril(jnp.ones((16, 16)))[None], -1) @ x
        h = (h - h.mean(-1, keepdims=True)) * lax.rsqrt(h.var(-1, keepdims=True) + 1e-5)
        logits = jax.nn.gelu(h) @ e.T
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], -1).mean()

    value, grad = jax.value_and_grad(loss)(w)
    return value, w - 0.1 * grad


@program(s((6,)))
def result_accuracy(x):
    tolerance = lax.Tolerance(atol=1e-5, rtol=0.0, ulps=2)
    return lax.exp(x, accuracy=tolerance), lax.log(x, accuracy=lax.AccuracyMode.HIGHEST)


@program(s((3,)))
def ffi_call(x):
    call = jax.ffi.ffi_call("trine_test", jax.ShapeDtypeStruct((3,), jnp.float32), has_side_effect=True, input_output_aliases={0: 0})
    return call(x, scale=2.5, name="a\"b\\c\n\xe9", flags=np.int32(7), sizes=np.array([1, 2, 3]))


def sharded():
    """Programs over a mesh of abstract devices, so that none have to exist."""
    mesh = jax.sharding.AbstractMesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)

    def on(*spec):
        return NamedSharding(mesh, P(*spec))

    def arg(shape, *spec):
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=on(*spec))

    def pjit(a, b):
        c = lax.with_sharding_constraint(a @ b, on("x", None))
        return lax.with_sharding_constraint(jnp.tanh(c), on(("x", "y"), None)), c.sum(0)

    PROGRAMS["pjit"] = (jax.jit(pjit, out_shardings=(on("x", "y"), on("y"))), (arg((8, 16), "x", "y"), arg((16, 32), "y")))

    @jax.shard_map(mesh=mesh, in_specs=(P("x", "y"), P("y", None)), out_specs=P("x", None))
    def manual(a, b):
        c = lax.psum(a @ b, "y")
        g = lax.all_gather(a, "y", axis=1, tiled=True)
        r = lax.psum_scatter(g, "y", scatter_dimension=1, tiled=True)
        p = lax.ppermute(r, "x", [(i, (i + 1) % 4) for i in range(4)])
        t = lax.all_to_all(g, "x", 1, 0, tiled=True)
        total = lax.pmax(p.sum() + t.sum(), ("x", "y")) + lax.axis_index("x") + lax.axis_size("y")
        return c + total

    PROGRAMS["shard_map"] = (jax.jit(manual), (arg((8, 16), "x", "y"), arg((16, 32), "y")))

    explicit = jax.sharding.AbstractMesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Explicit,))
    x = jax.ShapeDtypeStruct((8, 4), jnp.float32, sharding=NamedSharding(explicit, P("d")))
    PROGRAMS["explicit"] = (jax.jit(lambda a: jax.sharding.reshard(a * 2, NamedSharding(explicit, P(None, "d")))), (x,))


sharded()


def lower(name):
    function, args = PROGRAMS[name]
    return function.trace(*args).lower(lowering_platforms=(PLATFORM.get(name, "neuron"),))
