"""The device compiler op by op: JAX on the CPU against the instructions, run one by one on simulated memory."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import trine
from trine import _core

CHIPS = ["trn1", "trn2", "trn3"]
INSTANCES = {"trn1": "trn1.2xlarge", "trn2": "trn2.3xlarge", "trn3": "trn3-gen1-ultraserver"}
RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def ints(high, *shape, low=0, dtype=np.int32):
    return RNG.integers(low, high, shape).astype(dtype)


def pool(x, init, op, padding="SAME"):
    return lax.reduce_window(x, init, op, (1, 3, 3, 1), (1, 2, 2, 1), padding)


def conv(x, k, strides=(1, 1), padding="SAME", **how):
    return lax.conv_general_dilated(x, k, strides, padding, **how)


def squares(f, *argnums):
    """The gradient of a sum of squares of what f gives."""
    return jax.grad(lambda *args: (f(*args) ** 2).sum(), argnums=argnums or 0)


def divided(a, b):
    a, b = jnp.broadcast_arrays(a, b)
    return lax.div(a, b), lax.rem(a, b)


def normed(x, over):
    return (x - x.mean(over, keepdims=True)) * lax.rsqrt(x.var(over, keepdims=True) + 1e-5)


def at_key(f):
    return lambda key: f(jax.random.wrap_key_data(key))


def attended(q, k, v, bias=0, causal=False, window=0, less=False, cap=0):
    scores = jnp.einsum("qd,kd->qk", q, k) * 0.3
    scores = jnp.tanh(scores / cap) * cap if cap else scores
    scores = scores - bias if less else scores + bias
    query, key = jnp.arange(q.shape[0])[:, None], jnp.arange(k.shape[0])
    if causal:
        seen = (key <= query) & (key > query - window) if window else key <= query
        scores = jnp.where(seen, scores, -1e9)
    return jnp.einsum("qk,kd->qd", jax.nn.softmax(scores, -1), v)


def sequences(x, up, bias, down):
    """A block over [batch, places, width], with what tells places apart at its ends."""
    h = jax.nn.gelu(x @ up + bias) @ down + x
    h = (h - h.mean(-1, keepdims=True)) * lax.rsqrt(h.var(-1, keepdims=True) + 1e-5)
    return (h * jnp.arange(x.shape[1])[:, None]).transpose(1, 0, 2) @ up, (h @ up).max(-1)


NHWC = {"dimension_numbers": ("NHWC", "HWIO", "NHWC")}
KEY = np.array([1, 2], np.uint32)
ROWS = np.array([4, 4, 2, 25, 4], np.int32)
WHOLE = np.array([0, 1, 2, 3, 7, 24, 4097, 2**24 + 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 5, 2**32 - 1, 123456789, 3000000019], np.uint32)
def asked(q, k, v, seen):
    """One more token: queries[batch, queries, key heads, shared, dim]."""
    scores = jnp.where(seen > 0, jnp.einsum("bqghd,bkgd->bghqk", q, k) * 0.3, -1e30)
    return jnp.einsum("bghqk,bkgd->bqghd", jax.nn.softmax(scores, axis=-1), v)


def asking(batch, queries, heads, shared, keys, dim, by_sequence=False):
    seen = np.arange(keys) < keys - 7 - np.arange(batch if by_sequence else 1)[:, None]
    return (asked, floats(batch, queries, heads, shared, dim), floats(batch, keys, heads, dim), floats(batch, keys, heads, dim), seen[:, None, None, None].astype(np.int32))


def firsts():
    """Rows whose largest is there once, several times, not a number, without end, or nowhere."""
    x = floats(6, 9001)
    x[1, [4096, 7000, 8999]] = 9
    x[2, 17], x[2, [5000, 6000]] = np.inf, np.nan
    x[3], x[5] = -np.inf, np.nan
    x[4, [9000, 1200]] = np.inf
    return x


FIRSTS = firsts()


def crossed(x, i, f=jax.nn.logsumexp):
    """Cross-entropy of rows, and of those where the first target is left out, as two."""
    lost = f(x.astype(jnp.float32), -1) - jnp.take_along_axis(x, i[..., None], -1)[..., 0]
    return jnp.where(i == i.reshape(-1)[0], 0, lost).mean(), lost


def likelihood(x, i):
    return -jnp.take_along_axis(jax.nn.log_softmax(x), i[:, None], -1).mean()


def logits(rows, columns):
    """Rows of which one has nothing, one something without end, and one is small all over."""
    x = floats(rows, columns) * 8
    x[1], x[2, 5], x[3] = -np.inf, np.inf, x[3] - 500
    x[4, 1 : columns // 2] = -np.inf
    return x

CASES = {
    "rows of a table": (lambda t, i: t[i], floats(300, 24), ints(300, 3, 50)),
    "rows out of bounds": (lambda t, i: jnp.take(t, i, axis=0, mode="clip"), floats(10, 8), np.array([-5, 3, 20], np.int32)),
    "columns of a table": (lambda t, i: t[:, i], floats(6, 9), ints(9, 3)),
    "one of each row": (lambda t, i: jnp.take_along_axis(t, i, axis=1), floats(6, 9), ints(9, 6, 2)),
    "its gradient": (jax.grad(lambda t, i: (jnp.take_along_axis(t, i, axis=1) ** 2).sum()), floats(6, 9), ints(9, 6, 1)),
    "gradient of rows": (jax.grad(lambda t, i: (t[i] ** 2).sum()), floats(50, 16), ints(50, 4, 10)),
    "slice at a place": (lambda x, i, j: lax.dynamic_slice(x, (i, j), (3, 5)), floats(20, 8), np.int32(40), np.int32(2)),
    "update at a place": (lambda x, u, i: lax.dynamic_update_slice(x * 2, u, (i, 1)) + 1, floats(20, 8), floats(2, 3), np.int32(19)),
    "concatenate": (lambda a, b: jnp.concatenate([a * 2, b], 1) + 1, floats(4, 20, 8), floats(4, 3, 8)),
    "pad, inside and negative": (lambda a: lax.pad(a, 1.5, ((1, 2, 1), (0, -2, 2))), floats(5, 6)),
    "set rows": (lambda x, u, i: x.at[i].set(u), floats(20, 8), floats(3, 8), np.array([4, 30, 2], np.int32)),
    "add rows that meet": (lambda x, u, i: x.at[i].add(u), floats(20, 8), floats(5, 8), ROWS),
    "add columns that meet": (lambda x, u, i: x.at[:, i].add(u), floats(20, 8), floats(20, 3), np.array([4, 4, 2], np.int32)),
    "maximum of rows that meet": (lambda x, u, i: x.at[i].max(u), floats(20, 8), floats(5, 8), ROWS),
    "count": (lambda x, i: x.at[i].add(1), np.zeros(20, np.int32), ROWS),
    "largest of windows": (lambda x: pool(x, -jnp.inf, lax.max), floats(2, 9, 9, 4)),
    "gradient of pooling": (squares(lambda x: pool(x, -jnp.inf, lax.max)), floats(2, 9, 9, 4)),
    "gradient of pooling, windows of gaps and overlaps": (
        squares(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 3, 1), (1, 3, 2, 1), ((0, 0), (0, 1), (2, 0), (0, 0)))),
        floats(2, 10, 9, 4),
    ),
    "sums of windows": (lambda x: pool(x, 0.0, lax.add, "VALID"), floats(2, 9, 9, 4)),
    "a mean of all squares": (lambda x, y: ((x - y) ** 2).mean(), floats(300, 70), floats(300, 70)),
    "the largest of a long list": (lambda x: x.max(), floats(40000)),
    "whether any of many is": (lambda x: ((x > 9).any(), (x > -9).all(), (x > 0).sum()), floats(200, 100)),
    "a product over many short dims": (
        lambda x, y: jnp.einsum(x, [*range(12), 20], y, [*range(11, -1, -1), 21], [20, 21]), floats(*(2,) * 12, 3), floats(*(2,) * 12, 4)),
    "a product of long vectors": (jnp.vdot, floats(300, 70), floats(300, 70)),
    "what depends on the platform": (jnp.diagonal, floats(40, 60)),
    "long lists, changed and kept": (
        lambda p, g, m: (lambda n: (p - 0.1 * jnp.tanh(n), n, (n * g).sum()))(0.9 * m + 0.1 * g), floats(24000), floats(24000), floats(24000)),
    "many short rows": (lambda x, y: jnp.where(x > 0, x * y.reshape(9000, 2), x).astype(jnp.bfloat16), floats(9000, 2), floats(18000)),
    "totals of few long rows": (lambda x: x.sum(1), floats(2, 1 << 20)),
    "running sums": (lambda x: jnp.cumsum(x, axis=1), floats(5, 37)),
    "running sums, products and extremes of rows": (
        lambda x: (lax.cumsum(x, 1), lax.cumprod(x / 8 + 1, 1), lax.cummax(x, 1, reverse=True), lax.cummin(x, 1), jnp.cumsum(x > 0, 1)), floats(130, 70)),
    "running sums over rows": (
        lambda x: (lax.cumsum(x, 0), lax.cummax(x, 1), lax.cummin(x.astype(jnp.bfloat16), 1, reverse=True).astype(jnp.float32)), floats(3, 140, 600)),
    "running sums of a long list": (lambda x: (lax.cumsum(x, 1), lax.cumsum(x, 1, reverse=True)), floats(3, 20480)),
    "the largest over rows, columns side by side": (
        lambda x, y, z: (x.max(0), y.min(1), z.max(0), jax.nn.softmax(y, 1), z.reshape(-1, 16).max(0)), floats(300, 130), floats(3, 260, 130), floats(66, 8192)),
    "what is without end stays where it is": (
        lambda x: (x.max(0), lax.cummax(x, 0), jnp.argmax(x, 0), x.T + 1), np.where(np.arange(160 * 130).reshape(160, 130) % 997 == 5, -np.inf, floats(160, 130)).astype(np.float32)),
    "softmax of few long rows": (
        lambda x, y: (jax.nn.softmax(x), jax.nn.log_softmax(x * y), (x + y[None]).min(-1), (x > 3).any(-1)), floats(3, 18432), floats(18432)),
    "place of the largest of long rows": (
        lambda x, y: (jnp.argmax(x, -1), jnp.argmin(y, -1), jnp.argmax(y), jnp.argmax(y.astype(jnp.bfloat16), -1), jnp.argmax(y, 0)), FIRSTS, ints(40, 20, 300).astype(np.float32)),
    "likelihoods over a vocabulary in a loop": (
        lambda x: lax.scan(lambda c, t: (c + jax.nn.log_softmax(x * t)[:, 5], jnp.argmax(x * t, -1)), jnp.zeros(2), jnp.array([0.5, -1.5])), floats(2, 16384)),
    "a token of the most likely": (
        lambda key, x: (lambda v, i: jnp.take_along_axis(i, jax.random.categorical(key, v)[:, None], 1))(*lax.top_k(x, 20)), KEY, floats(2, 50257)),
    "the largest many of long rows, some equal": (lambda x: lax.top_k(x, 70), ints(3000, 3, 40000).astype(np.float32)),
    "reductions of very many short rows": (
        lambda x, w, r, i: (
            jax.nn.softmax(x * w + r[:, None]), (x - x.mean(1, keepdims=True)) / (x.std(1, keepdims=True) + 0.1), (x > 0).any(1),
            jnp.max(x, 1, initial=0.5) + jnp.arange(6000), x.astype(jnp.bfloat16).max(1).astype(jnp.float32) * r, (x * jax.nn.one_hot(i, 12)).sum(1)),
        floats(6000, 12), floats(12), floats(6000), ints(12, 6000)),
    "reductions of short rows in two dims": (lambda x: (x.sum((2, 3)), x / jnp.abs(x).max((2, 3), keepdims=True), jnp.argmax(x, -1)), floats(9, 480, 4, 5)),
    "norms of groups, channels last": (
        lambda x: (x - x.mean((1, 3), keepdims=True)) * lax.rsqrt(x.var((1, 3), keepdims=True) + 1e-5), floats(3, 200, 8, 40)),
    "spreads over more rows than stay on chip": (lambda x: normed(x, (0, 1)), 1 + floats(24, 1920, 48)),
    "spreads over rows of more columns than a bank": (lambda x, y: (x.var(0), (y * y + y).sum(0)), 1 + floats(3703, 600), floats(1100, 2048)),
    "norms of groups of two images": (lambda x: normed(x.reshape(2, 11640, 8, 12), (1, 3)), 1 + floats(2, 11640, 96)),
    "sums over rows, one of them infinite": (lambda x: jnp.exp(x * jnp.arange(100)).sum(0), floats(23000, 100)),
    "a list that nothing divides": (lambda x, y: (x * y + jnp.arange(20011), jnp.sign(x.reshape(1, -1))), floats(20011), floats(20011)),
    "convolution": (functools.partial(conv, **NHWC), floats(2, 10, 10, 8), floats(3, 3, 8, 16)),
    "convolution, strides": (functools.partial(conv, strides=(2, 2)), floats(2, 8, 10, 10), floats(16, 8, 3, 3)),
    "convolution, dilated": (functools.partial(conv, padding=((2, 2), (2, 2)), rhs_dilation=(2, 2)), floats(1, 8, 9, 9), floats(16, 8, 3, 3)),
    "convolution in groups": (functools.partial(conv, feature_group_count=2), floats(2, 8, 6, 6), floats(16, 4, 3, 3)),
    "convolution by channel": (functools.partial(conv, feature_group_count=8), floats(1, 8, 6, 6), floats(16, 1, 3, 3)),
    "windows of few channels": (
        lambda x, k, b, w: (jnp.maximum(conv(x, k, (2, 2), ((3, 3), (3, 3)), **NHWC) * 0.1 + b, 0), conv(x, w, (1, 3), "VALID", rhs_dilation=(2, 1), **NHWC)),
        floats(3, 33, 40, 3), floats(7, 7, 3, 20), floats(20), floats(5, 2, 3, 6)),
    "windows of few channels, two rows of pixels a tile": (lambda x, k, b: jnp.tanh(conv(x, k, **NHWC) * 0.1 + b), floats(2, 7, 64, 4), floats(3, 3, 4, 40), floats(40)),
    "convolution, shifted": (functools.partial(conv, **NHWC), floats(3, 10, 9, 24), floats(3, 3, 24, 40)),
    "shifted, many channels": (functools.partial(conv, strides=(2, 1), **NHWC), floats(1, 7, 6, 140), floats(3, 2, 140, 150)),
    "shifted, in bands": (functools.partial(conv, padding=((2, 1), (0, 3)), **NHWC), floats(1, 160, 200, 16), floats(3, 3, 16, 4)),
    "shifted, channels first": (functools.partial(conv, strides=(2, 2), padding=((1, 1), (1, 1))), floats(2, 20, 9, 11), floats(32, 20, 3, 3)),
    "shifted, first, in bands": (functools.partial(conv, rhs_dilation=(2, 2)), floats(1, 16, 160, 120), floats(4, 16, 3, 3)),
    "shifted, what follows it": (
        lambda x, k, a, b, y: (jnp.maximum(conv(x, k, **NHWC) * a + b, 0), jnp.maximum(conv(x, k, **NHWC) * a + b + y, 0)),
        floats(6, 10, 12, 24), 0.1 * floats(3, 3, 24, 140), floats(140), floats(140), floats(6, 10, 12, 140)),
    "shifted, what follows it in bands": (lambda x, k, b: jnp.maximum(conv(x, k, **NHWC) + b, 0), floats(2, 112, 112, 16), 0.1 * floats(3, 3, 16, 130), floats(130)),
    "shifted by channel, what follows it": (
        lambda x, k, b: jnp.tanh(conv(x, k, feature_group_count=140, **NHWC) * 0.2 + b), floats(2, 9, 9, 140), floats(3, 3, 1, 140), floats(140)),
    "shifted, its gradients": (squares(functools.partial(conv, **NHWC), 0, 1), floats(2, 8, 8, 16), floats(3, 3, 16, 20)),
    "gradients over pixels of several rows and images": (squares(functools.partial(conv, **NHWC), 0, 1), floats(3, 7, 14, 140), 0.02 * floats(3, 3, 140, 24)),
    "gradients of channels first": (squares(functools.partial(conv, strides=(2, 2), padding=((1, 1), (1, 1))), 0, 1), floats(3, 20, 9, 11), 0.1 * floats(32, 20, 3, 3)),
    "gradients of one by one": (squares(conv, 0, 1), floats(3, 20, 9, 11), 0.1 * floats(32, 20, 1, 1)),
    "gradients through strides": (squares(functools.partial(conv, strides=(2, 2), **NHWC), 0, 1), floats(1, 30, 30, 16), 0.05 * floats(3, 3, 16, 130)),
    "its gradients": (squares(functools.partial(conv, strides=(2, 2)), 0, 1), floats(2, 8, 10, 10), floats(16, 8, 3, 3)),
    "places of each row": (
        lambda x, i, j: (jnp.nan_to_num(jnp.take_along_axis(x, i, 1), nan=9), jnp.take_along_axis(x, j, 0), jnp.take_along_axis(x.astype(jnp.bfloat16), i, 1, mode="clip").astype(jnp.float32), jnp.take_along_axis(i, i % 30, 1)),
        floats(150, 60), ints(70, 150, 50, low=-70), ints(150, 40, 60)),
    "columns that data chooses": (lambda x, y, j: (x[:, j], y[:, :, j], y.at[..., j].get(mode="clip")), floats(140, 90), floats(3, 50, 90).astype(jnp.bfloat16).astype(np.float32), ints(95, 64, low=-90)),
    "a table looked up": (lambda t, i: (t[i], t[i.reshape(-1)[:1030]]), floats(300), ints(300, 40, 33)),
    "edges of padding": (lambda x, y: (jnp.pad(x, ((0, 0), (1, 2), (2, 1), (0, 0)), constant_values=3.5), jnp.pad(y, ((3, 0), (0, 5)), constant_values=-1), jnp.pad(y, ((30, 30), (1, 1)))), floats(3, 20, 30, 16), floats(40, 150)),
    "convolution of each of many channels": (
        lambda x, k, y, j: (conv(x, k, (2, 1), feature_group_count=160, dimension_numbers=("NHWC", "HWIO", "NHWC")), conv(y, j, (1, 2), "VALID", feature_group_count=40, rhs_dilation=(1, 2))),
        floats(2, 9, 7, 160), floats(3, 3, 1, 160), floats(1, 40, 8, 11), floats(40, 1, 2, 3).astype(jnp.bfloat16).astype(np.float32)),
    "convolution over one dim": (lambda x, k, j: (lax.conv_general_dilated(x, k, (2,), [(2, 1)]), lax.conv_general_dilated(x, j, (1,), [(3, 0)], feature_group_count=48)), floats(2, 48, 70), floats(20, 48, 3), floats(48, 1, 4)),
    "gradients in groups": (squares(functools.partial(conv, feature_group_count=2), 0, 1), floats(2, 8, 6, 6), floats(16, 4, 3, 3)),
    "a deep product": (jnp.matmul, floats(300, 12500) / 100, floats(12500, 260)),
    "a product changed and reduced": (lambda a, b, c: (lambda y: (y, y.max(-1)))(a @ b + c), floats(70, 40), floats(40, 300), floats(300)),
    "a place in each row": (lambda x, i: x * 2 + jnp.where(jnp.arange(90) == i[:, None], x.sum(-1, keepdims=True), 0.0), floats(50, 90), ints(100, 50)),
    "images that are not all on chip at once": (
        lambda x, k, w: jnp.tanh(conv(pool(jnp.maximum(conv(x, k, **NHWC), 0) * 0.1, -jnp.inf, lax.max), w, (4, 4), **NHWC)).sum(3),
        floats(3, 96, 96, 24), floats(3, 3, 24, 24), floats(3, 3, 24, 8)),
    "patches of images": (functools.partial(conv, strides=(8, 8), padding="VALID"), floats(2, 3, 35, 24), floats(20, 3, 8, 8)),
    "patches of images, channels last": (functools.partial(conv, strides=(4, 8), padding="VALID", **NHWC), floats(2, 16, 24, 3), floats(4, 8, 3, 20)),
    "few channels first": (functools.partial(conv, strides=(2, 2), padding=((3, 3), (3, 2))), floats(2, 3, 22, 30), floats(20, 3, 7, 7)),
    "few channels first, few rows": (functools.partial(conv, strides=(1, 2), rhs_dilation=(2, 1)), floats(2, 3, 12, 14), floats(20, 3, 3, 3)),
    "planes, channels last": (functools.partial(conv, strides=(2, 1, 1), dimension_numbers=("NDHWC", "DHWIO", "NDHWC")), floats(2, 6, 7, 8, 20), floats(3, 3, 2, 20, 24)),
    "planes, channels first": (functools.partial(conv, strides=(1, 2, 1), padding=((2, 1), (1, 1), (0, 0)), rhs_dilation=(2, 1, 1)), floats(2, 9, 6, 7, 8), floats(24, 9, 3, 3, 2)),
    "planes, their gradients": (squares(functools.partial(conv, strides=(1, 1, 1)), 0, 1), floats(1, 4, 4, 5, 5), floats(6, 4, 3, 3, 3)),
    "groups of few channels": (functools.partial(conv, feature_group_count=8, **NHWC), floats(2, 9, 9, 32), floats(3, 3, 4, 48)),
    "groups that fill the rows twice": (functools.partial(conv, feature_group_count=8), floats(1, 256, 6, 6), floats(64, 32, 3, 3)),
    "products without a sum": (lambda x, y: jnp.einsum("tef,te->tef", x, y), floats(70, 8, 40), floats(70, 8)),
    "a few numbers for each of many": (lambda x, y: jnp.einsum("te,edt->td", x, y), floats(70, 8), floats(8, 40, 70)),
    "attention over many keys": (attended, floats(130, 16), floats(4500, 16), floats(4500, 24)),
    "sequences of one and a half of a multiply's strips": (lambda x, up, bias, down: jnp.tanh(x @ up + bias) @ down, floats(3, 2, 768, 128), 0.1 * floats(128, 64), floats(64), floats(64, 8)),
    "sequences that fill no tile evenly": (sequences, floats(5, 70, 24), 0.3 * floats(24, 40), floats(40), 0.3 * floats(40, 24)),
    "attention by heads of many dims": (functools.partial(attended, causal=True), floats(300, 200), floats(300, 200), floats(300, 256)),
    "attention over keys that pass by": (attended, floats(40, 8), floats(17000, 8), floats(17000, 8)),
    "a token asks heads that share keys": asking(16, 1, 1, 2, 256, 128),
    "a token asks heads with keys of their own": asking(3, 1, 5, 1, 64, 64),
    "a token asks heads of many dims": asking(2, 1, 1, 4, 256, 256),
    "heads of odd dims, each with keys of its own": asking(1, 2, 3, 1, 140, 160),
    "keys that fill no partition evenly": asking(2, 1, 2, 2, 300, 24),
    "a few tokens ask, each sequence its own keys": asking(3, 2, 2, 2, 384, 16, by_sequence=True),
    "attention to what came before, and a bias": (functools.partial(attended, causal=True), floats(200, 16), floats(200, 16), floats(200, 8), floats(200, 200)),
    "attention with a bias in bf16": (attended, floats(150, 16), floats(140, 16), floats(140, 8), floats(150, 140).astype(jnp.bfloat16)),
    "attention with less than a bias": (functools.partial(attended, less=True), floats(150, 16), floats(140, 16), floats(140, 8), floats(150, 140)),
    "attention of capped scores": (functools.partial(attended, causal=True, cap=1.5), floats(200, 16), floats(200, 16), floats(200, 8)),
    "attention of capped scores and a row": (functools.partial(attended, cap=1.5), floats(150, 16), floats(140, 16), floats(140, 8), floats(1, 140)),
    "attention as jax.nn has it": (functools.partial(jax.nn.dot_product_attention, is_causal=True), floats(1, 150, 4, 16), floats(1, 150, 2, 16), floats(1, 150, 2, 16)),
    "attention to a window": (functools.partial(attended, causal=True, window=150), floats(900, 16), floats(900, 16), floats(900, 8)),
    "attention to a window of one": (functools.partial(attended, causal=True, window=1), floats(200, 16), floats(200, 16), floats(200, 8)),
    "attention to all that came before": (functools.partial(attended, causal=True, window=200), floats(200, 16), floats(200, 16), floats(200, 8)),
    "attention to what came before": (functools.partial(attended, causal=True), floats(2200, 16), floats(2200, 16), floats(2200, 8)),
    "rows that each begin one further on, too many for the chip": (
        lambda d: jnp.broadcast_to(d[:, None], (3, 768, 1535)).reshape(3, -1)[:, 767:-1].reshape(3, 768, 1534)[:, :, :768], floats(3, 1535)),
    "sort": (lambda x: jnp.sort(x, axis=0), floats(17, 3)),
    "sort of many rows": (
        lambda x, y: (jnp.nan_to_num(jnp.sort(x), nan=77.0), jnp.argsort(y, 0), jnp.nan_to_num(jnp.sort(x, descending=True), nan=77.0), lax.top_k(jnp.where(y < 20, y, -jnp.inf), 40)),
        np.where(np.arange(9000).reshape(90, 100) % 37 == 5, np.nan, np.where(np.arange(9000).reshape(90, 100) % 41 == 3, np.inf, floats(90, 100))).astype(np.float32),
        ints(40, 90, 100).astype(np.float32)),
    "order": (lambda x: jnp.argsort(x, axis=-1), ints(9, 4, 30).astype(np.float32)),
    "the largest few": (lambda x: lax.top_k(x, 4), floats(4, 30)),
    "the largest few of many": (lambda x: lax.top_k(x, 3), floats(4, 20000)),
    "a value at one place of each row, some without end": (
        lambda at, v: jnp.where(jnp.arange(40) == at[:, None], v[:, None], 0.0), ints(40, 6), np.array([1, np.inf, -2, -np.inf, 0, 3], np.float32)),
    "the largest few of each of many rows": (lambda x: lax.top_k(x, 11), ints(60, 300, 40).astype(np.float32)),
    "sums over a few whole arrays": (lambda x, y: ((x * 2).sum(0), y.max(0)), floats(5, 3, 150, 40), floats(3, 1280)),
    "sums over many rows of few columns": (lambda x, y: (x.sum((0, 1)), x.var((0, 1)), y.astype(jnp.float32).sum((0, 1))), 1 + floats(90, 100, 24), (1 + floats(90, 100, 24)).astype(jnp.bfloat16)),
    "place of the smallest": (lambda x: jnp.argmin(x, axis=0), floats(31, 4)),
    "sums of integers": (lambda x: x.sum(1), ints(2**28, 5, 11, low=-(2**28))),
    "whole numbers divided": (divided, WHOLE[:, None].view(np.int32), WHOLE[None].view(np.int32)),
    "the same without a sign": (divided, WHOLE[:, None], WHOLE[None]),
    "by a number": (lambda a: (a // 24, a % 24, a // 8, a % -7), ints(2**31 - 1, 40, 9, low=-(2**31))),
    "by numbers small and large": (
        lambda a: [f(a, np.int32(d)) for d in (2, 3, 7, 1000, 65537, 2**30 + 1, 2**31 - 1) for f in (jnp.floor_divide, jnp.mod, lax.div, lax.rem)],
        np.concatenate([ints(2**31 - 1, 400, low=-(2**31)), WHOLE.view(np.int32), np.arange(-40, 40, dtype=np.int32), np.int32([2**31 - 1, -(2**31), -(2**31) + 1, 2**30 + 1, -(2**30) - 1])])),
    "bytes by a number": (lambda a: (a // 3, a % 5, lax.div(a, np.int8(7)), lax.rem(a, np.int8(100))), np.arange(-128, 128).astype(np.int8)),
    "bytes divided": (divided, ints(128, 30, low=-128, dtype=np.int8), ints(128, 30, low=1, dtype=np.int8)),
    "products of bytes": (lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32), ints(127, 5, 600, low=-128, dtype=np.int8), ints(127, 600, 7, low=-128, dtype=np.int8)),
    "uniform numbers": (at_key(lambda key: jax.random.uniform(key, (5, 7))), KEY),
    "normal numbers": (at_key(lambda key: jax.random.normal(key, (5, 7))), KEY),
    "scan": (lambda x, w: lax.scan(lambda c, wi: (jnp.tanh(c @ wi), c.sum()), x, w), floats(4, 8), floats(5, 8, 8)),
    "multiplies that fill PSUM in every turn of a loop": (lambda x, w: lax.scan(lambda c, wi: (jnp.tanh(c @ wi) @ wi.T, c.sum()), x, w), floats(4, 1500), 0.02 * floats(2, 1500, 1400)),
    "largest of no columns": (lambda x: (jnp.argmax(x, 0), x.sum(1)), floats(3, 0, 2)),
    "sums into known places": (lambda x, y: x.at[1:-1, 2].add(y).at[3:5].multiply(2).at[0].set(7), floats(9, 6), floats(7)),
    "histogram": (lambda x: jnp.bincount(jnp.abs(x * 9).astype(jnp.int32), length=20), floats(300)),
    "loop with weights of its own": (lambda x, w, v: lax.scan(lambda c, xi: (jnp.tanh(c @ w + xi @ v), c.sum()), x[0], x), floats(6, 4, 150), 0.1 * floats(150, 150), 0.1 * floats(150, 150)),
    "loop in a loop with weights of its own": (lambda x, w: lax.fori_loop(0, 3, lambda i, c: lax.fori_loop(0, 2, lambda j, d: jnp.tanh(d @ w) + j, c * 2) + i, x), floats(4, 150), 0.1 * floats(150, 150)),
    "loop that swaps": (lambda x, y: lax.fori_loop(0, 3, lambda i, c: (c[1], c[0] + i), (x, y)), floats(4, 8), floats(4, 8)),
    "loop until": (lambda x: lax.while_loop(lambda c: c[0].sum() < 1000, lambda c: (c[0] * 2, c[1] + 1), (jnp.abs(x), jnp.int32(0))), floats(4, 8)),
    "branch": (lambda p, x: lax.cond(p > 0, lambda x: x * 2, lambda x: x - 1, x), np.float32(1), floats(4, 8)),
    "branch out of range": (lambda p, x: lax.switch(p, [lambda x: x * 2, lambda x: x - 1, lambda x: x @ x.T @ x], x), np.int32(7), floats(4, 8)),
    "branches that need one number": (lambda p, x: [lax.cond(q > 0, lambda x: jnp.log1p(x), lambda x: jnp.log1p(2 * x), jnp.abs(x)) for q in (p, -p)], np.float32(1), floats(4, 8)),
    "pairs turned, neighbours of each other": (
        lambda x, c, s: jnp.stack([x[..., ::2] * c - x[..., 1::2] * s, x[..., ::2] * s + x[..., 1::2] * c], -1).reshape(x.shape), floats(70, 3, 64), floats(70, 1, 32), floats(70, 1, 32)),
    "results side by side in runs": (
        lambda x, y: (jnp.stack([x, jnp.tanh(y), x], -1), jnp.concatenate([x.reshape(40, 36, 4) + 1, y.reshape(40, 36, 4)], -1), jnp.stack([x.reshape(40, 12, 12), 2 * y.reshape(40, 12, 12)], 2)),
        floats(40, 144), floats(40, 144)),
    "every few columns, from several starts": (lambda x: (x[:, ::3] + x[:, 1::3] * x[:, 2::3], x[::2, 5::7] * 2, x[:, :70] - x[:, 70:140]), floats(150, 240)),
    "words by numbers": (lambda a: (a ^ -5, a | 0x70000001, a & -16, a + 7, 9 - a, a * 3, (a << 5) | lax.shift_right_logical(a, 27), jnp.maximum(a, -2)), ints(2**31 - 1, 40, 9, low=-(2**31))),
    "random bits by Philox": (lambda k: jax.lax.rng_bit_generator(k, (7, 6), algorithm=jax.lax.RandomAlgorithm.RNG_PHILOX), np.array([1, 2**32 - 1, 2**32 - 2, 2**32 - 1], np.uint32)),
    "random bits by Threefry": (lambda k: jax.lax.rng_bit_generator(k, (7, 6), algorithm=jax.lax.RandomAlgorithm.RNG_THREE_FRY), np.array([1, 2, 2**32 - 3, 4], np.uint32)),
    "inverse functions": (lambda x: (jnp.arctan(x), jnp.arcsin(x / 8), jnp.arccos(x / 8), jnp.arcsinh(x), jnp.arccosh(1 + abs(x)), jnp.arctanh(x / 8), jnp.arctan2(x, x[::-1])), floats(8, 8)),
    "cross-entropy": (crossed, floats(140, 300), ints(300, 140)),
    "cross-entropy over a vocabulary": (crossed, floats(2, 70, 9001), ints(9001, 2, 70)),
    "its gradient over a vocabulary": (
        jax.value_and_grad(lambda x, i: crossed(x, i)[0]), floats(130, 9001), ints(9001, 130)),
    "its gradient in a batch of one": (
        jax.value_and_grad(lambda x, i: crossed(x, i)[0]), floats(1, 130, 5001), ints(5001, 1, 130)),
    "cross-entropy of a product": (
        jax.value_and_grad(lambda w, x, i: crossed(x @ w, i)[0]), floats(32, 5000) / 6, floats(130, 32), ints(5000, 130)),
    "likelihood of targets": (jax.value_and_grad(likelihood), floats(130, 9001), ints(9001, 130)),
    "sums of exponentials of what has no end": (
        lambda x, i: [jnp.nan_to_num(v, nan=7, posinf=1e9, neginf=-1e9) for v in (jax.nn.softmax(x), jnp.exp(x - x.max(-1, keepdims=True)).sum(-1), jnp.take_along_axis(x, i[:, None], -1))],
        logits(70, 9001), ints(9001, 70)),
    "reductions of the same rows": (
        lambda x: (x.max(-1), x.sum(-1), (x * x).sum(-1), (x - x.mean(-1, keepdims=True)).min(-1)), floats(130, 9001)),
    "targets out of bounds": (
        lambda x, i: [jnp.nan_to_num(v, nan=7) for v in crossed(x, i)], floats(70, 5000), ints(9000, 70, low=-9000)),
    "numbers rounded to bytes": (
        lambda x: [f(v).astype(t) for v in (x, x.astype(jnp.bfloat16), x * 100) for f, t in (
            (jnp.round, jnp.int8), (lambda v: jnp.clip(jnp.round(v), -7, 7), jnp.int8), (jnp.floor, jnp.int32),
            (lambda v: jnp.clip(v, -7.5, 7.5), jnp.int8), (lambda v: jnp.maximum(jnp.ceil(v), 0), jnp.uint8))],
        np.concatenate([floats(3, 40) * 9, np.arange(-20, 20)[None] / 2 + np.zeros((1, 1), np.float32)]).astype(np.float32)),
}


@pytest.fixture(scope="module")
def expected():
    """What JAX computes on the CPU, and the program it computes; once for all chips."""

    @functools.cache
    def of(name):
        f, *args = CASES[name]
        with jax.default_device(jax.devices("cpu")[0]):
            lowered = jax.jit(f).lower(*args)
            want = jax.tree.leaves(lowered.compile()(*args))
        return str(lowered.compiler_ir("stablehlo")).encode(), args, [np.asarray(w) for w in want]

    return of


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", CASES)
def test_instructions_compute_what_jax_does(name, chip, expected):
    artifact, args, want = expected(name)
    program = _core.compile_device(artifact, chip).program
    ran = program.run({f"arg{i}": np.asarray(a) for i, a in enumerate(args)}, chip)
    assert not ran.findings
    for i, w in enumerate(want):
        got = np.asarray(ran.outputs[f"out{i}"]).reshape(w.shape)
        if np.issubdtype(w.dtype, np.integer):
            assert np.array_equal(got, w)
        else:
            assert np.allclose(got, w, rtol=1e-3, atol=1e-4)


# What the host does in the middle, and the parts that makes: D on the device, H on the host.
SPLIT = {
    "nothing": ("D", lambda x: x @ x + 1),
    "a transform in the middle": ("DHD", lambda x: jnp.fft.fft(x @ x).real * 2),
    "at the end": ("DH", lambda x: jnp.linalg.eigvalsh(x + x.T)),
    "all of it": ("H", lambda x: jnp.linalg.svd(x)[1]),
    "with constants and inputs given back": (
        "DHD", lambda x: (jnp.linalg.cholesky(x @ x.T + 16 * jnp.eye(16)) @ x, jnp.arange(5), x)),
    "integers divided": ("D", lambda x: x * (jnp.abs(x * 100).astype(jnp.int32) // (1 + jnp.arange(16)))),
    "twice": ("DHDHDHD", lambda x: jnp.linalg.solve(x + 20 * jnp.eye(16), jnp.tanh(jnp.linalg.solve(x - 20 * jnp.eye(16), x))) + x),
}  # fmt: skip


@pytest.mark.parametrize("name", SPLIT)
def test_what_the_device_does_not_compute_the_host_does(name):
    parts, f = SPLIT[name]
    x = floats(16, 16)
    with jax.default_device(jax.devices("cpu")[0]):
        want = [np.asarray(w) for w in jax.tree.leaves(jax.jit(f)(x))]
    lowered = jax.jit(f).trace(x).lower(lowering_platforms=("neuron",))
    compiled = _core.compile_device(str(lowered.compiler_ir("stablehlo")).encode(), "trn2")
    assert "".join("H" if p["on_host"] else "D" for p in compiled.parts) == parts
    assert bool(compiled.host_placed) == ("H" in parts) and all(h["reason"] for h in compiled.host_placed)
    got, findings, _ = compiled.run([x], "trn2")
    assert not findings
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype and np.allclose(g, w, rtol=1e-3, atol=1e-4)


def test_a_report_adds_up_the_parts_and_names_what_the_host_does():
    import trine

    shape = jax.ShapeDtypeStruct((64, 64), jnp.float32)
    whole = trine.report(jax.jit(lambda x: jnp.linalg.cholesky(x @ x.T) @ x), shape, instance="trn2.3xlarge")
    half = trine.report(lambda x: x @ x.T, shape, instance="trn2.3xlarge")
    assert whole.time_ns > 1.9 * half.time_ns
    assert any("cholesky" in m and "host" in m for m in whole.messages) and not half.messages
    with pytest.raises(ValueError, match="nothing of it runs on the device"):
        trine.report(jax.jit(lambda x: jnp.linalg.svd(x)[1]), shape, instance="trn2.3xlarge")


def test_what_every_turn_of_a_loop_reads_is_read_once():
    def steps(x, w):
        return lax.scan(lambda c, xi: (jnp.tanh(c @ w + xi), None), x[0], x)[0]

    x, w = jax.ShapeDtypeStruct((64, 32, 512), jnp.float32), jax.ShapeDtypeStruct((512, 512), jnp.float32)
    assert trine.report(steps, x, w, instance="trn1.2xlarge").hbm_read_bytes < 64 * 4 * w.size / 3


def test_a_scan_over_layers_stays_a_loop():
    import trine

    def layers(x, weights):
        return lax.scan(lambda c, w: (jnp.tanh(c @ w) + c, None), x, weights)[0]

    def report(count):
        shapes = [jax.ShapeDtypeStruct(s, jnp.float32) for s in ((128, 256), (count, 256, 256))]
        return trine.report(layers, *shapes, instance="trn1.2xlarge")

    few, many = report(16), report(400)
    assert len(few.program.disassemble().splitlines()) == len(many.program.disassemble().splitlines())
    assert many.time_ns > 15 * few.time_ns


def test_totals_and_long_lists_fill_the_partitions():
    import trine

    shape = jax.ShapeDtypeStruct((2048, 2048), jnp.float32)
    functions = lambda x: (x * x).sum(), lambda x: x.reshape(-1) * 2, lambda x: x + 1
    total, listed, copy = (trine.report(f, shape, instance="trn1.2xlarge").time_ns for f in functions)
    assert total < copy and listed < 1.1 * copy


# How many times as long as reading and writing as much, at most.
REDUCTIONS = {
    "place of the largest over a vocabulary": (lambda x: jnp.argmax(x, -1), (16, 128256), 3),
    "place of the largest of all": (jnp.argmax, (2048, 2048), 3),
    "likelihoods over a vocabulary": (jax.nn.log_softmax, (16, 128256), 3),
    "the largest few of a vocabulary": (lambda x: lax.top_k(x, 50), (4, 128256), 8),
    "the largest over rows": (lambda x: x.max(0), (2048, 2048), 2),
    "the largest over a middle dim": (lambda x: x.max(1), (16, 512, 512), 2),
    "images normed over the batch": (lambda x: normed(x, (0, 1, 2)), (8, 64, 64, 128), 3),
    "groups of channels normed": (lambda x: normed(x.reshape(2, 96, 96, 32, 10), (1, 2, 4)), (2, 96, 96, 320), 3),
    "running sums": (lambda x: jnp.cumsum(x, 1), (2048, 2048), 1.5),
    "softmax of short rows": (jax.nn.softmax, (1 << 19, 8), 3),
    "a list of prime length": (lambda x: x + 1, (4194301,), 1.5),
    "sort": (lambda x: jnp.sort(x), (128, 128), 3),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_fill_the_partitions(name):
    f, shape, most = REDUCTIONS[name]
    copy = trine.report(lambda x: x + 1, jax.ShapeDtypeStruct((128, int(np.prod(shape)) // 128), jnp.float32), instance="trn2.3xlarge")
    done = trine.report(f, jax.ShapeDtypeStruct(shape, jnp.float32), instance="trn2.3xlarge")
    assert not done.messages and done.time_ns < most * copy.time_ns


def test_neighbours_that_go_apart_move_in_long_runs():
    half, whole = (jax.ShapeDtypeStruct((1024, 8, n), jnp.bfloat16) for n in (64, 128))
    turned = lambda x, c: jnp.stack([x[..., ::2] * c - x[..., 1::2], x[..., ::2] + x[..., 1::2] * c], -1).reshape(x.shape)
    plain, apart, odd = (
        trine.report(f, *shapes, instance="trn1.2xlarge").time_ns
        for f, *shapes in ((lambda x: x * 2, whole), (turned, whole, half), (lambda x: x[..., ::2] * 2, whole)))  # fmt: skip
    assert apart < 4 * plain and odd < plain


# Logits are read once; a gradient reads those that fit no more often, and writes as much.
@pytest.mark.parametrize("columns, reads", [(2048, 1), (32000, 1), (128256, 2)])
def test_cross_entropy_goes_once_over_logits(columns, reads):
    shapes = jax.ShapeDtypeStruct((512, columns), jnp.bfloat16), jax.ShapeDtypeStruct((512,), jnp.int32)
    lost = lambda x, i: crossed(x, i)[1].mean()
    once = 512 * columns * 2
    forward, both = (trine.report(f, *shapes, instance="trn1.2xlarge") for f in (lost, jax.value_and_grad(lost)))
    assert forward.hbm_read_bytes < 1.1 * once and forward.hbm_write_bytes < 0.1 * once
    assert both.hbm_read_bytes < (reads + 0.1) * once and both.hbm_write_bytes < 1.1 * once
    one = trine.report(jax.value_and_grad(lost), *(jax.ShapeDtypeStruct((1, *s.shape), s.dtype) for s in shapes), instance="trn1.2xlarge")
    assert one.time_ns == both.time_ns


def test_places_of_rows_are_found_on_chip():
    x, i = jax.ShapeDtypeStruct((512, 512), jnp.float32), jax.ShapeDtypeStruct((512, 512), jnp.int32)
    found, columns, copied = (trine.report(f, x, i, instance="trn1.2xlarge").time_ns for f in (
        lambda x, i: jnp.take_along_axis(x, i, 1), lambda x, i: x[:, i[0]], lambda x, i: x + i))  # fmt: skip
    assert found < 4 * copied and columns < 4 * copied


def test_kernels_of_single_channels_run_on_the_tensor_engine():
    x, k = jax.ShapeDtypeStruct((2, 32, 32, 128), jnp.float32), jax.ShapeDtypeStruct((3, 3, 1, 128), jnp.float32)
    one = functools.partial(conv, feature_group_count=128, dimension_numbers=("NHWC", "HWIO", "NHWC"))
    made, copied = (trine.report(f, x, k, instance="trn1.2xlarge") for f in (one, lambda x, k: x + k[0, 0]))
    assert made.time_ns < 4 * copied.time_ns and made.engines["tensor"].busy_ns > made.engines["vector"].busy_ns


@pytest.mark.parametrize("chip", CHIPS)
def test_rows_of_a_window_of_few_channels_are_turned_together(chip):
    """Seven rows of seven pixels of three: two chunks for the tensor engine, one transfer for each row of the result."""
    stem = lambda p, x: jnp.maximum(conv(x, p["k"], (2, 2), ((3, 3), (3, 3)), **NHWC) + p["b"], 0)  # noqa: E731
    p, x = {"k": floats(7, 7, 3, 16), "b": floats(16)}, floats(2, 30, 44, 3)
    run = trine.Exact(stem, p, x, chip=chip, weights=[0])
    assert np.allclose(run(p, x), stem(p, x), rtol=1e-3, atol=1e-4)
    assert _core.time(run.program, INSTANCES[chip]).report()["transfers"] < 3 * 2 * 15


def test_what_follows_a_convolution_reads_its_sums_in_psum():
    def block(x, k, a, b):
        return jnp.maximum(conv(x, k, **NHWC) * a + b, 0)

    shapes = [jax.ShapeDtypeStruct(s, jnp.float32) for s in ((2, 14, 14, 256), (1, 1, 256, 256), (256,), (256,))]
    lines = trine.report(block, *shapes, instance="trn1.2xlarge").program.disassemble().splitlines()
    sums = {re.search(r"dst=(\S+)", line)[1] for line in lines if "nc_matmul" in line}
    of_sums = [line for line in lines if any(f"{slot}={t} " in line for slot in ("data", "src") for t in sums)]
    assert len(of_sums) == len(sums) == 2 and all("op=relu" in line and "scale=" in line and "bias=" in line for line in of_sums)


def test_ways_that_depend_on_data_are_timed():
    x, p = jax.ShapeDtypeStruct((256, 256), jnp.float32), jax.ShapeDtypeStruct((), jnp.float32)
    report = functools.partial(trine.report, instance="trn1.2xlarge")
    long, short = (lambda x: x @ x @ x), (lambda x: x - 1)
    alone = report(long, x).time_ns
    for f in (lambda p, x: lax.cond(p > 0, long, short, x), lambda p, x: lax.cond(p > 0, short, long, x)):
        either = report(f, p, x)
        assert alone < either.time_ns < 1.3 * alone and str(either).count("the longest of 2 is timed") == 1
    until = report(lambda x: lax.while_loop(lambda c: c.sum() < 1000, long, x), x)
    assert alone < until.time_ns < 2 * alone and any("one trip is timed" in m for m in until.messages)


def test_a_donated_argument_that_is_given_back_is_not_copied():
    x, y = floats(64, 32), floats(8)
    lowered = jax.jit(lambda x, y: (x, y + x.sum()), donate_argnums=0).lower(x, y)
    program = _core.compile_device(str(lowered.compiler_ir("stablehlo")).encode(), "trn1").program
    ran = program.run({"arg0": x, "arg1": y}, "trn1")
    assert not ran.findings and np.array_equal(np.asarray(ran.outputs["out0"]), x)
    assert np.allclose(ran.outputs["out1"], y + x.sum(), rtol=1e-3, atol=1e-4)
    assert not any("dma_copy dst=out0" in line for line in program.disassemble().splitlines())


def test_exact_gives_back_what_the_function_does():
    def step(params, x):
        return {"y": jnp.tanh(x @ params["w"]) + params["b"], "n": (x > 0).sum()}

    params, x = {"w": floats(8, 16), "b": floats(16)}, floats(4, 8)
    run = trine.Exact(step, params, x, chip="trn2", weights=[0])
    for params in (params, params, jax.tree.map(lambda p: p + 1, params)):  # kept weights, and others
        got, want = run(params, x), step(params, x)
        assert got["y"].shape == (4, 16) and np.allclose(got["y"], want["y"], rtol=1e-3, atol=1e-4) and int(got["n"]) == int(want["n"])
        assert not run.findings and not run.host_placed


@pytest.mark.parametrize("chip", CHIPS)
def test_parts_of_a_weight_that_data_chooses_are_read_where_they_lie(chip):
    def chosen(w, x, i):
        return jnp.einsum("cw,cwf->cf", x, w.at[i].get(mode="promise_in_bounds"))

    w, x, i = floats(5, 300, 280), floats(3, 300), np.array([4, 0, 4], np.int32)
    run = trine.Exact(chosen, w, x, i, chip=chip, weights=[0])
    np.testing.assert_allclose(run(w, x, i), np.einsum("cw,cwf->cf", x, w[i]), rtol=1e-4, atol=1e-4)
    moved = _core.time(run.program, INSTANCES[chip]).report()
    assert moved["hbm_write_bytes"] < w[i].nbytes / 4


def test_exact_leaves_to_the_host_what_the_device_has_not():
    x = floats(16)
    run = trine.Exact(lambda x: jnp.abs(jnp.fft.fft(x * 2)) + 1, x, chip="trn1")
    assert np.allclose(run(x), np.abs(np.fft.fft(x * 2)) + 1, rtol=1e-3, atol=1e-3)
    assert {h["op"] for h in run.host_placed} >= {"fft"}
    with pytest.raises(ValueError, match="error NCC_EVRF004: complex numbers"):
        _ = run.compiled.program
