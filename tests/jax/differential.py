"""The table of the differential test: JAX functions with random arguments, on virtual NeuronCores and on XLA's CPU.

A row is a name, a function and how to draw its arguments from a seeded generator. A case is (row, seed); when one
fails, smaller seeds of the same row are tried first, so the smallest failing arguments are reported.
"""

import functools
import zlib
from dataclasses import dataclass
from typing import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

FLOATS = ["float32", "float32", "bfloat16", "float16"]
INTS = ["int32", "int8", "int16", "uint8", "uint16", "uint32"]
NUMBERS = FLOATS + INTS
COMPLEX = ["complex64"]
BITS = INTS + ["bool"]
NARROW = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz", "float8_e3m4",
          "float8_e4m3", "float8_e8m0fnu", "float4_e2m1fn", "int4", "uint4", "int2", "uint2"]  # fmt: skip

# Relative to the larger of 1 and the value; sums of a few hundred terms included.
TOLERANCE = {"float32": 2e-5, "complex64": 5e-5, "bfloat16": 2e-2, "float16": 4e-3}


@dataclass(frozen=True)
class Row:
    name: str
    function: Callable
    draw: Callable  # (numpy generator, size) -> arguments
    scale: float = 1.0  # of the tolerance
    wide: bool = False  # with 64-bit types


def shape(g, size, least=0, most=4):
    rank = int(g.integers(least, most + 1))
    return tuple(int(g.integers(1 if g.random() > 0.03 else 0, 2 + size)) for _ in range(rank))


def array(g, dims, dtype, low=-3.0, high=3.0):
    kind = jnp.dtype(dtype)
    if kind == jnp.bool_:
        return g.random(dims) > 0.5
    if jnp.issubdtype(kind, jnp.complexfloating):
        return (g.uniform(low, high, dims) + 1j * g.uniform(low, high, dims)).astype(kind)
    if jnp.issubdtype(kind, jnp.integer):
        info = jnp.iinfo(kind)
        if g.random() < 0.5:
            low, high = max(int(info.min), -9), min(int(info.max), 9)
            return g.integers(low, high, dims, endpoint=True).astype(kind)
        return g.integers(int(info.min), int(info.max), dims, dtype=np.int64, endpoint=True).astype(kind)
    values = g.uniform(low, high, dims)
    if g.random() < 0.1 and values.size and low < 0:
        flat = values.reshape(-1)
        flat[g.integers(0, flat.size)] = g.choice([np.inf, -np.inf, np.nan, 0.0, -0.0])
    return values.astype(kind)


def pick(g, options):
    return options[int(g.integers(0, len(options)))]


def arrays(count, dtypes, low=-3.0, high=3.0, least=0):
    def draw(g, size):
        dtype, dims = pick(g, dtypes), shape(g, size, least)
        return [array(g, dims, dtype, low, high) for _ in range(count)]

    return draw


def reduced(dtypes, low=-3.0, high=3.0):
    def draw(g, size):
        dims = tuple(max(1, d) for d in shape(g, size, 1))
        axes = tuple(sorted(int(a) for a in g.permutation(len(dims))[: int(g.integers(1, len(dims) + 1))]))
        return [array(g, dims, pick(g, dtypes), low, high), axes]

    return draw


def unary_rows(add):
    for name, dtypes, low, high in [
        ("abs", NUMBERS + COMPLEX, -3, 3), ("neg", NUMBERS + COMPLEX, -3, 3), ("sign", NUMBERS, -3, 3),
        ("floor", FLOATS, -3, 3), ("ceil", FLOATS, -3, 3), ("exp", FLOATS + COMPLEX, -3, 3),
        ("exp2", FLOATS, -3, 3), ("expm1", FLOATS, -3, 3), ("log", FLOATS, 0.01, 9), ("log1p", FLOATS, -0.9, 9),
        ("tanh", FLOATS, -9, 9), ("logistic", FLOATS, -9, 9), ("sin", FLOATS, -9, 9), ("cos", FLOATS, -9, 9),
        ("tan", FLOATS, -1.4, 1.4), ("asin", FLOATS, -1, 1), ("acos", FLOATS, -1, 1), ("atan", FLOATS, -9, 9),
        ("sinh", FLOATS, -3, 3), ("cosh", FLOATS, -3, 3), ("asinh", FLOATS, -9, 9), ("acosh", FLOATS, 1.01, 9),
        ("atanh", FLOATS, -0.9, 0.9), ("sqrt", FLOATS, 0, 9), ("rsqrt", FLOATS, 0.01, 9), ("cbrt", FLOATS, -9, 9),
        ("erf", FLOATS, -4, 4), ("erfc", FLOATS, -4, 4), ("erf_inv", FLOATS, -0.95, 0.95),
        ("lgamma", FLOATS, 0.1, 9), ("digamma", FLOATS, 0.5, 9), ("is_finite", FLOATS, -3, 3),
        ("bitwise_not", BITS, -3, 3), ("population_count", INTS, -3, 3), ("clz", INTS, -3, 3),
        ("real", COMPLEX, -3, 3), ("imag", COMPLEX, -3, 3), ("conj", COMPLEX, -3, 3), ("square", NUMBERS, -3, 3),
    ]:  # fmt: skip
        scale = {"lgamma": 8, "digamma": 20, "erf_inv": 8, "tan": 8, "acosh": 20, "cosh": 2, "sinh": 2}.get(name, 1)
        add(f"lax.{name}", getattr(lax, name), arrays(1, dtypes, low, high), scale)
    add("lax.round", lambda x: lax.round(x), arrays(1, FLOATS))
    add("lax.round even", lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), arrays(1, FLOATS))
    add("lax.reduce_precision", lambda x: lax.reduce_precision(x, 5, 7), arrays(1, ["float32"]))


def binary_rows(add):
    for name, dtypes in [
        ("add", NUMBERS + COMPLEX), ("sub", NUMBERS + COMPLEX), ("mul", NUMBERS + COMPLEX), ("max", NUMBERS),
        ("min", NUMBERS), ("div", FLOATS + ["int32", "uint8", "int16"]), ("rem", FLOATS + ["int32", "uint8"]),
        ("atan2", FLOATS), ("nextafter", ["float32"]), ("bitwise_and", BITS), ("bitwise_or", BITS),
        ("bitwise_xor", BITS), ("shift_left", INTS), ("shift_right_logical", INTS),
        ("shift_right_arithmetic", INTS), ("eq", NUMBERS + COMPLEX), ("ne", NUMBERS), ("lt", NUMBERS),
        ("le", NUMBERS), ("gt", NUMBERS), ("ge", NUMBERS),
    ]:  # fmt: skip
        add(f"lax.{name}", getattr(lax, name), arrays(2, dtypes), 4 if name == "rem" else 1)
    add("infinities times truths", lambda x, m: x / 0 * m,
        lambda g, s: [array(g, d := shape(g, s), pick(g, ["float32", "float16"])), array(g, d, "bool")])  # fmt: skip
    add("lax.pow", lax.pow, lambda g, s: [array(g, d := shape(g, s), "float32", 0.1, 3), array(g, d, "float32")], 8)
    add("lax.integer_pow", lambda x: lax.integer_pow(x, 3), arrays(1, NUMBERS))
    add("lax.clamp", lambda a, x, b: lax.clamp(a, x, b), arrays(3, ["float32", "int32"]))
    add("lax.select", lambda a, b: lax.select(a > b, a, b), arrays(2, NUMBERS))
    add("lax.complex", lax.complex, arrays(2, ["float32"]))

    def convert(g, size):
        source, target = (pick(g, NUMBERS + ["bool"] + NARROW) for _ in range(2))
        return [array(g, shape(g, size), source), target]

    add("astype", lambda x, target: x.astype(target), convert)
    add("bitcast", lambda x: lax.bitcast_convert_type(x, jnp.uint32), arrays(1, ["float32", "int32"]))
    add("bitcast wider", lambda x: lax.bitcast_convert_type(x, jnp.uint8), arrays(1, ["float32", "int16"]))


def shapes_rows(add):
    def with_axes(g, size):
        dims = shape(g, size, 1)
        return [array(g, dims, pick(g, NUMBERS)), tuple(int(a) for a in g.permutation(len(dims)))]

    add("transpose", lambda x, axes: jnp.transpose(x, axes), with_axes)
    add("rev", lambda x, axes: lax.rev(x, axes[:1]), with_axes)
    add("reshape", lambda x, axes: x.reshape(-1), with_axes)
    add("expand", lambda x, axes: jnp.expand_dims(x, axes[0]), with_axes)
    add("tile", lambda x, axes: jnp.tile(x, 2), with_axes)
    add("roll", lambda x, axes: jnp.roll(x, 3, axes[0]), with_axes)
    add("repeat", lambda x, axes: jnp.repeat(x, 2, axes[0]), with_axes)
    add("flip and slice", lambda x, axes: jnp.flip(x, axes[0])[::2], with_axes)
    add("concatenate", lambda a, b: jnp.concatenate([a, b, a], 0), arrays(2, NUMBERS, least=1))
    add("stack", lambda a, b: jnp.stack([a, b], -1), arrays(2, NUMBERS))
    add("where", lambda a, b: jnp.where(a > 0, a, b), arrays(2, NUMBERS))
    add("tril", jnp.tril, lambda g, s: [array(g, shape(g, s, 2, 3), pick(g, NUMBERS))])
    add("broadcast", lambda a, b: a[..., None] + b, lambda g, s: [
        array(g, (2, 3), "float32"), array(g, (int(g.integers(1, 5)),), "float32")])  # fmt: skip

    def padded(g, size):
        dims = shape(g, size, 1)
        config = tuple((int(g.integers(-1, 3)), int(g.integers(-1, 3)), int(g.integers(0, 3))) for _ in dims)
        dims = tuple(d + 3 for d in dims)
        return [array(g, dims, pick(g, NUMBERS)), config]

    add("pad", lambda x, config: lax.pad(x, jnp.zeros((), x.dtype), config), padded)

    def dynamic(g, size):
        dims = tuple(d + 1 for d in shape(g, size, 1, 3))
        part = tuple(int(g.integers(1, d + 1)) for d in dims)
        starts = [np.int32(g.integers(-3, 9)) for _ in dims]
        return [array(g, dims, pick(g, NUMBERS)), starts, part]

    add("dynamic_slice", lambda x, starts, part: lax.dynamic_slice(x, starts, part), dynamic)
    add("dynamic_update_slice",
        lambda x, starts, part: lax.dynamic_update_slice(x, jnp.ones(part, x.dtype), starts), dynamic)  # fmt: skip


def reductions_rows(add):
    for name, dtypes in [
        ("sum", NUMBERS + COMPLEX), ("prod", ["float32", "int32"]), ("max", NUMBERS), ("min", NUMBERS),
        ("mean", FLOATS), ("var", ["float32"]), ("std", ["float32"]), ("any", BITS), ("all", BITS),
        ("nansum", ["float32"]), ("nanmax", ["float32"]), ("count_nonzero", NUMBERS),
    ]:  # fmt: skip
        add(f"jnp.{name}", lambda x, axes, f=getattr(jnp, name): f(x, axis=axes), reduced(dtypes), 8)
    for name in ["argmax", "argmin", "cumsum", "cumprod", "cummax" if hasattr(jnp, "cummax") else "cumsum", "ptp"]:
        add(f"jnp.{name} ", lambda x, axes, f=getattr(jnp, name): f(x, axis=axes[0]), reduced(["float32", "int32"]), 8)
    add("logsumexp", lambda x, axes: jax.nn.logsumexp(x, axis=axes), reduced(["float32", "bfloat16"]), 4)
    add("softmax", lambda x, axes: jax.nn.softmax(x, axis=axes[0]), reduced(FLOATS), 2)
    add("layer norm", lambda x, axes: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-3),
        reduced(["float32"]), 16)  # fmt: skip
    add("own reduction", lambda x, axes: lax.reduce(x, jnp.float32(0), lambda a, b: a + b * 0.5 * b, axes),
        lambda g, s: [np.abs(array(g, (4,), "float32", 0.1, 1)), (0,)], 1e9)  # fmt: skip
    add("sum of what is written over", lambda x: ((c := jnp.maximum(x, 0.5)).sum(0), c / c.max(1, keepdims=True) + x[::-1]),
        lambda g, s: [g.uniform(0, 2, (int(g.integers(2, 9)), 1, 1)).astype("float32")], 8)  # fmt: skip
    add("associative_scan", lambda x, axes: lax.associative_scan(jnp.maximum, x, axis=axes[0]), reduced(["float32"]))

    def windowed(g, size):
        dims = tuple(int(d) for d in g.integers(3, 5 + size, 2))
        return [array(g, dims, "float32"), tuple(int(w) for w in g.integers(1, 4, 2)),
                tuple(int(w) for w in g.integers(1, 3, 2)), pick(g, ["SAME", "VALID"])]  # fmt: skip

    add("max pool", lambda x, w, s, p: lax.reduce_window(x, -jnp.inf, lax.max, w, s, p), windowed)
    add("sum pool", lambda x, w, s, p: lax.reduce_window(x, 0.0, lax.add, w, s, p), windowed, 2)
    add("max pool gradient",
        lambda x, w, s, p: jax.grad(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, w, s, p).sum())(x), windowed)  # fmt: skip


def contractions_rows(add):
    def contraction(g, size):
        b, m, n, k = (int(d) for d in g.integers(1, 3 + 2 * size, 4))
        spec = pick(g, ["bmk,bkn->bmn", "mk,kn->mn", "mk,nk->mn", "km,kn->nm", "bkm,bnk->bmn", "mkb,kbn->mn",
                        "bmk,kn->bmn", "mk,k->m", "k,k->", "m,n->mn", "bm,bm->b", "bhmk,bhnk->bhmn"])  # fmt: skip
        sizes = {"b": b, "m": m, "n": n, "k": k, "h": 2}
        dtype = pick(g, FLOATS + ["int8", "int32", "complex64"])
        left, right = spec.split("->")[0].split(",")
        return [array(g, tuple(sizes[c] for c in part), dtype, -1, 1) for part in (left, right)] + [spec]

    add("einsum", lambda a, b, spec: jnp.einsum(spec, a, b), contraction, 8)
    add("dot f32 out", lambda a, b, spec: jnp.einsum(spec, a, b, preferred_element_type=jnp.float32),
        lambda g, s: [*(array(g, (4, 4), kind) for kind in [pick(g, ["bfloat16", "int8", "bool"])] * 2), "mk,kn->mn"], 8)  # fmt: skip
    add("einsum gradient", lambda a, b, spec: jax.grad(lambda a, b: jnp.einsum(spec, a, b).sum(), (0, 1))(a, b),
        lambda g, s: [*(np.float32(x) for x in contraction(g, s)[:0]), array(g, (3, 4), "float32"),
                      array(g, (4, 5), "float32"), "mk,kn->mn"], 8)  # fmt: skip

    def convolved(g, size):
        groups = int(g.integers(1, 3))
        c, o = groups * int(g.integers(1, 4)), groups * int(g.integers(1, 4))
        dims = tuple(int(d) for d in g.integers(3, 5 + size, 2))
        kernel = tuple(int(k) for k in g.integers(1, 4, 2))
        # Finite: whether a NaN meets the zeros of the padding is left to each backend.
        x = g.uniform(-1, 1, (int(g.integers(1, 3)), *dims, c)).astype("float32")
        w = g.uniform(-1, 1, (*kernel, c // groups, o)).astype("float32")
        options = dict(window_strides=tuple(int(s) for s in g.integers(1, 3, 2)),
                       padding=pick(g, ["SAME", "VALID", ((1, 2), (0, 1))]),
                       rhs_dilation=tuple(int(s) for s in g.integers(1, 3, 2)), feature_group_count=groups)  # fmt: skip
        if not isinstance(options["padding"], str):
            options["lhs_dilation"] = tuple(int(s) for s in g.integers(1, 3, 2))
        if any(d < (k - 1) * r + 1 for d, k, r in zip(dims, kernel, options["rhs_dilation"])):
            options["rhs_dilation"] = (1, 1)
        return [x, w, tuple(sorted(options.items()))]

    def conv(x, w, options):
        return lax.conv_general_dilated(x, w, dimension_numbers=("NHWC", "HWIO", "NHWC"), **dict(options))

    add("conv", conv, convolved, 8)
    add("conv gradients", lambda x, w, o: jax.grad(lambda x, w: (conv(x, w, o) ** 2).sum(), (0, 1))(x, w), convolved, 64)


def indexing_rows(add):
    def indexed(g, size):
        dims = tuple(max(1, d) for d in shape(g, size, 1, 3))
        index = g.integers(-dims[0] - 2, dims[0] + 2, shape(g, 3, 0, 2)).astype("int32")
        return [array(g, dims, pick(g, ["float32", "int32", "bfloat16"])), index]

    add("x[i]", lambda x, i: x[i], indexed)
    add("take clip", lambda x, i: jnp.take(x, i, 0, mode="clip"), indexed)
    add("take fill", lambda x, i: jnp.take(x, i, 0, mode="fill", fill_value=7), indexed)
    for name in ["set", "add", "multiply", "min", "max"]:
        add(f"x.at[i].{name}", lambda x, i, n=name: getattr(x.at[i], n)(2 if n != "set" else 5), indexed, 8)
    add("take_along_axis", lambda x, i: jnp.take_along_axis(x, jnp.argsort(x, 0), 0), indexed)
    add("gather gradient", lambda x, i: jax.grad(lambda x: (x[i] ** 2).sum())(x.astype(jnp.float32)), indexed, 8)
    add("x[:, i]", lambda x, i: x[:, i], lambda g, s: [array(g, (3, 5), "float32"), np.int32([4, 0, 2])])
    add("mask", lambda x, i: jnp.where(jnp.arange(x.shape[0]).reshape((-1,) + (1,) * (x.ndim - 1)) > 1, x, 0), indexed)


def orders_rows(add):
    add("sort", lambda x, axes: jnp.sort(x, axis=axes[0]), reduced(NUMBERS))
    add("sort down", lambda x, axes: jnp.sort(x, axis=axes[0], descending=True), reduced(["float32", "int32"]))
    add("argsort", lambda x, axes: jnp.argsort(x, axis=axes[0], stable=True), reduced(["float32", "int32"]))
    add("top_k", lambda x, axes: lax.top_k(x, min(2, x.shape[-1])), reduced(["float32", "int32"]))
    add("sort pairs", lambda x, y: lax.sort((x, y), num_keys=2), arrays(2, ["int32", "float32"], least=1))
    add("searchsorted", lambda x, y: jnp.searchsorted(jnp.sort(x.ravel()), y.ravel()), arrays(2, ["float32"]))
    add("median", lambda x, axes: jnp.median(x, axis=axes[0]), reduced(["float32"]))
    add("unique", lambda x: jnp.unique(x, size=5, fill_value=0), arrays(1, ["int32"]))
    add("bincount", lambda x: jnp.bincount(jnp.abs(x.ravel()) % 7, length=7), arrays(1, ["int32"]))


def algebra_rows(add):
    def matrix(g, size):
        n = int(g.integers(1, 3 + size))
        a = array(g, (n, n), "float32", -1, 1)
        a = np.nan_to_num(a, nan=0.5, posinf=1, neginf=-1)
        return [a + np.eye(n, dtype="float32") * (n + 1), np.nan_to_num(array(g, (n, 2), "float32", -1, 1))]

    add("cholesky", lambda a, b: jnp.linalg.cholesky(a @ a.T), matrix, 16)
    add("solve", lambda a, b: jnp.linalg.solve(a, b), matrix, 16)
    add("inverse", lambda a, b: jnp.linalg.inv(a), matrix, 16)
    add("determinant", lambda a, b: jnp.linalg.slogdet(a), matrix, 16)
    add("triangular solve", lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True), matrix, 16)
    add("qr", lambda a, b: jnp.abs(jnp.linalg.qr(a)[1]), matrix, 32)
    add("eigh", lambda a, b: jnp.linalg.eigvalsh(a + a.T), matrix, 32)
    add("svd", lambda a, b: jnp.linalg.svd(a, compute_uv=False), matrix, 32)
    add("norm", lambda a, b: jnp.linalg.norm(a), matrix, 8)

    def signal(dtypes):
        return lambda g, s: [np.nan_to_num(array(g, (2, int(g.integers(1, 20 + s))), pick(g, dtypes), -1, 1), posinf=1, neginf=1)]

    add("fft", jnp.fft.fft, signal(["complex64", "float32"]), 16)
    add("ifft", jnp.fft.ifft, signal(["complex64"]), 16)
    add("rfft", jnp.fft.rfft, signal(["float32"]), 16)
    add("irfft", lambda x: jnp.fft.irfft(x, 2 * x.shape[-1]), signal(["complex64"]), 16)
    add("fft2", lambda x: jnp.fft.fft2(x), signal(["float32"]), 16)


def random_numbers_rows(add):
    def key(g, size):
        return [np.uint32(g.integers(0, 1 << 31)), tuple(int(d) for d in g.integers(1, 3 + size, 2))]

    add("random bits", lambda k, d: jax.random.bits(jax.random.key(k), d), key)
    add("uniform", lambda k, d: jax.random.uniform(jax.random.key(k), d), key)
    add("normal", lambda k, d: jax.random.normal(jax.random.key(k), d), key, 8)
    add("randint", lambda k, d: jax.random.randint(jax.random.key(k), d, -5, 50), key)
    add("permutation", lambda k, d: jax.random.permutation(jax.random.key(k), 20), key)
    add("categorical", lambda k, d: jax.random.categorical(jax.random.key(k), jnp.zeros((5,)), shape=d), key)
    add("bernoulli", lambda k, d: jax.random.bernoulli(jax.random.key(k), 0.3, d), key)
    add("philox", lambda k, d: lax.rng_bit_generator(jnp.full((4,), k, jnp.uint32), d)[1], key)


def control_rows(add):
    one = arrays(1, ["float32"], -1, 1, least=1)
    add("scan", lambda x: lax.scan(lambda c, y: (c * 0.5 + y.sum(), c - y), jnp.float32(1), x), one, 8)
    add("fori_loop", lambda x: lax.fori_loop(0, 5, lambda i, y: jnp.sin(y) + i, x), one)
    add("while_loop", lambda x: lax.while_loop(lambda s: s[1] < 7, lambda s: (s[0] * 0.9, s[1] + 2), (x, 0)), one)
    add("cond", lambda x: lax.cond(jnp.nansum(x) > 0, jnp.sin, lambda y: y * 2, x), one)
    add("switch", lambda x: lax.switch(x.shape[0] % 3, [jnp.sin, jnp.cos, lambda y: -y], x), one)
    add("map", lambda x: lax.map(lambda y: jnp.tanh(y).sum(), x), one, 4)
    add("vmap", lambda x: jax.vmap(lambda y: (y * y.sum(), y.max(initial=-1)))(x), one, 4)
    add("gradient", lambda x: jax.grad(lambda y: (jnp.tanh(y) * jnp.exp(y)).sum())(x), one)
    add("jvp", lambda x: jax.jvp(lambda y: jnp.sin(y) * y, (x,), (jnp.ones_like(x),)), one)
    add("gradient of scan", lambda x: jax.grad(
        lambda y: lax.scan(lambda c, z: (jnp.tanh(c + z.sum()), c), jnp.float32(0), y)[1].sum())(x), one, 8)  # fmt: skip
    add("hessian", lambda x: jax.hessian(lambda y: (y**3).sum())(x.ravel()[:5]), one, 4)
    add("gelu", jax.nn.gelu, arrays(1, FLOATS, -4, 4))
    add("one_hot", lambda x: jax.nn.one_hot(jnp.abs(x) % 5, 5), arrays(1, ["int32"]))
    add("polyval", lambda x: jnp.polyval(jnp.float32([1, -2, 0.5]), x), one, 8)
    add("interp", lambda x: jnp.interp(x, jnp.linspace(-1, 1, 5), jnp.arange(5.0)), one, 4)
    add("histogram", lambda x: jnp.histogram(jnp.nan_to_num(x), 4, (-1, 1))[0], one)


def rows():
    import differential_attributes  # which draws with what is above

    out = []

    def add(name, function, draw, scale=1.0, wide=False):
        out.append(Row(name, function, draw, scale, wide))

    for part in (unary_rows, binary_rows, shapes_rows, reductions_rows, contractions_rows,
                 indexing_rows, orders_rows, algebra_rows, random_numbers_rows, control_rows):  # fmt: skip
        part(add)
    differential_attributes.rows(add)
    return out


@functools.cache
def table():
    return {row.name: row for row in rows()}


def arguments(row, seed):
    """Arguments of a case: small for small seeds."""
    g = np.random.default_rng([zlib.crc32(row.name.encode()), seed])
    return row.draw(g, min(6, 1 + seed // 3))


def run(row, args, device):
    traced = [i for i, a in enumerate(args) if isinstance(a, (np.ndarray, np.generic, list))]
    with jax.default_device(device), jax.enable_x64(row.wide):
        given = [jax.device_put(a, device) if i in traced else a for i, a in enumerate(args)]
        fixed = tuple(i for i in range(len(args)) if i not in traced)
        return jax.tree.map(np.asarray, jax.jit(row.function, static_argnums=fixed)(*given))


def difference(row, got, want):
    """Empty, or what is wrong."""
    for i, (a, b) in enumerate(zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {i} is {a.dtype}{a.shape}, expected {b.dtype}{b.shape}"
        name = str(b.dtype)
        if name in TOLERANCE:
            wide = np.complex128 if name == "complex64" else np.float64
            x, y = a.astype(wide), b.astype(wide)
            with np.errstate(all="ignore"):
                bad = ~((np.abs(x - y) <= TOLERANCE[name] * row.scale * np.maximum(1, np.abs(y))) | (x == y))
                bad &= ~(np.isnan(x) & np.isnan(y))
        else:
            bad = ~((a == b) | ((a != a) & (b != b)))
        if bad.any():
            at = tuple(int(k[0]) for k in np.nonzero(bad)) if bad.ndim else ()
            return f"result {i} at {at}: {a[at]}, expected {b[at]} ({int(bad.sum())} of {bad.size} differ, {b.dtype})"
    return ""
