"""Reductions, cumulative ops, sorting and choosing."""

import math

import torch

from trine.torch.rules import Unsupported, axes, axis, is_float, row, wide


@row("sum.dim_IntList")
def sum_(b, x, dims, *_):
    x = b.convert(x, wide(b.dtype))
    return b.reshape(b.convert(b.sum(x, axes(dims, x.rank)), b.dtype), b.dims)


@row("sum")
def sum_all(b, x, *_):
    return sum_(b, x, None)


@row("mean")
def mean_all(b, x, *_):
    return mean(b, x, None, False)


@row("mean.dim")
def mean(b, x, dims, keep, *_):
    x = b.convert(x, wide(b.dtype))
    return b.reshape(b.convert(b.mean(x, axes(dims, x.rank)), b.dtype), b.dims)


@row("prod")
def prod_all(b, x, *_):
    return _prod(b, x, range(x.rank))


@row("prod.dim_int")
def prod(b, x, dim, keep, *_):
    return _prod(b, x, [axis(dim, x.rank)] if x.rank else [])


def _prod(b, x, over):
    x = b.convert(x, wide(b.dtype))
    return b.reshape(b.convert(b.reduce("multiply", x, over, 1), b.dtype), b.dims)


def lowest(dtype):
    if dtype is torch.bool:
        return False
    return -math.inf if is_float(dtype) else torch.iinfo(dtype).min


def highest(dtype):
    if dtype is torch.bool:
        return True
    return math.inf if is_float(dtype) else torch.iinfo(dtype).max


def greatest(b, x, over):
    return b.reduce("or" if x.dtype is torch.bool else "maximum", x, over, lowest(x.dtype))


def least(b, x, over):
    return b.reduce("and" if x.dtype is torch.bool else "minimum", x, over, highest(x.dtype))


@row("amax")
def amax(b, x, dims, keep):
    return b.reshape(greatest(b, x, axes(dims, x.rank)), b.dims)


@row("amin")
def amin(b, x, dims, keep):
    return b.reshape(least(b, x, axes(dims, x.rank)), b.dims)


@row("max")
def max_all(b, x):
    return greatest(b, x, range(x.rank))


@row("min")
def min_all(b, x):
    return least(b, x, range(x.rank))


@row("max.dim")
def max_dim(b, x, dim, keep):
    return extreme(b, x, dim, greatest)


@row("min.dim")
def min_dim(b, x, dim, keep):
    return extreme(b, x, dim, least)


def extreme(b, x, dim, reduce):
    """Value and place of the first extreme; NaN counts as one."""
    if not x.rank:
        return [x, b.constant(0, torch.int64)]
    dim = axis(dim, x.rank)
    best = reduce(b, x, [dim])
    return [b.reshape(best, b.outs[0][0]), b.reshape(index_of_best(b, x, best, dim), b.outs[1][0])]


def index_of_best(b, x, best, dim):
    """The first index along dim where x is `best`."""
    spread = b.broadcast_in_dim(best, x.dims, [i for i in range(x.rank) if i != dim])
    hit = b.compare("EQ", x, spread)
    if is_float(x.dtype):
        hit = b.binary("or", hit, b.isnan(x))
    at = b.iota(x.dims, dim)
    return b.reduce("minimum", b.where(hit, at, b.like(at, x.dims[dim] - 1)), [dim], torch.iinfo(torch.int64).max)


@row("argmax")
def argmax(b, x, dim, keep):
    return _arg(b, x, dim, greatest)


@row("argmin")
def argmin(b, x, dim, keep):
    return _arg(b, x, dim, least)


def _arg(b, x, dim, reduce):
    if dim is None:
        x, dim = b.reshape(x, (x.size,)), 0
    if not x.rank:
        return b.constant(0, torch.int64, b.dims)
    dim = axis(dim, x.rank)
    return b.reshape(index_of_best(b, x, reduce(b, x, [dim]), dim), b.dims)


@row("any", "any.dim", "any.dims")
def any_(b, x, dims=None, *_):
    hit = b.convert(x, torch.bool)
    return b.reshape(b.convert(b.reduce("or", hit, _some(dims, x.rank), False), b.dtype), b.dims)


@row("all", "all.dim", "all.dims")
def all_(b, x, dims=None, *_):
    hit = b.convert(x, torch.bool)
    return b.reshape(b.convert(b.reduce("and", hit, _some(dims, x.rank), True), b.dtype), b.dims)


def _some(dims, rank):
    return [] if dims == [] else axes(dims, rank)


@row("var.correction")
def var(b, x, dims, correction, keep):
    return b.reshape(b.convert(variance(b, b.convert(x, wide(x.dtype)), axes(dims, x.rank), correction)[0], b.dtype), b.dims)


@row("var.dim")
def var_dim(b, x, dims, unbiased, keep):
    return var(b, x, dims, 1 if unbiased else 0, keep)


@row("var_mean.correction")
def var_mean(b, x, dims, correction, keep):
    out, mean = variance(b, b.convert(x, wide(x.dtype)), axes(dims, x.rank), correction)
    return [b.reshape(b.convert(v, b.dtype), d) for v, (d, _) in zip((out, mean), b.outs)]


def variance(b, x, over, correction):
    if x.dtype.is_complex:
        raise Unsupported("the variance of complex numbers")
    mean = b.mean(x, over, keep=True)
    off = b.sub(x, mean)
    count = math.prod(x.dims[i] for i in over) - (1 if correction is None else correction)
    squares = b.sum(b.mul(off, off), over)
    if count <= 0:
        return b.div(squares, 0.0), b.reshape(mean, squares.dims)
    return b.div(squares, float(count)), b.reshape(mean, squares.dims)


@row("linalg_vector_norm")
def vector_norm(b, x, order, dims, keep, *_):
    if not x.dtype.is_complex:
        x = b.convert(x, wide(b.dtype))
    over = axes(dims, x.rank)
    size = b.op("abs", [x], x.dims, wide(b.dtype))
    if order == math.inf:
        out = b.reduce("maximum", size, over, -math.inf if not x.size else 0.0)
    elif order == -math.inf:
        out = b.reduce("minimum", size, over, math.inf)
    elif order == 0:
        out = b.sum(b.convert(b.test("NE", size, 0.0), size.dtype), over)
    elif order == 1:
        out = b.sum(size, over)
    elif order == 2:
        out = b.unary("sqrt", b.sum(b.mul(size, size), over))
    else:
        summed = b.sum(b.binary("power", size, b.like(size, float(order))), over)
        out = b.binary("power", summed, b.like(summed, 1.0 / order))
    return b.reshape(b.convert(out, b.dtype), b.dims)


# along one dim


def refuse_complex(x, what):
    if x.dtype.is_complex:
        raise Unsupported(f"{what} of complex numbers")


def doubling(b, x, dim, combine, start):
    """Inclusive scan in log2(n) steps: each adds what lies 1, 2, 4 ... before."""
    size, step = x.dims[dim], 1
    while step < size:
        low, high = [0] * x.rank, [0] * x.rank
        low[dim], high[dim] = step, -step
        x = combine(x, b.pad(x, low, high, value=b.constant(start, x.dtype)))
        step *= 2
    return x


@row("cumsum")
def cumsum(b, x, dim, *_):
    x = b.convert(x, wide(b.dtype))
    if x.rank and x.size:
        x = doubling(b, x, axis(dim, x.rank), b.add, 0)
    return b.convert(x, b.dtype)


@row("cumprod")
def cumprod(b, x, dim, *_):
    x = b.convert(x, wide(b.dtype))
    if x.rank and x.size:
        x = doubling(b, x, axis(dim, x.rank), b.mul, 1)
    return b.convert(x, b.dtype)


@row("cummax")
def cummax(b, x, dim):
    return _running(b, x, dim, "GE")


@row("cummin")
def cummin(b, x, dim):
    return _running(b, x, dim, "LE")


def _running(b, x, dim, direction):
    """The best so far and its last place, both scanned at once."""
    if not x.rank or not x.size:
        return [x, b.constant(0, torch.int64, x.dims)]
    dim = axis(dim, x.rank)
    start = lowest(x.dtype) if direction == "GE" else highest(x.dtype)
    best, at, step = x, b.iota(x.dims, dim), 1
    while step < x.dims[dim]:
        low, high = [0] * x.rank, [0] * x.rank
        low[dim], high[dim] = step, -step
        old, old_at = b.pad(best, low, high, value=b.constant(start, x.dtype)), b.pad(at, low, high, value=-1)
        later = b.compare(direction, best, old)
        if is_float(x.dtype):
            later = b.binary("and", b.binary("or", later, b.isnan(best)), b.binary("or", b.not_(b.isnan(old)), b.isnan(best)))
        later = b.binary("or", later, b.test("LT", old_at, 0))
        best, at = b.select(later, best, old), b.select(later, at, old_at)
        step *= 2
    return [best, at]


@row("logcumsumexp")
def logcumsumexp(b, x, dim):
    refuse_complex(x, "logcumsumexp")
    if not x.rank or not x.size:
        return x
    x = b.convert(x, wide(b.dtype))

    def join(new, old):
        big = b.maximum(new, old)
        safe = b.where(b.op("is_finite", [big], big.dims, torch.bool), big, b.like(big, 0.0))
        parts = b.add(b.unary("exponential", b.sub(new, safe)), b.unary("exponential", b.sub(old, safe)))
        return b.add(safe, b.unary("log", parts))

    return b.convert(doubling(b, x, axis(dim, x.rank), join, -math.inf), b.dtype)


def before(b, x, descending):
    """The order of sorting on scalars: NaN is the greatest."""
    direction = "GT" if descending else "LT"

    def test(p, q, *_):
        hit = b.compare(direction, p, q)
        if is_float(x.dtype):
            nan, other = (p, q) if descending else (q, p)
            hit = b.binary("or", hit, b.binary("and", b.isnan(nan), b.not_(b.isnan(other))))
        return hit

    return test


@row("sort")
def sort(b, x, dim, descending):
    return sort_stable(b, x, None, dim, descending)


@row("sort.stable")
def sort_stable(b, x, stable, dim, descending):
    if not x.rank:
        return [x, b.constant(0, torch.int64)]
    dim = axis(dim, x.rank)
    if x.dtype is torch.bool:
        key, at = b.sort([b.convert(x, torch.int32), b.iota(x.dims, dim)], dim, before(b, b.like(x, 0, torch.int32), descending))
        return [b.convert(key, torch.bool), at]
    return b.sort([x, b.iota(x.dims, dim)], dim, before(b, x, descending))


@row("argsort.stable")
def argsort_stable(b, x, stable, dim, descending):
    return sort_stable(b, x, stable, dim, descending)[1]


@row("topk")
def topk(b, x, k, dim, largest, sorted_):
    if not x.rank:
        return [x, b.constant(0, torch.int64)]
    dim = axis(dim, x.rank)
    if largest and k and x.dtype in _PICKED:
        return _largest(b, x, k, dim)
    value, at = sort_stable(b, x, True, dim, largest)
    return [b.slice_dim(v, dim, 0, k) for v in (value, at)]


_PICKED = (torch.float32, torch.bfloat16, torch.float16, torch.int32)


def _largest(b, x, k, dim):
    """Without sorting all of them. The op's order is total: NaNs are made one, above all, and zeros equal."""
    if is_float(x.dtype):
        x = b.where(b.isnan(x), b.like(x, math.nan), b.add(x, 0.0))
    order = [i for i in range(x.rank) if i != dim] + [dim]
    x = b.transpose(x, order)
    dims = (*x.dims[:-1], k)
    both = b.op_many("chlo.top_k", [x], [(dims, x.dtype), (dims, torch.int32)], f"k = {k} : i64")
    back = [order.index(i) for i in range(x.rank)]
    return [b.convert(b.transpose(v, back), t) for v, (_, t) in zip(both, b.outs)]


@row("kthvalue")
def kthvalue(b, x, k, dim, keep):
    if not x.rank:
        return [x, b.constant(0, torch.int64)]
    dim = axis(dim, x.rank)
    both = sort_stable(b, x, True, dim, False)
    return [b.reshape(b.slice_dim(v, dim, k - 1, k), d) for v, (d, _) in zip(both, b.outs)]


@row("median.dim")
def median(b, x, dim, keep):
    return _middle(b, x, dim, ignore=False)


@row("nanmedian.dim")
def nanmedian(b, x, dim, keep):
    if is_float(x.dtype):
        raise Unsupported("nanmedian of floats")
    return _middle(b, x, dim, ignore=True)


def _middle(b, x, dim, ignore):
    if not x.rank:
        return [x, b.constant(0, torch.int64)]
    dim = axis(dim, x.rank)
    values, at = sort_stable(b, x, True, dim, False)
    half = (x.dims[dim] - 1) // 2
    value, index = (b.slice_dim(v, dim, half, half + 1) for v in (values, at))
    if is_float(x.dtype):
        nan = b.isnan(x)
        first = b.reduce("minimum", b.where(nan, b.iota(x.dims, dim), b.like(x, x.dims[dim], torch.int64)), [dim], x.dims[dim])
        has = b.reshape(b.test("LT", first, x.dims[dim]), value.dims)
        value = b.where(has, b.like(value, math.nan), value)
        index = b.where(has, b.reshape(first, index.dims), index)
    return [b.reshape(v, d) for v, (d, _) in zip((value, index), b.outs)]


@row("count_nonzero.dim_IntList")
def count_nonzero(b, x, dims):
    return b.sum(b.convert(b.convert(x, torch.bool), torch.int64), axes(dims, x.rank))
