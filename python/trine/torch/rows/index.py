"""Reading and writing at indices that are data."""

import math

import torch

from trine.torch.rules import Unsupported, axis, is_float, row, wide


def from_end(b, index, size):
    """Indices below zero count from the end."""
    index = b.convert(index, torch.int64)
    return b.where(b.test("LT", index, 0), b.add(index, size), index)


def take(b, x, index, dim):
    """x at `index` of any shape along dim: the index's dims stand in dim's place."""
    slices = [1 if i == dim else d for i, d in enumerate(x.dims)]
    offsets = [i if i < dim else i + index.rank - 1 for i in range(x.rank) if i != dim]
    return b.gather(x, index, slices, offsets, [dim], [dim], index.rank)


@row("embedding")
def embedding(b, weight, index, *_):
    return take(b, weight, b.convert(index, torch.int64), 0)


@row("index_select")
def index_select(b, x, dim, index):
    if not x.rank:
        return b.reshape(x, b.dims)
    dim = axis(dim, x.rank)
    index = b.reshape(index, (index.size,))
    return take(b, x, b.convert(index, torch.int64), dim)


@row("embedding_dense_backward")
def embedding_dense_backward(b, grad, index, count, padding, by_count):
    index = b.convert(index, torch.int64)
    flat = b.reshape(index, (index.size,))
    grad = b.convert(b.reshape(grad, (index.size, grad.dims[-1])), wide(b.dtype))
    if by_count:
        times = b.scatter(b.constant(0.0, grad.dtype, (count,)), flat, b.like(flat, 1.0, grad.dtype), [], [0], [0], 1, b.add)
        grad = b.div(grad, b.broadcast_in_dim(take(b, times, flat, 0), grad.dims, [0]))
    if padding >= 0:
        skip = b.broadcast_in_dim(b.test("EQ", flat, padding), grad.dims, [0])
        grad = b.select(skip, b.like(grad, 0), grad)
    zero = b.constant(0, grad.dtype, (count, grad.dims[-1]))
    return b.convert(b.scatter(zero, flat, grad, [1], [0], [0], 1, b.add), b.dtype)


def _joined(b, index, dims_of_x):
    """Index tensors of ATen's advanced indexing, broadcast and stacked on a last dim; None where a dim is whole."""
    given = [i for i, v in enumerate(index) if v is not None]
    shape = torch.broadcast_shapes(*[index[i].dims for i in given])
    parts = [b.broadcast(from_end(b, index[i], dims_of_x[i]), shape) for i in given]
    parts = [b.reshape(p, (*shape, 1)) for p in parts]
    return given, shape, b.concatenate(parts, len(shape))


def _apart(given):
    return any(q - p != 1 for p, q in zip(given, given[1:]))


@row("index.Tensor", "_unsafe_index.Tensor")
def index_(b, x, index):
    if any(v is not None and v.dtype in (torch.bool, torch.uint8) for v in index):
        raise Unsupported("indexing by a mask, whose result has no static shape")
    given, shape, stacked = _joined(b, index, x.dims)
    first = 0 if _apart(given) else given[0]
    slices = [1 if i in given else d for i, d in enumerate(x.dims)]
    offsets = [i for i in range(x.rank - len(given) + len(shape)) if not first <= i < first + len(shape)]
    return b.gather(x, stacked, slices, offsets, given, given, len(shape))


@row("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(b, x, index, values, accumulate, *_):
    values = b.convert(values, x.dtype)
    masks = [v for v in index if v is not None and v.dtype is torch.bool]
    if masks:
        if len(masks) != 1 or len(index) != 1 or values.size != 1:
            raise Unsupported("writing several values at a mask, whose count is data")
        new = b.broadcast(b.reshape(values, ()), x.dims)
        mask = b.broadcast_in_dim(index[0], x.dims, range(index[0].rank))
        return b.select(mask, b.add(x, new) if accumulate else new, x)
    given, shape, stacked = _joined(b, index, x.dims)
    first = 0 if _apart(given) else given[0]
    rest = [d for i, d in enumerate(x.dims) if i not in given]
    whole = (*rest[:first], *shape, *rest[first:])
    values = b.broadcast(values, whole)
    window = [i for i in range(len(whole)) if not first <= i < first + len(shape)]
    return b.scatter(x, stacked, values, window, given, given, len(shape), b.add if accumulate else _last)


def _last(old, new):
    return new


def _along(b, x, index, dim):
    """Full coordinates for gather and scatter along dim: index's own place in the other dims."""
    parts = [b.convert(index, torch.int64) if i == dim else b.iota(index.dims, i) for i in range(index.rank)]
    return b.concatenate([b.reshape(p, (*index.dims, 1)) for p in parts], index.rank)


@row("gather")
def gather(b, x, dim, index, *_):
    if not x.rank or not index.rank:
        return b.reshape(x, b.dims) if not x.rank else b.reshape(take(b, x, b.convert(b.reshape(index, (1,)), torch.int64), 0), b.dims)
    if not index.size:
        return b.constant(0, x.dtype, b.dims)
    dim = axis(dim, x.rank)
    every = list(range(x.rank))
    return b.gather(x, _along(b, x, index, dim), [1] * x.rank, [], every, every, index.rank)


def put(b, x, dim, index, source, combine):
    """source written at index along dim; source may be larger than index."""
    if not x.rank:
        x, index, source = (b.reshape(v, (1,)) for v in (x, index, source))
    if not index.rank:
        index, source = b.reshape(index, (1,)), b.reshape(source, (1,))
    if not index.size:
        return b.reshape(x, b.dims)
    dim = axis(dim, x.rank)
    source = b.slice(source, [0] * index.rank, index.dims)
    every = list(range(x.rank))
    out = b.scatter(x, _along(b, x, index, dim), source, [], every, every, index.rank, combine)
    return b.reshape(out, b.dims)


@row("scatter.src")
def scatter(b, x, dim, index, source):
    return put(b, x, dim, index, source, _last)


@row("scatter.value")
def scatter_value(b, x, dim, index, value):
    return put(b, x, dim, index, b.constant(value, x.dtype, index.dims), _last)


@row("scatter_add")
def scatter_add(b, x, dim, index, source):
    return put(b, x, dim, index, source, b.add)


_COMBINE = {"sum": "add", "prod": "multiply", "amax": "maximum", "amin": "minimum", "add": "add", "multiply": "multiply"}
_START = {"sum": 0, "prod": 1, "amax": -math.inf, "amin": math.inf}


def _start(kind, dtype):
    if dtype is torch.bool:
        return kind in ("prod", "amin")
    if kind in ("amax", "amin") and not is_float(dtype):
        return torch.iinfo(dtype).min if kind == "amax" else torch.iinfo(dtype).max
    return _START[kind]


@row("scatter.reduce")
def scatter_with_reduce(b, x, dim, index, source, reduce):
    return put(b, x, dim, index, source, lambda old, new: b.binary(_COMBINE[reduce], old, new))


@row("scatter_reduce.two")
def scatter_reduce(b, x, dim, index, source, reduce, include):
    if reduce == "mean":
        return _scatter_mean(b, x, dim, index, source, include)
    start = x
    if not include and index.size:
        fill = b.constant(_start(reduce, x.dtype), x.dtype, index.dims)
        start = put(b, x, dim, index, fill, _last)
    return put(b, start, dim, index, source, lambda old, new: b.binary(_COMBINE[reduce], old, new))


def _scatter_mean(b, x, dim, index, source, include):
    if not index.size:
        return x
    start = x if include else put(b, x, dim, index, b.constant(0, x.dtype, index.dims), _last)
    total = put(b, start, dim, index, source, b.add)
    ones = b.constant(1, x.dtype, index.dims)
    count = put(b, b.like(x, 1 if include else 0), dim, index, ones, b.add)
    count = b.maximum(count, 1)
    if is_float(x.dtype):
        return b.div(total, count)
    from trine.torch.rows.pointwise import floor_divide

    return floor_divide(b, total, count)


@row("index_add")
def index_add(b, x, dim, index, source, alpha):
    source = source if alpha == 1 else b.mul(source, alpha)
    return _rows(b, x, dim, index, source, b.add)


@row("index_copy")
def index_copy(b, x, dim, index, source):
    return _rows(b, x, dim, index, source, _last)


@row("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(b, x, dim, index, value):
    dims = [index.size if i == axis(dim, x.rank) else d for i, d in enumerate(x.dims)] if x.rank else [index.size]
    return _rows(b, x, dim, index, b.value(value, x.dtype, dims), _last)


def _rows(b, x, dim, index, source, combine):
    """Whole slices of dim at a list of indices."""
    scalar = not x.rank
    if scalar:
        x = b.reshape(x, (1,))
    dim = axis(dim, x.rank)
    index = from_end(b, b.reshape(index, (index.size,)), x.dims[dim])
    source = b.reshape(source, [index.size if i == dim else d for i, d in enumerate(x.dims)])
    window = [i for i in range(x.rank) if i != dim]
    return b.reshape(b.scatter(x, index, source, window, [dim], [dim], 1, combine), b.dims)


@row("take")
def take_flat(b, x, index):
    if not index.size:
        return b.constant(0, x.dtype, index.dims)
    return take(b, b.reshape(x, (x.size,)), from_end(b, index, x.size), 0)


@row("bucketize.Tensor")
def bucketize(b, x, edges, out_int32, right):
    return _search(b, edges, x, right, b.dtype)


@row("searchsorted.Tensor")
def searchsorted(b, edges, x, out_int32, right, side, sorter):
    if sorter is not None or edges.rank != 1:
        raise Unsupported("searchsorted with a sorter, or in many sequences")
    return _search(b, edges, x, right or side == "right", b.dtype)


def _search(b, edges, x, right, dtype):
    """How many edges lie before x: by comparing with all of them."""
    dims = (*x.dims, edges.size)
    wide_x = b.broadcast_in_dim(x, dims, range(x.rank))
    wide_edges = b.broadcast_in_dim(edges, dims, [x.rank])
    hit = b.compare("GE" if right else "GT", *b.pair(wide_x, wide_edges))
    return b.reduce("add", b.convert(hit, dtype), [x.rank], 0)


@row("histc")
def histc(b, x, bins, low, high):
    """How many lie in each of equal bins, the last one closed; whole numbers too, as CUDA has them."""
    whole = not is_float(x.dtype)
    if low == high and not (whole and x.size):
        raise Unsupported("a range that is the data's own")  # torch's CPU looks whether it is finite
    x = b.reshape(b.convert(x, torch.int64 if whole else wide(x.dtype)), (x.size,))
    low, high = _own_range(b, x) if low == high else (b.constant(int(v) if whole else v, x.dtype) for v in (low, high))
    inside = b.binary("and", b.test("GE", x, low), b.test("LE", x, high))
    place = b.minimum(b.div(b.mul(b.sub(x, low), bins), b.sub(high, low)), bins - 1)
    place = b.where(inside, b.convert(place, torch.int64), bins)  # one bin more, for all others
    counts = b.scatter(b.constant(0, torch.int64, (bins + 1,)), place, b.like(place, 1), [], [0], [0], 1, b.add)
    return b.convert(b.slice(counts, [0], [bins]), b.dtype)


def _own_range(b, x):
    low, high = b.reduce("minimum", x, [0], 2**63 - 1), b.reduce("maximum", x, [0], -(2**63))
    room = b.convert(b.test("EQ", low, high), x.dtype)
    return b.sub(low, room), b.add(high, room)
