"""Rows of the differential test whose attributes are drawn as well: dimension numbers, windows, modes, dtypes in pairs.

Left out is what XLA's CPU gets wrong: 2-bit integers damage its memory, float4's 6 it takes for an infinity,
of updates that no index places it keeps the last.
"""

import jax
import jax.numpy as jnp
import numpy as np
from differential import FLOATS, INTS, NARROW, NUMBERS, array, pick
from jax import lax

WIDE = ["int64", "uint64", "float64", "complex128"]
SOME = NUMBERS + ["bool", "complex64"]
PAIRS = [d for d in SOME + WIDE + NARROW if d not in ("int2", "uint2", "float4_e2m1fn", "float8_e8m0fnu")]
SPECIAL = [0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 7.5, 127.5, 128, -129, 240, 255.5, 448, 464, 465, 2049, 32768, 57344, 61440, 65504,
           65519, 65520, 65536, 16777217, 2147483647, 2147483648, -2147483649, 4294967296, 9.3e18, 1.9e19, 1e30, -1e30, 3.5e38,
           6e-5, 1e-7, np.inf, -np.inf, np.nan]  # fmt: skip


def numbers(g, count, low, high):
    return tuple(int(v) for v in g.integers(low, high, count))


def finite(x):
    return np.where(np.isfinite(x), x, np.ones_like(x))


def split(g, rank, *counts):
    """Disjoint lists of dims, as many in each as counts say."""
    left, out = [int(d) for d in g.permutation(rank)], []
    for count in counts:
        out.append(tuple(left[:count]))
        left = left[count:]
    return out


def special(g, dtype):
    kind = jnp.dtype(dtype)
    if jnp.issubdtype(kind, jnp.integer):
        info = jnp.iinfo(kind)
        edges = np.array([int(info.min), int(info.max), 0, 1, int(info.max) // 2 + 1], dtype=object).astype(kind)
        return np.concatenate([edges, array(g, (20,), dtype)]) if int(info.max) < 2**62 else edges
    with np.errstate(all="ignore"):
        return np.asarray(SPECIAL).astype(kind)


def conversions_rows(add):
    def pair(g, size):
        source, target = pick(g, PAIRS), pick(g, PAIRS)
        return [special(g, source), target]

    add("convert specials", lambda x, target: lax.convert_element_type(x, target), pair, wide=True)
    add("convert and back", lambda x, target: x.astype(target).astype(x.dtype) + x, pair, 4, wide=True)

    def bits(g, size):
        source, target = (pick(g, [*INTS, "int4", "uint4", "int64", "uint64", "bfloat16", "float16"]) for _ in range(2))
        return [np.ones((3, 16), source) * np.arange(16).astype(source), target]

    def cast(x, target):
        y = lax.bitcast_convert_type(x, target)
        return jnp.where(y == y, y, jnp.zeros_like(y))

    add("bitcast pairs", cast, bits, wide=True)


def drawn_gather(g, size):
    """Operand dims, indices, slice sizes, collapsed dims, index map, batch dims of both, offset dims."""
    rank = int(g.integers(1, 5))
    dims, batch_rank = numbers(g, rank, 1, 6), int(g.integers(0, 2)) if rank > 1 else 0
    batch, mapped = split(g, rank, batch_rank, int(g.integers(1, rank - batch_rank + 1)))
    lines = [*numbers(g, int(g.integers(0, 3)), 1, 4), *(dims[d] for d in batch)]
    sizes = tuple(1 if d in batch else int(g.integers(1, dims[d] + 1)) for d in range(rank))
    collapsed = tuple(d for d in range(rank) if d not in batch and sizes[d] == 1 and g.random() < 0.7)
    index = np.stack([g.integers(-3, dims[d] + 3, lines) for d in mapped], -1)
    window = [d for d in range(rank) if d not in collapsed and d not in batch]
    offset = tuple(sorted(split(g, len(lines) + len(window), len(window))[0]))
    places = tuple(range(len(lines) - len(batch), len(lines)))
    dtype = pick(g, ["int8", "int16", "int32", "int64"])
    return dims, index.astype(dtype), sizes, collapsed, mapped, batch, places, offset, window, lines


def indexing_rows(add):
    def gathered(g, size):
        dims, index, sizes, collapsed, mapped, batch, places, offset, _, _ = drawn_gather(g, size)
        numbers = lax.GatherDimensionNumbers(offset, collapsed, mapped, batch, places)
        return [array(g, dims, pick(g, SOME)), index, numbers, sizes, pick(g, ["clip", "fill"])]

    add("gather", lambda x, i, n, sizes, mode: lax.gather(x, i, n, sizes, mode=mode), gathered, wide=True)

    def scattered(g, size):
        dims, index, sizes, collapsed, mapped, batch, places, offset, window, lines = drawn_gather(g, size)
        at, free = dict(zip(offset, window)), iter(lines)
        updates = tuple(sizes[at[d]] if d in at else next(free) for d in range(len(lines) + len(window)))
        numbers = lax.ScatterDimensionNumbers(offset, collapsed, mapped, batch, places)
        dtype = pick(g, ["float32", "int32", "int8", "bfloat16", "float16"])
        op = pick(g, ["scatter", "scatter_add", "scatter_sub", "scatter_min", "scatter_max"])
        part = array(g, updates, dtype) if op != "scatter" else np.ones(updates, dtype)  # of several, XLA keeps any
        return [finite(array(g, dims, dtype)), index, finite(part), numbers, op, pick(g, ["clip", "drop"])]

    add("scatter", lambda x, i, u, n, op, mode: getattr(lax, op)(x, i, u, n, mode=mode), scattered, 8, wide=True)

    def slices(g, size):
        dims = numbers(g, int(g.integers(1, 5)), 1, 6)
        steps = tuple(pick(g, [-3, -2, -1, 1, 2]) for _ in dims)
        ends = tuple((pick(g, [None, -4, 1, 3]), pick(g, [None, -2, 0, 9])) for _ in dims)
        return [array(g, dims, pick(g, SOME)), ends, steps]

    def cut(x, ends, steps):
        part = tuple(slice(*e, s) for e, s in zip(ends, steps))
        return x[part], x.at[part].set(1)

    add("slices with steps", cut, slices)

    def padded(g, size):
        mode = pick(g, ["edge", "linear_ramp", "maximum", "mean", "median", "reflect", "symmetric", "wrap"])
        dtype = pick(g, FLOATS if mode in ("linear_ramp", "mean", "median") else NUMBERS)  # whole ones pass through f32
        return [finite(array(g, numbers(g, 2, 1, 6), dtype)), tuple(numbers(g, 2, 0, 5) for _ in range(2)), mode]

    add("pad modes", lambda x, by, mode: jnp.pad(x, by, mode=mode), padded, 4)


def windows_rows(add):
    def windowed(g, size):
        rank = int(g.integers(1, 4))
        pads = tuple(numbers(g, 2, -1 if g.random() < 0.3 else 0, 4) for _ in range(rank))
        x = finite(array(g, numbers(g, rank, 2, 8), pick(g, ["float32", "int32", "int8", "bfloat16", "float16"])))
        return [x, pick(g, ["add", "max", "min", "mul"]), *(numbers(g, rank, 1, 4) for _ in range(2)), pads,
                *(numbers(g, rank, 1, 3) for _ in range(2))]  # fmt: skip

    def reduced(x, op, *window):
        start = {"add": 0, "mul": 1, "max": -99, "min": 99}[op]
        return lax.reduce_window(x, np.array(start, x.dtype)[()], getattr(lax, op), *window)

    add("window", reduced, windowed, 32)
    add("windows of pairs", lambda x, op, *window: lax.reduce_window(
        (x, -x), (jnp.zeros((), x.dtype),) * 2, lambda a, b: (lax.max(a[0], b[0]), lax.min(a[1], b[1])), *window), windowed)  # fmt: skip

    def convolved(g, size):
        rank, groups, batches = int(g.integers(0, 4)), int(g.integers(1, 4)), 1
        if g.random() < 0.3:
            groups, batches = 1, int(g.integers(2, 4))
        chars = "HWD"[:rank]
        layouts = ["".join(c[int(i)] for i in g.permutation(len(c))) for c in ("NC" + chars, "OI" + chars, "NC" + chars)]
        inner = int(g.integers(1, 4))
        sizes = dict(zip(chars, numbers(g, rank, 1, 8))) | {"N": batches * int(g.integers(1, 3)), "C": groups * inner}
        kernel = dict(zip(chars, numbers(g, rank, 1, 4))) | {"O": groups * batches * int(g.integers(1, 3)), "I": inner}
        dtype = pick(g, ["float32", "float32", "bfloat16", "float16", "int32", "complex64"])
        dims = [tuple(of[c] for c in layout) for of, layout in ((sizes, layouts[0]), (kernel, layouts[1]))]
        least = -2 if groups == batches == 1 else 0  # XLA's CPU is wrong in gradients of groups that are cut
        pads = tuple(numbers(g, 2, least, 4) for _ in range(rank))
        return [*(finite(array(g, d, dtype, -1, 1)) for d in dims), numbers(g, rank, 1, 4), pads,
                *(numbers(g, rank, 1, 3) for _ in range(2)), tuple(layouts), groups, batches]  # fmt: skip

    add("convolution", lax.conv_general_dilated, convolved, 16)

    def gradients(x, w, *how):
        x, w = (v.real.astype(jnp.float32) % 3 for v in (x, w))
        return jax.grad(lambda x, w: (lax.conv_general_dilated(x, w, *how) ** 2).sum(), (0, 1))(x, w)

    add("convolution gradients", gradients, convolved, 64)


def products_rows(add):
    def product(g, size):
        ranks = numbers(g, 2, 1, 5)
        batch = int(g.integers(0, min(ranks) + 1))
        inner = int(g.integers(0, min(ranks) - batch + 1))
        (left_batch, left), (right_batch, right) = (split(g, r, batch, inner) for r in ranks)
        a, b = (list(numbers(g, r, 1, 6)) for r in ranks)
        for i, j in zip(left_batch + left, right_batch + right):
            b[j] = a[i]
        dtype, wider = pick(g, [(d, None) for d in SOME if d != "bool"] + [
            ("bfloat16", "float32"), ("float16", "float32"), ("int8", "int32"), ("float8_e4m3fn", "float32"), ("int4", "int32")])  # fmt: skip
        operands = [finite(array(g, tuple(d), "int8" if dtype == "int4" else dtype, -1, 1)).astype(dtype) for d in (a, b)]
        return [*operands, ((left, right), (left_batch, right_batch)), wider]

    add("dot_general", lambda a, b, dims, wider: lax.dot_general(a, b, dims, preferred_element_type=wider), product, 8)

    def triangular(g, size):
        n, batch = int(g.integers(1, 7)), numbers(g, int(g.integers(0, 2)), 1, 4)
        a, dtype = g.uniform(-1, 1, (*batch, n, n)) + 3 * np.eye(n), pick(g, ["float32", "complex64"])
        flags = tuple((f, bool(g.integers(2))) for f in ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal"))
        side = (n, 3) if dict(flags)["left_side"] else (3, n)
        return [a.astype(dtype) / 3, g.uniform(-1, 1, (*batch, *side)).astype(dtype), flags]

    add("triangular_solve", lambda a, b, flags: lax.linalg.triangular_solve(a, b, **dict(flags)), triangular, 32)

    def signal(g, size):
        kind = pick(g, ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
        x = g.uniform(-1, 1, (int(g.integers(1, 4)), int(g.integers(1, 40)))).astype("float32")
        x = x if kind in ("rfft", "ihfft") else x + 1j * x[::-1]
        return [x, kind, pick(g, [None, None, 1, 12, 31]), pick(g, [-1, -1, 0]), pick(g, ["backward", "ortho", "forward"])]

    add("transforms", lambda x, kind, n, axis, norm: getattr(jnp.fft, kind)(x, n, axis, norm), signal, 32)
    add("irfft of one", lambda x: jnp.fft.irfft(x), lambda g, s: [np.ones((int(g.integers(1, 4)), 1), "complex64")])


def orders_rows(add):
    def operands(g, size):
        count, dims = int(g.integers(2, 5)), numbers(g, int(g.integers(1, 4)), 1, 9)
        values = [array(g, dims, pick(g, NUMBERS + ["bool"]), -2, 2) for _ in range(count)]
        return [*([v] for v in values), int(g.integers(len(dims))), int(g.integers(1, count + 1))]

    add("sort operands", lambda *a: lax.sort([v[0] for v in a[:-2]], dimension=a[-2], num_keys=a[-1]), operands)
    add("top_k of a dim", lambda x, dim: lax.top_k(x, 1 + x.shape[dim] // 2, axis=dim), lambda g, s: [
        array(g, dims := numbers(g, int(g.integers(1, 4)), 1, 9), pick(g, NUMBERS)), int(g.integers(len(dims)))])  # fmt: skip
    methods = ["linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf"]
    add("quantile", lambda x, method: jnp.quantile(x, jnp.asarray([0, 0.3, 1], x.dtype), axis=0, method=method),
        lambda g, s: [array(g, numbers(g, 2, 1, 7), pick(g, FLOATS)), pick(g, methods)], 4)  # fmt: skip


def control_rows(add):
    def lines(g, size):
        x = finite(array(g, numbers(g, 2, 1, 6), pick(g, NUMBERS), 0, 3))
        return [x, g.integers(-1, 5, x.shape[0]).astype("int32")]

    def more(v):
        return (v * 2 + 1).astype(v.dtype)

    add("vmap of while", lambda x, n: jax.vmap(
        lambda r, i: lax.while_loop(lambda t: t[1] < 3, lambda t: (more(t[0]), t[1] + 1), (r, i)))(x, n), lines)  # fmt: skip
    add("vmap of switch", lambda x, n: jax.vmap(lambda r, i: lax.switch(i, [more, lambda v: -v, jnp.flip], r))(x, n), lines)
    add("vmap of cond in for", lambda x, n: jax.vmap(
        lambda r, k: lax.fori_loop(0, k, lambda i, v: lax.cond(i % 2 == 0, more, jnp.flip, v), r))(x, n), lines)  # fmt: skip
    add("scans", lambda x, n: [lax.scan(lambda c, y: ((c + y).astype(c.dtype), (c, y)), x[0], x, reverse=r, unroll=u)
                               for r in (False, True) for u in (1, 2)], lines, 8)  # fmt: skip
    add("segments", lambda x, n: [f(x, n, 4) for f in (jax.ops.segment_sum, jax.ops.segment_max)], lines, 8)

    def attended(g, size):
        b, t, s, k, h = (int(v) for v in g.integers(1, 5, 5))
        q = [array(g, d, pick(g, ["float32", "bfloat16"]), 0.1, 1) for d in ((b, 4 * t, k * h, 8), (b, 3 * s, k, 8), (b, 3 * s, k, 8))]
        x = [v.astype(q[0].dtype) for v in q]
        return [*x, (("is_causal", bool(g.integers(2))), ("scale", pick(g, [None, 0.3])), ("local_window_size", pick(g, [None, 2, (1, 3)])))]

    add("attention", lambda q, k, v, how: jax.nn.dot_product_attention(q, k, v, **dict(how)), attended, 4)


def rows(add):
    for part in (conversions_rows, indexing_rows, windows_rows, products_rows, orders_rows, control_rows):
        part(add)
