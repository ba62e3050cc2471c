"""Ops that draw numbers. A program takes one seed per run; see rules.Build.random_words for the sequence."""

import torch

from trine.torch.rules import Unsupported, row, wide


@row("rand", "rand_like", "rand.generator")
def rand(b, *_):
    return b.uniform(b.dims, b.dtype)


@row("randn", "randn_like", "randn.generator")
def randn(b, *_):
    return b.normal(b.dims, b.dtype)


@row("uniform")
def uniform(b, x, low, high, *_):
    return b.convert(b.add(b.mul(b.uniform(b.dims, wide(b.dtype)), high - low), low), b.dtype)


@row("normal.float_float")
def normal_sized(b, mean, std, *_):
    return normal(b, None, mean, std)


@row("normal_functional")
def normal(b, x, mean, std, *_):
    return b.convert(b.add(b.mul(b.normal(b.dims, wide(b.dtype)), std), mean), b.dtype)


@row("randint")
def randint(b, high, *_):
    return _between(b, 0, high)


@row("randint.low")
def randint_low(b, low, high, *_):
    return _between(b, low, high)


@row("randint_like")
def randint_like(b, x, high, *_):
    return _between(b, 0, high)


@row("randint_like.low_dtype")
def randint_like_low(b, x, low, high, *_):
    return _between(b, low, high)


def _between(b, low, high):
    u, span = b.random_words(b.dims), high - low
    if span > 1 << 16:  # below, no number is likelier than another by more than 2⁻¹⁶
        u = b.add(b.mul(b.convert(u, torch.uint64), 1 << 32), b.convert(b.random_words(b.dims), torch.uint64))
    rest = u if span >= 1 << 64 else b.binary("remainder", u, b.like(u, span))
    return b.convert(b.add(b.convert(rest, torch.int64), low), b.dtype)


@row("bernoulli", "bernoulli.p", "bernoulli.Tensor")
def bernoulli(b, x, p=None, *_):
    if isinstance(p, (int, float)):
        chance = b.constant(float(p), torch.float32, b.dims)
    else:
        chance = b.value(x if p is None else p, torch.float32, b.dims)
    return b.convert(b.compare("LT", b.uniform(b.dims, torch.float32), chance), b.dtype)


@row("native_dropout")
def native_dropout(b, x, p, train):
    if train is False or p == 0:
        return [x, b.constant(True, torch.bool, x.dims)]
    if p == 1:
        return [b.like(x, 0), b.constant(False, torch.bool, x.dims)]
    keep = b.test("GE", b.uniform(x.dims, torch.float32), p)
    scaled = b.convert(b.mul(b.convert(x, wide(x.dtype)), 1 / (1 - p)), x.dtype)
    return [b.select(keep, scaled, b.like(x, 0)), keep]


@row("exponential")
def exponential(b, x, rate, *_):
    u = b.uniform(b.dims, wide(b.dtype))
    out = b.negate(b.unary("log_plus_one", b.negate(u)))
    return b.convert(b.div(out, float(rate)), b.dtype)


@row("randperm")
def randperm(b, n, *_):
    keys = b.random_words((n,))
    order = b.sort([keys, b.iota((n,), 0)], 0, lambda p, q, *_: b.compare("LT", p, q))[1]
    return b.convert(order, b.dtype)


@row("multinomial")
def multinomial(b, x, count, replacement, *_):
    if replacement and count > 1:
        raise Unsupported("drawing several with replacement")
    u = b.uniform(x.dims, torch.float32)
    race = b.div(b.negate(b.unary("log_plus_one", b.negate(u))), b.convert(x, torch.float32))
    last = x.rank - 1
    order = b.sort([race, b.iota(x.dims, last)], last, lambda p, q, *_: b.compare("LT", p, q))[1]
    return b.slice_dim(order, last, 0, count)
