"""Normalisation, activations and losses, with the gradients that ATen names."""

import math

import torch

from trine.torch.rules import Unsupported, row, wide


def moments(b, x, over, eps):
    """Mean and 1 / deviation, dims kept."""
    mean = b.mean(x, over, keep=True)
    off = b.sub(x, mean)
    rstd = b.unary("rsqrt", b.add(b.mean(b.mul(off, off), over, keep=True), eps))
    return mean, off, rstd


@row("native_layer_norm")
def layer_norm(b, x, shape, weight, bias, eps):
    dtype = wide(x.dtype)
    lead = x.rank - len(shape)
    over = list(range(lead, x.rank))
    mean, off, rstd = moments(b, b.convert(x, dtype), over, eps)
    out = b.mul(off, rstd)
    if weight is not None:
        out = b.mul(out, b.broadcast(b.convert(weight, dtype), x.dims))
    if bias is not None:
        out = b.add(out, b.broadcast(b.convert(bias, dtype), x.dims))
    return [b.convert(b.reshape(v, d), t) for v, (d, t) in zip((out, mean, rstd), b.outs)]


@row("native_layer_norm_backward")
def layer_norm_backward(b, grad, x, shape, mean, rstd, weight, bias, mask):
    dtype = wide(x.dtype)
    lead = x.rank - len(shape)
    inner, outer = list(range(lead, x.rank)), list(range(lead))
    grad, x, mean, rstd = (b.convert(v, dtype) for v in (grad, x, mean, rstd))
    stat = (*x.dims[:lead], *[1] * len(shape))
    normal = b.mul(b.sub(x, b.reshape(mean, stat)), b.reshape(rstd, stat))
    scaled = b.mul(grad, b.broadcast(b.convert(weight, dtype), x.dims)) if weight is not None else grad
    out = [None, None, None]
    if mask[0]:
        first = b.mean(scaled, inner, keep=True)
        second = b.mean(b.mul(scaled, normal), inner, keep=True)
        out[0] = b.mul(b.sub(b.sub(scaled, first), b.mul(normal, second)), b.reshape(rstd, stat))
    if mask[1] and weight is not None:
        out[1] = b.sum(b.mul(grad, normal), outer)
    if mask[2] and bias is not None:
        out[2] = b.sum(grad, outer)
    return given(b, out)


def given(b, values):
    """Results in the dtypes torch wants; None where it wants none."""
    return [None if v is None or o is None else b.convert(b.reshape(v, o[0]), o[1]) for v, o in zip(values, b.outs)]


@row("_fused_rms_norm")
def rms_norm(b, x, shape, weight, eps):
    dtype = wide(x.dtype)
    wide_x = b.convert(x, dtype)
    over = list(range(x.rank - len(shape), x.rank))
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    rstd = b.unary("rsqrt", b.add(b.mean(b.mul(wide_x, wide_x), over, keep=True), eps))
    out = b.mul(wide_x, rstd)
    if weight is not None:
        out = b.mul(out, b.broadcast(b.convert(weight, dtype), x.dims))
    return [b.convert(b.reshape(v, d), t) for v, (d, t) in zip((out, rstd), b.outs)]


@row("native_group_norm")
def group_norm(b, x, weight, bias, n, c, hw, groups, eps):
    dtype = wide(x.dtype)
    split = (n, groups, c // groups, hw)
    mean, off, rstd = moments(b, b.reshape(b.convert(x, dtype), split), [2, 3], eps)
    out = b.mul(off, rstd)
    for values, combine in ((weight, b.mul), (bias, b.add)):
        if values is not None:
            values = b.reshape(b.convert(values, dtype), (1, groups, c // groups, 1))
            out = combine(out, values)
    return [b.convert(b.reshape(v, d), t) for v, (d, t) in zip((out, mean, rstd), b.outs)]


@row("native_group_norm_backward")
def group_norm_backward(b, grad, x, mean, rstd, weight, n, c, hw, groups, mask):
    dtype = wide(x.dtype)
    split, stat = (n, groups, c // groups, hw), (n, groups, 1, 1)
    grad, x = (b.reshape(b.convert(v, dtype), split) for v in (grad, x))
    rstd, mean = b.reshape(b.convert(rstd, dtype), stat), b.reshape(b.convert(mean, dtype), stat)
    normal = b.mul(b.sub(x, mean), rstd)
    scaled = grad
    if weight is not None:
        scaled = b.mul(grad, b.reshape(b.convert(weight, dtype), (1, groups, c // groups, 1)))
    out = [None, None, None]
    if mask[0]:
        first = b.mean(scaled, [2, 3], keep=True)
        second = b.mean(b.mul(scaled, normal), [2, 3], keep=True)
        out[0] = b.mul(b.sub(b.sub(scaled, first), b.mul(normal, second)), rstd)
    if mask[1] and weight is not None:
        out[1] = b.sum(b.mul(grad, normal), [0, 3])
    if mask[2]:
        out[2] = b.sum(grad, [0, 3])
    return given(b, out)


def by_channel(b, v, x, dtype):
    return b.broadcast_in_dim(b.convert(v, dtype), x.dims, [1])


def batch_norm(b, x, weight, bias, mean, invstd):
    dtype = mean.dtype
    out = b.mul(b.sub(b.convert(x, dtype), by_channel(b, mean, x, dtype)), by_channel(b, invstd, x, dtype))
    if weight is not None:
        out = b.mul(out, by_channel(b, weight, x, dtype))
    if bias is not None:
        out = b.add(out, by_channel(b, bias, x, dtype))
    return out


def batch_moments(b, x, dtype):
    over = [i for i in range(x.rank) if i != 1]
    x = b.convert(x, dtype)
    mean = b.mean(x, over)
    off = b.sub(x, by_channel(b, mean, x, dtype))
    return mean, b.mean(b.mul(off, off), over), x.size // max(x.dims[1], 1)


@row("_native_batch_norm_legit_no_training")
def batch_norm_inference(b, x, weight, bias, mean, var, momentum, eps):
    dtype = wide(x.dtype)
    invstd = b.unary("rsqrt", b.add(b.convert(var, dtype), eps))
    out = batch_norm(b, x, weight, bias, b.convert(mean, dtype), invstd)
    empty = [b.constant(0, t, d) for d, t in b.outs[1:]]
    return [b.convert(out, b.outs[0][1]), *empty]


@row("_native_batch_norm_legit.no_stats")
def batch_norm_no_stats(b, x, weight, bias, training, momentum, eps):
    mean, var, _ = batch_moments(b, x, wide(x.dtype))
    invstd = b.unary("rsqrt", b.add(var, eps))
    return given(b, [batch_norm(b, x, weight, bias, mean, invstd), mean, invstd])


@row("_native_batch_norm_legit_functional")
def batch_norm_functional(b, x, weight, bias, old_mean, old_var, training, momentum, eps):
    dtype = wide(x.dtype)
    if not training:
        invstd = b.unary("rsqrt", b.add(b.convert(old_var, dtype), eps))
        out = batch_norm(b, x, weight, bias, b.convert(old_mean, dtype), invstd)
        empty = [b.constant(0, t, d) for d, t in b.outs[1:3]]
        return [b.convert(out, b.outs[0][1]), *empty, old_mean, old_var]
    mean, var, count = batch_moments(b, x, dtype)
    invstd = b.unary("rsqrt", b.add(var, eps))
    unbiased = b.mul(var, count / (count - 1)) if count > 1 else var

    def moved(old, new):
        return b.add(b.mul(b.convert(old, dtype), 1 - momentum), b.mul(new, momentum))

    out = batch_norm(b, x, weight, bias, mean, invstd)
    return given(b, [out, mean, invstd, moved(old_mean, mean), moved(old_var, unbiased)])


@row("native_batch_norm_backward")
def batch_norm_backward(b, grad, x, weight, run_mean, run_var, mean, invstd, training, eps, mask):
    dtype = wide(x.dtype)
    over = [i for i in range(x.rank) if i != 1]
    if not training:
        mean, invstd = run_mean, b.unary("rsqrt", b.add(b.convert(run_var, dtype), eps))
    grad, wide_x, mean, invstd = (b.convert(v, dtype) for v in (grad, x, mean, invstd))
    normal = b.mul(b.sub(wide_x, by_channel(b, mean, x, dtype)), by_channel(b, invstd, x, dtype))
    total, along = b.sum(grad, over), b.sum(b.mul(grad, normal), over)
    out = [None, along if mask[1] else None, total if mask[2] else None]
    if mask[0]:
        factor = invstd if weight is None else b.mul(invstd, b.convert(weight, dtype))
        inner = grad
        if training:
            count = float(x.size // x.dims[1])
            inner = b.sub(inner, by_channel(b, b.div(total, count), x, dtype))
            inner = b.sub(inner, b.mul(normal, by_channel(b, b.div(along, count), x, dtype)))
        out[0] = b.mul(inner, by_channel(b, factor, x, dtype))
    elif b.outs[0] is not None:  # nobody asked, and torch says that there is one
        out[0] = b.constant(0, dtype, x.dims)
    return given(b, out)


# activations


@row("relu")
def relu(b, x):
    return b.maximum(x, 0)


@row("hardtanh")
def hardtanh(b, x, low, high):
    return b.minimum(b.maximum(x, low), high)


@row("leaky_relu")
def leaky_relu(b, x, slope):
    return b.where(b.test("GT", x, 0.0), x, b.mul(x, slope))


@row("elu")
def elu(b, x, alpha, scale, input_scale):
    x = b.convert(x, wide(b.dtype))
    below = b.mul(b.unary("exponential_minus_one", b.mul(x, input_scale)), alpha * scale)
    return b.convert(b.where(b.test("GT", x, 0.0), b.mul(x, scale), below), b.dtype)


@row("silu")
def silu(b, x):
    x = b.convert(x, wide(b.dtype))
    return b.convert(b.mul(x, b.unary("logistic", x)), b.dtype)


@row("silu_backward")
def silu_backward(b, grad, x):
    grad, x = b.convert(grad, wide(b.dtype)), b.convert(x, wide(b.dtype))
    s = b.unary("logistic", x)
    return b.convert(b.mul(grad, b.mul(s, b.add(b.mul(x, b.sub(1.0, s)), 1.0))), b.dtype)


_INNER, _CUBIC = math.sqrt(2 / math.pi), 0.044715


@row("gelu")
def gelu(b, x, approximate):
    x = b.convert(x, wide(b.dtype))
    if approximate == "tanh":
        inner = b.mul(b.mul(x, b.add(b.mul(b.mul(x, x), _CUBIC), 1.0)), _INNER)
        out = b.mul(b.mul(x, 0.5), b.add(b.unary("tanh", inner), 1.0))
    else:
        out = b.mul(b.mul(x, 0.5), b.add(b.unary("chlo.erf", b.mul(x, math.sqrt(0.5))), 1.0))
    return b.convert(out, b.dtype)


@row("gelu_backward")
def gelu_backward(b, grad, x, approximate):
    grad, x = b.convert(grad, wide(b.dtype)), b.convert(x, wide(b.dtype))
    if approximate == "tanh":
        square = b.mul(x, x)
        t = b.unary("tanh", b.mul(b.mul(x, b.add(b.mul(square, _CUBIC), 1.0)), _INNER))
        slope = b.mul(b.add(b.mul(square, 3 * _CUBIC), 1.0), _INNER)
        right = b.mul(b.mul(b.mul(x, 0.5), b.sub(1.0, b.mul(t, t))), slope)
        out = b.add(b.mul(b.add(t, 1.0), 0.5), right)
    else:
        cdf = b.mul(b.add(b.unary("chlo.erf", b.mul(x, math.sqrt(0.5))), 1.0), 0.5)
        pdf = b.mul(b.unary("exponential", b.mul(b.mul(x, x), -0.5)), 1 / math.sqrt(2 * math.pi))
        out = b.add(cdf, b.mul(x, pdf))
    return b.convert(b.mul(grad, out), b.dtype)


@row("tanh_backward")
def tanh_backward(b, grad, out):
    grad, out = b.convert(grad, wide(b.dtype)), b.convert(out, wide(b.dtype))
    return b.convert(b.mul(grad, b.sub(1.0, b.mul(out, out))), b.dtype)


@row("sigmoid_backward")
def sigmoid_backward(b, grad, out):
    grad, out = b.convert(grad, wide(b.dtype)), b.convert(out, wide(b.dtype))
    return b.convert(b.mul(grad, b.mul(out, b.sub(1.0, out))), b.dtype)


@row("threshold_backward")
def threshold_backward(b, grad, x, threshold):
    x, grad = b.pair(x, grad, b.dtype)
    return b.where(b.test("LE", x, threshold), b.like(grad, 0), grad)


@row("native_dropout_backward")
def dropout_backward(b, grad, mask, scale):
    return b.mul(b.convert(grad, b.dtype), b.mul(b.convert(mask, b.dtype), scale))


# losses


def _picked(b, target, classes, dims):
    """Where the class is the target, over [N, C, ...] or [C]."""
    at = b.iota(dims, 1 if len(dims) > 1 else 0)
    where = [0, *range(2, len(dims))] if len(dims) > 1 else []
    return b.compare("EQ", at, b.broadcast_in_dim(b.convert(target, torch.int64), dims, where))


def _weights(b, target, weight, ignore, dtype, x):
    """The weight of each target: 0 where ignored."""
    counted = b.convert(b.test("NE", b.convert(target, torch.int64), ignore), dtype)
    if weight is None:
        return counted
    dims = x.dims
    wide_weight = b.broadcast_in_dim(b.convert(weight, dtype), dims, [1 if x.rank > 1 else 0])
    hit = _picked(b, target, None, dims)
    class_axis = 1 if x.rank > 1 else 0
    return b.mul(b.sum(b.select(hit, wide_weight, b.like(wide_weight, 0)), [class_axis]), counted)


@row("nll_loss_forward", "nll_loss2d_forward")
def nll_loss(b, x, target, weight, reduction, ignore):
    dtype, class_axis = wide(x.dtype), 1 if x.rank > 1 else 0
    if x.rank == 1 and target.rank == 1:
        target = b.reshape(target, ())
    wide_x = b.convert(x, dtype)
    chosen = b.sum(b.select(_picked(b, target, None, x.dims), wide_x, b.like(wide_x, 0)), [class_axis])
    each = _weights(b, target, weight, ignore, dtype, x)
    loss = b.where(b.test("EQ", each, 0.0), b.like(each, 0.0), b.negate(b.mul(chosen, each)))
    if reduction == 0:
        return [b.convert(loss, x.dtype), b.constant(0, b.outs[1][1], b.outs[1][0])]
    everything = range(loss.rank)
    total = b.sum(each, everything)
    out = b.sum(loss, everything)
    out = b.div(out, total) if reduction == 1 else out
    return [b.convert(out, x.dtype), b.convert(total, x.dtype)]


@row("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(b, grad, x, target, weight, reduction, ignore, total):
    dtype = wide(x.dtype)
    if x.rank == 1 and target.rank == 1:
        target = b.reshape(target, ())
    each = _weights(b, target, weight, ignore, dtype, x)
    grad = b.convert(grad, dtype)
    if reduction == 1:
        grad = b.div(grad, b.convert(total, dtype))
    scaled = b.negate(b.mul(each, b.broadcast(grad, each.dims)))
    where = [0, *range(2, x.rank)] if x.rank > 1 else []
    spread = b.broadcast_in_dim(scaled, x.dims, where)
    return b.convert(b.select(_picked(b, target, None, x.dims), spread, b.like(spread, 0)), b.dtype)


@row("mse_loss")
def mse_loss(b, x, y, reduction):
    x, y = b.pair(x, y, wide(b.dtype))
    off = b.sub(x, y)
    return _reduced(b, b.mul(off, off), reduction)


@row("mse_loss_backward")
def mse_loss_backward(b, grad, x, y, reduction):
    grad, x, y = (b.value(v, wide(b.dtype), b.dims) for v in (grad, x, y))
    factor = 2.0 / max(x.size, 1) if reduction == 1 else 2.0
    return b.convert(b.mul(b.mul(b.sub(x, y), factor), grad), b.dtype)


def _reduced(b, loss, reduction):
    if reduction == 1:
        loss = b.mean(loss, range(loss.rank)) if loss.rank else loss
    elif reduction == 2:
        loss = b.sum(loss, range(loss.rank)) if loss.rank else loss
    elif reduction:
        raise Unsupported(f"a loss with reduction {reduction}")
    return b.convert(loss, b.dtype)
