"""Convolutions, pooling and resampling, with their gradients."""

import math

import torch

from trine.torch.rows.reduce import lowest
from trine.torch.rules import Unsupported, row, wide


def _spread(values, n):
    values = list(values)
    return values * n if len(values) == 1 else values


def conv(b, x, w, window, numbers, groups=1, batch_groups=1):
    """`window`: dict of strides, padding pairs, lhs and rhs dilation; `numbers`: layouts of x, w and the result."""
    n = x.rank - 2
    strides = window.get("strides", [1] * n)
    padding = window.get("padding", [(0, 0)] * n)
    lhs, rhs = window.get("lhs", [1] * n), window.get("rhs", [1] * n)
    reversal = ", ".join(["true" if window.get("reverse") else "false"] * n)
    (xb, xf, xs), (wi, wo, ws), (ob, of, os) = numbers
    out = [0] * (n + 2)
    out[ob], out[of] = x.dims[xb] // batch_groups, w.dims[wo]
    for i in range(n):
        size = (x.dims[xs[i]] - 1) * lhs[i] + 1 + sum(padding[i])
        out[os[i]] = (size - ((w.dims[ws[i]] - 1) * rhs[i] + 1)) // strides[i] + 1
    layouts = [_layout(n, {xb: "b", xf: "f"}, xs), _layout(n, {wi: "i", wo: "o"}, ws), _layout(n, {ob: "b", of: "f"}, os)]
    parts = [
        f"batch_group_count = {batch_groups} : i64",
        f"dimension_numbers = #stablehlo.conv<{layouts[0]}x{layouts[1]}->{layouts[2]}>",
        f"feature_group_count = {groups} : i64",
    ]
    if n:
        pairs = ", ".join(f"[{l}, {h}]" for l, h in padding)
        arrays = {"lhs_dilation": lhs, "rhs_dilation": rhs, "window_strides": strides}
        parts += [f"{k} = array<i64: {', '.join(map(str, v))}>" for k, v in arrays.items()]
        parts.append(f"padding = dense<[{pairs}]> : tensor<{n}x2xi64>")
        parts.append(f"window_reversal = array<i1: {reversal}>")
    return b.op("convolution", [x, w], out, x.dtype, ", ".join(parts))


def _layout(n, letters, space):
    names = {**letters, **{at: str(i) for i, at in enumerate(space)}}
    return "[" + ", ".join(names[i] for i in range(n + 2)) + "]"


def plain(n):
    space = tuple(range(2, n + 2))
    return ((0, 1, space), (1, 0, space), (0, 1, space))


@row("convolution", "_convolution", "convolution_overrideable")
def convolution(b, x, w, bias, stride, padding, dilation, transposed, output_padding, groups, *_):
    n = w.rank - 2
    single = x.rank == n + 1
    if single:
        x = b.reshape(x, (1, *x.dims))
    stride, padding, dilation = _spread(stride, n), _spread(padding, n), _spread(dilation, n)
    output_padding = _spread(output_padding, n)
    if not x.size or not w.size or 0 in b.dims:
        out = b.constant(0, x.dtype, (1, *b.dims) if single else b.dims)
    elif transposed:
        out = _transposed(b, x, w, stride, padding, dilation, output_padding, groups)
    else:
        window = {"strides": stride, "padding": [(p, p) for p in padding], "rhs": dilation}
        out = conv(b, x, w, window, plain(n), groups)
    if bias is not None:
        out = b.add(out, b.broadcast_in_dim(bias, out.dims, [1]))
    return b.reshape(out, b.dims)


def _transposed(b, x, w, stride, padding, dilation, output_padding, groups):
    """x [N, I, ..], w [I, O / groups, ..]: the gradient of a convolution with respect to its input."""
    n = w.rank - 2
    space = tuple(range(2, n + 2))
    if groups > 1:
        i, o = w.dims[:2]
        w = b.reshape(w, (groups, i // groups, o, *w.dims[2:]))
        w = b.reshape(b.transpose(w, [1, 0, *range(2, n + 3)]), (i // groups, groups * o, *w.dims[3:]))
    edges = []
    for k, p, d, e in zip(w.dims[2:], padding, dilation, output_padding):
        reach = (k - 1) * d - p
        edges.append((reach, reach + e))
    window = {"padding": edges, "lhs": stride, "rhs": dilation, "reverse": True}
    return conv(b, x, w, window, ((0, 1, space), (0, 1, space), (0, 1, space)), groups)


@row("convolution_backward")
def convolution_backward(b, grad, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask):
    n = w.rank - 2
    stride, padding, dilation = _spread(stride, n), _spread(padding, n), _spread(dilation, n)
    out = [None, None, None]
    if mask[2]:
        out[2] = b.convert(b.sum(b.convert(grad, wide(grad.dtype)), [0, *range(2, n + 2)]), grad.dtype)
    if transposed:
        if mask[0]:
            window = {"strides": stride, "padding": [(p, p) for p in padding], "rhs": dilation}
            out[0] = _cut(b, conv(b, grad, w, window, plain(n), groups), x.dims)  # output_padding may reach over a stride
        if mask[1]:
            out[1] = weight_gradient(b, grad, x, w.dims, stride, padding, dilation, groups)
        return out
    if mask[0]:
        rest = []
        for i in range(n):
            full = (grad.dims[i + 2] - 1) * stride[i] + (w.dims[i + 2] - 1) * dilation[i] + 1 - 2 * padding[i]
            rest.append(x.dims[i + 2] - full)
        out[0] = _transposed(b, grad, w, stride, padding, dilation, rest, groups)
    if mask[1]:
        out[1] = weight_gradient(b, x, grad, w.dims, stride, padding, dilation, groups)
    return out


@row("convolution_backward_overrideable")
def convolution_backward_overrideable(b, grad, x, w, *rest):
    return convolution_backward(b, grad, x, w, None, *rest)


def weight_gradient(b, x, grad, dims, stride, padding, dilation, groups):
    """Of y = conv(x, w) with respect to w of these dims: x and grad trade batch and channels."""
    n = len(dims) - 2
    space = tuple(range(2, n + 2))
    edges = []
    for i in range(n):
        reach = (grad.dims[i + 2] - 1) * stride[i] + (dims[i + 2] - 1) * dilation[i] + 1
        edges.append((padding[i], reach - x.dims[i + 2] - padding[i]))
    window = {"strides": dilation, "padding": edges, "rhs": stride}
    numbers = ((1, 0, space), (0, 1, space), (1, 0, space))
    return conv(b, x, grad, window, numbers, batch_groups=groups)


# pooling


def _pooled_padding(x, out, kernel, stride, padding, dilation):
    """Pairs, the high one as far as the last window reaches (ceil_mode)."""
    pairs = []
    for size, o, k, s, p, d in zip(x, out, kernel, stride, padding, dilation):
        pairs.append((p, max((o - 1) * s + (k - 1) * d + 1 - size - p, 0)))
    return pairs


def _window(b, x, n, kernel, stride, padding, dilation, out):
    kernel, padding, dilation = _spread(kernel, n), _spread(padding, n), _spread(dilation, n)
    stride = _spread(stride, n) if stride else kernel
    lead = x.rank - n
    pairs = _pooled_padding(x.dims[lead:], out[lead:], kernel, stride, padding, dilation)
    ones = [1] * lead
    return ones + kernel, ones + stride, [(0, 0)] * lead + pairs, ones + dilation


def _cut(b, x, dims):
    return b.slice(x, [0] * x.rank, dims)


@row("max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool(b, x, kernel, stride, padding, dilation, ceil):
    n = len(_spatial(x, kernel))
    window, strides, pairs, dilations = _window(b, x, n, kernel, stride, padding, dilation, b.dims)
    low = lowest(x.dtype)
    size = math.prod(x.dims[x.rank - n :])
    position = b.reshape(b.iota((size,), 0), [1] * (x.rank - n) + list(x.dims[x.rank - n :]))
    position = b.broadcast(position, x.dims)
    best, at = _patches(b, x, window, strides, pairs, dilations, low), _patches(b, position, window, strides, pairs, dilations, -1)
    best, at = (_cut(b, v, (*b.dims, v.dims[-1])) for v in (best, at))
    value = b.reduce("maximum", best, [best.rank - 1], low)
    hit = b.compare("EQ", best, b.broadcast_in_dim(value, best.dims, range(value.rank)))
    if x.dtype.is_floating_point:
        hit = b.binary("or", hit, b.isnan(best))
    hit = b.binary("and", hit, b.test("GE", at, 0))
    first = b.reduce("minimum", b.where(hit, at, b.like(at, size)), [at.rank - 1], size)
    return [value, first]


def _patches(b, x, window, strides, pairs, dilations, fill):
    """Every window's elements on a last dim, in row-major order."""
    x = b.pad(x, [p[0] for p in pairs], [p[1] for p in pairs], value=b.constant(fill, x.dtype))
    parts = []
    for flat in range(math.prod(window)):
        starts, rest = [], flat
        for size in reversed(window):
            starts.insert(0, rest % size)
            rest //= size
        starts = [s * d for s, d in zip(starts, dilations)]
        counts = [(d - ((w - 1) * k + 1)) // s + 1 for d, w, k, s in zip(x.dims, window, dilations, strides)]
        limits = [s + (c - 1) * t + 1 for s, c, t in zip(starts, counts, strides)]
        part = b.slice(x, starts, limits, strides)
        parts.append(b.reshape(part, (*part.dims, 1)))
    return b.concatenate(parts, x.rank)


@row("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")
def max_pool_backward(b, grad, x, kernel, stride, padding, dilation, ceil, index):
    lead = x.rank - len(_spread(kernel, 3 if x.rank == 5 else 2))
    outer, inner = math.prod(x.dims[:lead]), math.prod(x.dims[lead:])
    count = math.prod(grad.dims[lead:])
    grad, index = b.reshape(grad, (outer * count,)), b.reshape(index, (outer, count))
    flat = b.add(index, b.mul(b.iota((outer, count), 0), inner))
    flat = b.reshape(flat, (outer * count,))
    zero = b.constant(0, x.dtype, (outer * inner,))
    return b.reshape(b.scatter(zero, flat, grad, [], [0], [0], 1, b.add), x.dims)


def _pool_counts(b, x, n, kernel, stride, padding, out, include_pad):
    """How many elements each window of an average holds, as torch counts them; a constant of the program."""
    each = []
    for size, o, k, s, p in zip(x.dims[x.rank - n :], out[x.rank - n :], kernel, stride, padding):
        row_ = []
        for i in range(o):
            start, end = i * s - p, min(i * s - p + k, size + p)
            row_.append(end - start if include_pad else min(end, size) - max(start, 0))
        each.append(torch.tensor(row_, dtype=torch.float64))
    total = each[0]
    for e in each[1:]:
        total = total.unsqueeze(-1) * e
    return total


@row("avg_pool2d", "avg_pool3d", "avg_pool1d")
def avg_pool(b, x, kernel, stride, padding, ceil, include_pad, divisor=None):
    n = len(_spatial(x, kernel))
    kernel, padding = _spread(kernel, n), _spread(padding, n)
    stride = _spread(stride, n) if stride else kernel
    dtype = wide(x.dtype)
    window, strides, pairs, _ = _window(b, x, n, kernel, stride, padding, [1], b.dims)
    total = b.reduce_window("add", b.convert(x, dtype), 0, window, strides, pairs)
    total = _cut(b, total, b.dims)
    if divisor:
        return b.convert(b.div(total, divisor), b.dtype)
    counts = _pool_counts(b, x, n, kernel, stride, padding, b.dims, include_pad)
    return b.convert(b.div(total, b.broadcast(b.array(counts.to(dtype)), b.dims)), b.dtype)


def _spatial(x, kernel):
    return x.dims[x.rank - (3 if x.rank == 5 else 2 if x.rank >= 3 and len(kernel) != 1 else 1) :]


@row("avg_pool2d_backward")
def avg_pool_backward(b, grad, x, kernel, stride, padding, ceil, include_pad, divisor):
    n = 2
    kernel, padding = _spread(kernel, n), _spread(padding, n)
    stride = _spread(stride, n) if stride else kernel
    dtype, lead = wide(x.dtype), x.rank - n
    grad = b.convert(grad, dtype)
    if divisor:
        grad = b.div(grad, divisor)
    else:
        counts = _pool_counts(b, x, n, kernel, stride, padding, grad.dims, include_pad)
        grad = b.div(grad, b.broadcast(b.array(counts.to(dtype)), grad.dims))
    low, high = [0] * lead, [0] * lead
    for i in range(n):
        low.append(kernel[i] - 1 - padding[i])
        spread = (grad.dims[lead + i] - 1) * stride[i] + 1
        high.append(x.dims[lead + i] - spread - low[-1] + kernel[i] - 1)
    pairs = list(zip(low, high))
    window = [1] * lead + kernel
    out = b.reduce_window("add", grad, 0, window, [1] * x.rank, pairs, base=[1] * lead + stride)
    return b.convert(b.reshape(out, x.dims), b.dtype)


def _averaging(size, out):
    """The matrix [out, size] of adaptive averages along one dim."""
    m = torch.zeros(out, size, dtype=torch.float64)
    for i in range(out):
        start, end = i * size // out, -(-(i + 1) * size // out)
        m[i, start:end] = 1 / (end - start)
    return m


def along(b, x, matrix, dim):
    """x times a constant matrix [out, size] along dim."""
    y = b.dot(x, b.array(matrix.to(x.dtype)), [], [(dim, 1)])
    order = list(range(x.rank - 1))
    order.insert(dim, x.rank - 1)
    return b.transpose(y, order)


@row("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d")
def adaptive_avg_pool(b, x, size):
    out, lead = b.convert(x, wide(x.dtype)), x.rank - len(size)
    for i in range(lead, x.rank):
        out = along(b, out, _averaging(x.dims[i], b.dims[i]), i)
    return b.convert(out, b.dtype)


@row("_adaptive_avg_pool2d_backward")
def adaptive_avg_pool2d_backward(b, grad, x):
    return _adaptive_backward(b, grad, x, 2)


@row("_adaptive_avg_pool3d_backward")
def adaptive_avg_pool3d_backward(b, grad, x):
    return _adaptive_backward(b, grad, x, 3)


def _adaptive_backward(b, grad, x, n):
    out = b.convert(grad, wide(x.dtype))
    for i in range(x.rank - n, x.rank):
        out = along(b, out, _averaging(x.dims[i], grad.dims[i]).T, i)
    return b.convert(out, b.dtype)


# resampling: per dim a constant matrix, or a list of positions


def _scale(size, out, corners, factor):
    if corners:
        return (size - 1) / (out - 1) if out > 1 else 0.0
    return 1 / factor if factor else size / out


def _linear(size, out, corners, factor):
    m = torch.zeros(out, size, dtype=torch.float64)
    step = _scale(size, out, corners, factor)
    for i in range(out):
        at = i * step if corners else max((i + 0.5) * step - 0.5, 0.0)
        low = min(int(at), size - 1)
        high, part = min(low + 1, size - 1), at - low
        m[i, low] += 1 - part
        m[i, high] += part
    return m


@row("upsample_bilinear2d.vec", "upsample_linear1d.vec", "upsample_trilinear3d.vec")
def upsample_linear(b, x, size, corners, factors):
    out = b.convert(x, wide(x.dtype))
    for i in range(2, x.rank):
        factor = factors[i - 2] if factors else None
        out = along(b, out, _linear(x.dims[i], b.dims[i], corners, factor), i)
    return b.convert(out, b.dtype)


def nearest(b, x, factors):
    from trine.torch.rows.index import take

    for i in range(2, x.rank):
        out = b.dims[i]
        step = 1 / factors[i - 2] if factors and factors[i - 2] else x.dims[i] / out
        if out % x.dims[i] == 0 and step == x.dims[i] / out:
            dims = (*x.dims[: i + 1], out // x.dims[i], *x.dims[i + 1 :])
            wide_x = b.broadcast_in_dim(x, dims, [j for j in range(len(dims)) if j != i + 1])
            x = b.reshape(wide_x, (*x.dims[:i], out, *x.dims[i + 1 :]))
        else:
            step = torch.tensor(step, dtype=torch.float32)
            positions = (torch.arange(out, dtype=torch.float32) * step).floor().long().clamp(max=x.dims[i] - 1)
            x = take(b, x, b.array(positions), i)
    return x


@row("upsample_nearest2d.vec", "upsample_nearest1d.vec", "upsample_nearest3d.vec")
def upsample_nearest_vec(b, x, size, factors):
    return nearest(b, x, factors)


@row("upsample_nearest2d", "upsample_nearest1d", "upsample_nearest3d")
def upsample_nearest(b, x, size, *factors):
    return nearest(b, x, list(factors))


@row("upsample_nearest2d_backward")
def upsample_nearest_backward(b, grad, size, in_size, *factors):
    out = b.convert(grad, wide(grad.dtype))
    for i in (2, 3):
        small, big = b.dims[i], grad.dims[i]
        if big % small or factors[i - 2] not in (None, big // small):
            raise Unsupported("the gradient of resampling by a fraction")
        dims = (*out.dims[:i], small, big // small, *out.dims[i + 1 :])
        out = b.sum(b.reshape(out, dims), [i + 1])
    return b.convert(out, b.dtype)


def reflected(size, low, high):
    positions = list(range(-low, size + high))
    return [(-p if p < 0 else 2 * (size - 1) - p if p >= size else p) for p in positions]


@row("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(b, x, pad):
    return _picked_pad(b, x, pad, reflected)


@row("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(b, x, pad):
    return _picked_pad(b, x, pad, lambda size, low, high: [min(max(p, 0), size - 1) for p in range(-low, size + high)])


def _picked_pad(b, x, pad, positions):
    from trine.torch.rows.index import take

    for i in range(len(pad) // 2):
        dim = x.rank - 1 - i
        if pad[2 * i] or pad[2 * i + 1]:
            x = take(b, x, b.array(torch.tensor(positions(x.dims[dim], pad[2 * i], pad[2 * i + 1]))), dim)
    return x
