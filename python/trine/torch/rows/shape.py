"""Ops that move, repeat or make elements, and compute nothing."""

import math

import torch

from trine.torch.rules import Unsupported, axis, is_float, row


@row("view", "reshape", "_unsafe_view", "_reshape_alias", "view_copy", "_reshape_copy")
def view(b, x, *_):
    return b.reshape(x, b.dims)


@row("flatten.using_ints", "unflatten.int", "squeeze", "squeeze.dim", "squeeze.dims", "unsqueeze", "squeeze_copy",
     "squeeze_copy.dim", "squeeze_copy.dims", "unsqueeze_copy", "atleast_1d", "atleast_2d", "atleast_3d")
def other_dims(b, x, *_):
    return b.reshape(x, b.dims)


@row("view.dtype", "view_copy.dtype")
def view_dtype(b, x, dtype):
    if x.dtype.itemsize == b.dtype.itemsize:
        return x if x.dtype is b.dtype else b.op("bitcast_convert", [x], b.dims, b.dtype)
    if x.dtype.itemsize > b.dtype.itemsize:
        inner = x.dtype.itemsize // b.dtype.itemsize
        return b.reshape(b.op("bitcast_convert", [x], (*x.dims, inner), b.dtype), b.dims)
    inner = b.dtype.itemsize // x.dtype.itemsize
    return b.op("bitcast_convert", [b.reshape(x, (*b.dims, inner))], b.dims, b.dtype)


@row("permute", "permute_copy")
def permute(b, x, order):
    return b.transpose(x, [axis(d, x.rank) for d in order])


@row("transpose.int", "transpose_copy.int")
def transpose(b, x, first, second):
    order = list(range(x.rank))
    if x.rank:
        first, second = axis(first, x.rank), axis(second, x.rank)
        order[first], order[second] = second, first
    return b.transpose(x, order)


@row("t", "t_copy", "numpy_T")
def t(b, x):
    return b.transpose(x, range(x.rank)[::-1])


@row("expand", "expand_copy", "broadcast_to")
def expand(b, x, *_):
    return b.broadcast(x, b.dims)


@row("repeat", "tile")
def repeat(b, x, counts):
    lead = len(b.dims) - x.rank
    counts = [1] * (len(b.dims) - len(counts)) + list(counts)
    dims = [1] * lead + list(x.dims)
    out = [v for pair in zip(counts, dims) for v in pair]
    keep = [2 * i + 1 for i in range(lead, len(dims))]
    return b.reshape(b.broadcast_in_dim(x, out, keep), b.dims)


@row("slice.Tensor", "slice_copy.Tensor")
def slice_(b, x, dim, start, end, step):
    dim = axis(dim, x.rank)
    start, end = bounds(start, end, x.dims[dim])
    return b.slice_dim(x, dim, start, end, step)


def bounds(start, end, size):
    def inside(v, otherwise):
        v = otherwise if v is None else v
        return min(max(v + size if v < 0 else v, 0), size)

    start = inside(start, 0)
    return start, max(inside(end, size), start)


@row("narrow", "narrow_copy")
def narrow(b, x, dim, start, length):
    dim = axis(dim, x.rank)
    start = start + x.dims[dim] if start < 0 else start
    return b.slice_dim(x, dim, start, start + length)


@row("select.int", "select_copy.int")
def select(b, x, dim, index):
    dim = axis(dim, x.rank)
    index = index + x.dims[dim] if index < 0 else index
    return b.reshape(b.slice_dim(x, dim, index, index + 1), b.dims)


@row("split_with_sizes", "split_with_sizes_copy")
def split_with_sizes(b, x, sizes, dim):
    dim, at, parts = axis(dim, x.rank), 0, []
    for size in sizes:
        parts.append(b.slice_dim(x, dim, at, at + size))
        at += size
    return parts


@row("split.Tensor", "split_copy.Tensor", "unsafe_split.Tensor")
def split(b, x, size, dim):
    return split_with_sizes(b, x, [dims[axis(dim, x.rank)] for dims, _ in b.outs], dim)


@row("unbind.int", "unbind_copy.int")
def unbind(b, x, dim):
    dim = axis(dim, x.rank)
    return [b.reshape(b.slice_dim(x, dim, i, i + 1), b.outs[i][0]) for i in range(x.dims[dim])]


@row("cat", "concatenate")
def cat(b, parts, dim):
    parts = [b.convert(p, b.dtype) for p in parts if not (p.rank == 1 and p.dims[0] == 0 and len(b.dims) != 1)]
    parts = [p for p in parts if p.size] or parts[:1]
    return b.concatenate(parts, axis(dim, len(b.dims)))


@row("stack")
def stack(b, parts, dim):
    dim = axis(dim, len(b.dims))
    inner = [1 if i == dim else d for i, d in enumerate(b.dims)]
    return b.concatenate([b.reshape(b.convert(p, b.dtype), inner) for p in parts], dim)


@row("flip")
def flip(b, x, dims):
    return b.reverse(x, sorted(axis(d, x.rank) for d in dims) if x.rank else [])


@row("roll")
def roll(b, x, shifts, dims):
    if not dims:
        flat = roll_one(b, b.reshape(x, (x.size,)), shifts[0], 0)
        return b.reshape(flat, x.dims)
    for shift, dim in zip(shifts, dims):
        x = roll_one(b, x, shift, axis(dim, x.rank))
    return x


def roll_one(b, x, shift, dim):
    size = x.dims[dim] if x.rank else 0
    if not size or not shift % size:
        return x
    cut = size - shift % size
    return b.concatenate([b.slice_dim(x, dim, cut, size), b.slice_dim(x, dim, 0, cut)], dim)


@row("constant_pad_nd")
def constant_pad_nd(b, x, pad, value):
    low, high = [0] * x.rank, [0] * x.rank
    for i in range(len(pad) // 2):
        low[x.rank - 1 - i], high[x.rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    return b.pad(x, low, high, value=b.constant(value, x.dtype))


@row("select_scatter")
def select_scatter(b, x, source, dim, index):
    dim = axis(dim, x.rank)
    index = index + x.dims[dim] if index < 0 else index
    source = b.reshape(b.convert(source, x.dtype), [1 if i == dim else d for i, d in enumerate(x.dims)])
    return replaced(b, x, source, dim, index, index + 1, 1)


@row("slice_scatter")
def slice_scatter(b, x, source, dim, start, end, step):
    dim = axis(dim, x.rank)
    start, end = bounds(start, end, x.dims[dim])
    count = -(-(end - start) // step)
    source = b.broadcast(b.convert(source, x.dtype), [count if i == dim else d for i, d in enumerate(x.dims)])
    return replaced(b, x, source, dim, start, end, step)


def replaced(b, x, source, dim, start, end, step):
    """x with source at start, start + step ... of dim."""
    size, count = x.dims[dim], source.dims[dim]
    if not count:
        return x
    if step == 1:
        parts = [b.slice_dim(x, dim, 0, start)] if start else []
        parts.append(source)
        if end < size:
            parts.append(b.slice_dim(x, dim, end, size))
        return b.concatenate(parts, dim)
    low, high, inner = [0] * x.rank, [0] * x.rank, [0] * x.rank
    low[dim], inner[dim] = start, step - 1
    high[dim] = size - start - (count - 1) * step - 1
    spread = b.pad(source, low, high, inner)
    at = b.iota((size,), 0)
    hit = b.binary("and", b.test("GE", at, start), b.test("LT", at, end))
    hit = b.binary("and", hit, b.test("EQ", b.binary("remainder", *b._both(b.sub(at, start), step)), 0))
    return b.select(b.broadcast_in_dim(hit, x.dims, [dim]), spread, x)


@row("diagonal", "diagonal_copy")
def diagonal(b, x, offset, first, second):
    first, second = axis(first, x.rank), axis(second, x.rank)
    rest = [i for i in range(x.rank) if i not in (first, second)]
    x = b.transpose(x, [*rest, first, second])
    rows, cols = x.dims[-2:]
    count = b.dims[-1]
    top, left = max(-offset, 0), max(offset, 0)
    starts, limits = [0] * x.rank, list(x.dims)
    starts[-2:], limits[-2:] = [top, left], [top + count, left + count]
    if not count:
        return b.constant(0, x.dtype, b.dims)
    square = b.slice(x, starts, limits)
    r, c = b.iota((count, count), 0), b.iota((count, count), 1)
    on = b.broadcast_in_dim(b.compare("EQ", r, c), square.dims, [x.rank - 2, x.rank - 1])
    if x.dtype is torch.bool:
        return b.reduce("or", b.binary("and", on, square), [x.rank - 1], False)
    return b.reduce("add", b.select(on, square, b.like(square, 0)), [x.rank - 1], 0)


@row("tril")
def tril(b, x, diagonal):
    return _triangle(b, x, "GE", diagonal)


@row("triu")
def triu(b, x, diagonal):
    return _triangle(b, x, "LE", diagonal)


def _triangle(b, x, direction, diagonal):
    r, c = b.iota(x.dims[-2:], 0), b.iota(x.dims[-2:], 1)
    keep = b.test(direction, b.add(r, diagonal), c)
    return b.select(b.broadcast_in_dim(keep, x.dims, [x.rank - 2, x.rank - 1]), x, b.like(x, 0))


@row("unfold", "unfold_copy")
def unfold(b, x, dim, size, step):
    if not x.rank:
        return b.reshape(x, b.dims)
    dim = axis(dim, x.rank)
    count = (x.dims[dim] - size) // step + 1
    parts = [b.slice_dim(x, dim, i, i + (count - 1) * step + 1, step) for i in range(size)]
    return b.concatenate([b.reshape(p, (*p.dims, 1)) for p in parts], x.rank)


@row("as_strided", "as_strided_copy")
def as_strided(b, x, size, stride, offset):
    """By the strides torch gives x: its elements in the order of memory, then picked."""
    strides, first = b.strides.get(x.name, (dense(x.dims), 0))
    order = sorted(range(x.rank), key=lambda i: (-strides[i], i))
    wanted = dense([x.dims[i] for i in order])
    if any(strides[i] != w for i, w in zip(order, wanted) if x.dims[i] != 1):
        raise Unsupported("as_strided of a tensor whose memory has gaps or overlaps")
    offset = (first if offset is None else offset) - first
    if x.size and not 0 <= offset <= offset + sum((d - 1) * s for d, s in zip(size, stride)) < x.size:
        raise Unsupported("as_strided past the tensor it is given")
    if not math.prod(size):
        return b.constant(0, x.dtype, size)
    flat = b.reshape(b.transpose(x, order), (x.size,))
    if tuple(stride) == tuple(dense(size)):
        return b.reshape(b.slice(flat, [offset], [offset + math.prod(size)]), size)
    at = b.constant(offset, torch.int64, size)
    for i, step in enumerate(stride):
        at = b.add(at, b.mul(b.iota(size, i), step))
    at = b.reshape(at, (*size, 1))
    return b.gather(flat, at, [1], [], [0], [0], len(size))


def dense(dims):
    out = [1] * len(dims)
    for i in range(len(dims) - 1, 0, -1):
        out[i - 1] = out[i] * max(dims[i], 1)
    return out


# making tensors


@row("full", "full_like", "fill.Scalar", "fill.Tensor")
def full(b, _, value, *__):
    return b.value(value, b.dtype, b.dims)


@row("new_full")
def new_full(b, _, dims, value, *__):
    return b.value(value, b.dtype, b.dims)


@row("scalar_tensor")
def scalar_tensor(b, value, *_):
    return b.constant(value, b.dtype)


@row("zeros", "zeros_like", "new_zeros", "zero", "empty.memory_format", "empty_like", "new_empty", "empty_strided",
     "new_empty_strided", "empty_permuted", "_efficientzerotensor")
def zeros(b, *_):
    return b.constant(0, b.dtype, b.dims)


@row("ones", "ones_like", "new_ones")
def ones(b, *_):
    return b.constant(1, b.dtype, b.dims)


@row("arange.start_step")
def arange(b, start, end, step, *_):
    if is_float(b.dtype):
        at = b.iota(b.dims, 0, torch.float64)
        return b.convert(b.add(b.mul(at, float(step)), float(start)), b.dtype)
    at = b.iota(b.dims, 0, b.dtype)
    return b.add(b.mul(at, step), start) if (start, step) != (0, 1) else at


@row("arange")
def arange_end(b, end, *_):
    return arange(b, 0, end, 1)


@row("arange.start")
def arange_start(b, start, end, *_):
    return arange(b, start, end, 1)


@row("linspace")
def linspace(b, start, end, steps, *_):
    at = b.iota(b.dims, 0, torch.float64)
    gap = (end - start) / (steps - 1) if steps > 1 else 0.0
    up = b.add(b.mul(at, float(gap)), float(start))
    down = b.sub(float(end), b.mul(b.sub(float(steps - 1), at), float(gap)))
    return b.convert(b.where(b.test("LT", at, steps / 2), up, down) if steps > 1 else up, b.dtype)


@row("eye", "eye.m")
def eye(b, *_):
    return b.convert(b.compare("EQ", b.iota(b.dims, 0), b.iota(b.dims, 1)), b.dtype)


@row("copy")
def copy(b, x, source, *_):
    return b.value(source, x.dtype, x.dims)


@row("_to_copy", "to.dtype", "to.device")
def to_copy(b, x, *_):
    if x.dtype.is_complex and not b.dtype.is_complex:
        part = torch.float32 if x.dtype is torch.complex64 else torch.float64
        return b.convert(b.op("real", [x], x.dims, part), b.dtype)
    if b.dtype.is_complex and not x.dtype.is_complex:
        part = torch.float32 if b.dtype is torch.complex64 else torch.float64
        x = b.convert(x, part)
        return b.op("complex", [x, b.like(x, 0)], x.dims, b.dtype)
    return b.convert(x, b.dtype)


@row("_prims.convert_element_type")
def convert_element_type(b, x, dtype):
    return to_copy(b, x)


@row("view_as_real")
def view_as_real(b, x):
    part = b.dtype
    parts = [b.reshape(b.op(n, [x], x.dims, part), (*x.dims, 1)) for n in ("real", "imag")]
    return b.concatenate(parts, x.rank)


@row("view_as_complex")
def view_as_complex(b, x):
    last = x.rank - 1
    real, imag = (b.reshape(b.slice_dim(x, last, i, i + 1), b.dims) for i in (0, 1))
    return b.op("complex", [real, imag], b.dims, b.dtype)


@row("repeat_interleave.self_int")
def repeat_interleave(b, x, repeats, dim, _):
    if dim is None:
        x, dim = b.reshape(x, (x.size,)), 0
    dim = axis(dim, x.rank)
    out = list(x.dims)
    out.insert(dim + 1, repeats)
    return b.reshape(b.broadcast_in_dim(x, out, [i for i in range(len(out)) if i != dim + 1]), b.dims)


@row("pixel_shuffle")
def pixel_shuffle(b, x, r):
    *lead, c, h, w = x.dims
    n = len(lead)
    x = b.reshape(x, (*lead, c // r**2, r, r, h, w))
    return b.reshape(b.transpose(x, [*range(n), n, n + 3, n + 1, n + 4, n + 2]), b.dims)


