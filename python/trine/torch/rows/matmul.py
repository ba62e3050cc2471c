"""Products of matrices, attention among them."""

import math

import torch

from trine.torch.rules import Unsupported, row, wide


def product(b, x, y):
    """x @ y of matrices or batches of them, in the result's dtype."""
    n = x.rank
    batch = [(i, i) for i in range(n - 2)]
    if x.dtype is not y.dtype:
        raise Unsupported(f"a product of {x.dtype} and {y.dtype}")  # torch's CPU then says so
    if not x.size or not y.size:
        return b.constant(0, x.dtype, (*x.dims[:-1], y.dims[-1]))
    if x.dtype is torch.bool:
        raise Unsupported("a product of booleans")
    return b.dot(x, y, batch, [(n - 1, n - 2)])


def transposed(b, x):
    return b.transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


@row("mm", "bmm")
def mm(b, x, y, *_):
    return product(b, x, y)


@row("mv")
def mv(b, x, y):
    return b.reshape(product(b, x, b.reshape(y, (y.size, 1))), b.dims)


@row("vdot")
def vdot(b, x, y):
    return dot(b, b.unary("chlo.conj", x) if x.dtype.is_complex else x, y)


@row("dot")
def dot(b, x, y):
    return b.reshape(product(b, b.reshape(x, (1, x.size)), b.reshape(y, (y.size, 1))), ())


@row("addmm", "baddbmm")
def addmm(b, x, y, z, beta, alpha):
    out = product(b, y, z)
    return scaled_sum(b, x, out, beta, alpha)


@row("addbmm")
def addbmm(b, x, y, z, beta, alpha):
    return scaled_sum(b, x, b.sum(product(b, y, z), [0]), beta, alpha)


@row("addmv")
def addmv(b, x, y, z, beta, alpha):
    out = b.reshape(product(b, y, b.reshape(z, (z.size, 1))), b.dims)
    return scaled_sum(b, x, out, beta, alpha)


@row("addr")
def addr(b, x, y, z, beta, alpha):
    out = product(b, b.reshape(b.convert(y, b.dtype), (y.size, 1)), b.reshape(b.convert(z, b.dtype), (1, z.size)))
    return scaled_sum(b, x, out, beta, alpha)


def scaled_sum(b, x, out, beta, alpha):
    if alpha != 1:
        out = b.mul(out, alpha)
    if beta == 0:
        return out
    x = b.value(x, b.dtype, b.dims)
    return b.add(out, x if beta == 1 else b.mul(x, beta))


@row("linear")
def linear(b, x, weight, bias):
    if x.dtype is not weight.dtype:
        raise Unsupported(f"a product of {x.dtype} and {weight.dtype}")
    x = b.dot(x, weight, [], [(x.rank - 1, 1)])
    return x if bias is None else b.add(x, b.broadcast(bias, x.dims))


@row("_softmax")
def softmax(b, x, dim, _):
    return b.convert(softmax_of(b, b.convert(x, wide(b.dtype)), dim), b.dtype)


def softmax_of(b, x, dim):
    if not x.rank:
        return b.like(x, 1.0)
    dim %= x.rank
    top = b.keep_dims(b.reduce("maximum", x, [dim], -math.inf), x, [dim], True)
    e = b.unary("exponential", b.sub(x, top))
    return b.div(e, b.sum(e, [dim], keep=True))


@row("_safe_softmax")
def safe_softmax(b, x, dim, *_):
    out = softmax_of(b, b.convert(x, wide(b.dtype)), dim)
    return b.convert(b.where(all_minus_infinity(b, x, dim), b.like(out, 0.0), out), b.dtype)


def all_minus_infinity(b, x, dim):
    dim %= max(x.rank, 1)
    if not x.rank:
        return b.test("EQ", x, -math.inf)
    return b.keep_dims(b.test("EQ", b.reduce("maximum", x, [dim], -math.inf), -math.inf), x, [dim], True)


@row("_log_softmax")
def log_softmax(b, x, dim, _):
    x = b.convert(x, wide(b.dtype))
    if not x.rank:
        return b.convert(b.like(x, 0.0), b.dtype)
    dim %= x.rank
    off = b.sub(x, b.keep_dims(b.reduce("maximum", x, [dim], -math.inf), x, [dim], True))
    total = b.sum(b.unary("exponential", off), [dim], keep=True)
    return b.convert(b.sub(off, b.unary("log", total)), b.dtype)


@row("_softmax_backward_data")
def softmax_backward(b, grad, out, dim, _):
    grad, out = b.convert(grad, wide(b.dtype)), b.convert(out, wide(b.dtype))
    return b.convert(softmax_grad(b, grad, out, dim), b.dtype)


def softmax_grad(b, grad, out, dim):
    both = b.mul(grad, out)
    if not grad.rank:
        return b.sub(both, b.mul(out, both))
    return b.sub(both, b.mul(out, b.sum(both, [dim % grad.rank], keep=True)))


@row("_log_softmax_backward_data")
def log_softmax_backward(b, grad, out, dim, _):
    grad, out = b.convert(grad, wide(b.dtype)), b.convert(out, wide(b.dtype))
    total = b.sum(grad, [dim % grad.rank], keep=True) if grad.rank else grad
    return b.convert(b.sub(grad, b.mul(b.unary("exponential", out), total)), b.dtype)


# attention: q [.., L, E], k [.., S, E], v [.., S, Ev]


def scores(b, q, k, mask, causal, scale):
    """What softmax is taken of, in the dtype torch sums in."""
    scale = 1 / math.sqrt(q.dims[-1]) if scale is None else scale
    n = q.rank
    out = b.dot(q, k, [(i, i) for i in range(n - 2)], [(n - 1, n - 1)])
    out = b.mul(b.convert(out, wide(out.dtype)), scale)
    if causal:
        r, c = b.iota(out.dims[-2:], 0), b.iota(out.dims[-2:], 1)
        keep = b.broadcast_in_dim(b.compare("GE", r, c), out.dims, [n - 2, n - 1])
        out = b.select(keep, out, b.like(out, -math.inf))
    if mask is not None:
        if mask.dtype is torch.bool:
            out = b.where(b.broadcast(mask, out.dims), out, b.like(out, -math.inf))
        else:
            out = b.add(out, b.broadcast(b.convert(mask, out.dtype), out.dims))
    return out


def same_heads(b, q, x):
    """Heads of keys and values repeated to those of queries."""
    if x.rank != 4 or x.dims[1] == q.dims[1]:
        return x
    times = q.dims[1] // x.dims[1]
    shape = (x.dims[0], x.dims[1], times, *x.dims[2:])
    return b.reshape(b.broadcast_in_dim(x, shape, [0, 1, 3, 4]), (x.dims[0], q.dims[1], *x.dims[2:]))


def attention(b, q, k, v, mask, causal, scale):
    """The result and the logarithm of the sums that softmax divides by."""
    k, v = same_heads(b, q, k), same_heads(b, q, v)
    s = scores(b, q, k, mask, causal, scale)
    last = s.rank - 1
    top = b.reduce("maximum", s, [last], -math.inf)
    if mask is not None:
        top = b.where(b.test("EQ", top, -math.inf), b.like(top, 0.0), top)
    e = b.unary("exponential", b.sub(s, b.broadcast_in_dim(top, s.dims, range(last))))
    total = b.sum(e, [last])
    divisor = total if mask is None else b.where(b.test("EQ", total, 0.0), b.like(total, 1.0), total)
    p = b.div(e, b.broadcast_in_dim(divisor, e.dims, range(last)))
    out = product(b, b.convert(p, v.dtype), v)
    return out, b.add(top, b.unary("log", total))


@row("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(b, q, k, v, dropout, causal, mask, scale):
    if dropout:
        raise Unsupported("attention with dropout in one op")
    out, lse = attention(b, q, k, v, mask, causal, scale)
    return [out, b.reshape(b.convert(lse, b.outs[1][1]), b.outs[1][0])]


@row("_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_backward(b, grad, q, k, v, out, lse, dropout, causal, mask, scale):
    n, last = q.rank, q.rank - 1
    batch = [(i, i) for i in range(n - 2)]
    dtype = wide(q.dtype)
    keys, values = same_heads(b, q, k), same_heads(b, q, v)
    s = scores(b, q, keys, mask, causal, scale)
    lse = b.reshape(b.convert(lse, s.dtype), s.dims[:-1])
    p = b.unary("exponential", b.sub(s, b.broadcast_in_dim(lse, s.dims, range(last))))
    if mask is not None:
        p = b.where(b.broadcast_in_dim(b.test("EQ", lse, -math.inf), s.dims, range(last)), b.like(p, 0.0), p)
    dv = b.dot(b.convert(p, q.dtype), grad, batch, [(n - 2, n - 2)])
    dp = b.convert(b.dot(grad, values, batch, [(last, last)]), dtype)
    row_sum = b.sum(b.mul(b.convert(grad, dtype), b.convert(out, dtype)), [last])
    ds = b.mul(p, b.sub(dp, b.broadcast_in_dim(row_sum, dp.dims, range(last))))
    ds = b.convert(b.mul(ds, 1 / math.sqrt(q.dims[-1]) if scale is None else scale), q.dtype)
    dq = b.dot(ds, keys, batch, [(last, n - 2)])
    dk = b.dot(ds, q, batch, [(n - 2, n - 2)])
    return [dq, heads_summed(b, dk, k), heads_summed(b, dv, v)]


@row("_scaled_dot_product_flash_attention")
def flash_attention_elsewhere(b, q, k, v, dropout, causal, debug, scale):
    """Under the name that torch's rules know; the seeds and the mask that it gives besides are of other machines."""
    if dropout or debug:
        raise Unsupported("attention with dropout in one op")
    out, lse = attention(b, q, k, v, None, causal, scale)
    rest = [None if t is None else b.constant(0, t[1], t[0]) for t in b.outs[2:]]
    rest[2:4] = q.dims[2], k.dims[2]
    return [out, b.reshape(b.convert(lse, b.outs[1][1]), b.outs[1][0]), *rest]


@row("_scaled_dot_product_flash_attention_backward")
def flash_attention_elsewhere_backward(b, grad, q, k, v, out, lse, _q, _k, _max_q, _max_k, dropout, causal, _seed, _offset, scale):
    return flash_attention_backward(b, grad, q, k, v, out, lse, dropout, causal, None, scale)


def heads_summed(b, grad, x):
    if grad.dims == x.dims:
        return grad
    times = grad.dims[1] // x.dims[1]
    grad = b.reshape(grad, (x.dims[0], x.dims[1], times, *x.dims[2:]))
    return b.convert(b.sum(b.convert(grad, wide(x.dtype)), [2]), x.dtype)


@row("scaled_dot_product_attention")
def sdpa(b, q, k, v, mask, dropout, causal, scale, gqa):
    if dropout:
        raise Unsupported("attention with dropout in one op")
    return attention(b, q, k, v, mask, causal, scale)[0]


@row("_cdist_forward")
def cdist(b, x, y, p, _):
    x = b.reshape(x, (*x.dims[:-1], 1, x.dims[-1]))
    y = b.reshape(y, (*y.dims[:-2], 1, *y.dims[-2:]))
    dims = torch.broadcast_shapes(x.dims, y.dims)
    off = b.unary("abs", b.sub(b.broadcast(x, dims), b.broadcast(y, dims)))
    return b.reshape(lengths(b, off, p), b.dims)


@row("_pdist_forward")
def pdist(b, x, p):
    n = x.dims[0]
    first = [i for i in range(n) for _ in range(i + 1, n)]
    second = [j for i in range(n) for j in range(i + 1, n)]
    if not first:
        return b.constant(0, x.dtype, b.dims)
    from trine.torch.rows.index import take

    at = [take(b, x, b.array(torch.tensor(side)), 0) for side in (first, second)]
    return lengths(b, b.unary("abs", b.sub(*at)), p)


def lengths(b, off, p):
    last = off.rank - 1
    if p == 0:
        return b.sum(b.convert(b.test("NE", off, 0.0), off.dtype), [last])
    if p == 1:
        return b.sum(off, [last])
    if p == math.inf:
        return b.reduce("maximum", off, [last], 0.0)
    if p == 2:
        return b.unary("sqrt", b.sum(b.mul(off, off), [last]))
    total = b.sum(b.binary("power", off, b.like(off, float(p))), [last])
    return b.binary("power", total, b.like(total, 1.0 / p))
