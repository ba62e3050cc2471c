"""Layers that the models share. A layer is a function of its parameters and its input, nothing more.

`axis` names the mesh axis that tensor parallelism is over, inside shard_map; None where a core has the whole model.
Sizes are read off the parameters, so that the same functions serve a whole model and one core's part of it.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from trine.models.reading import ConfigError
from trine.models.stored import times

class Named(dict):
    """Functions by the names that configurations give them."""

    def __missing__(self, name):
        raise ConfigError(f'an activation "{name}"; known are {", ".join(self)}')


ACTIVATIONS = Named({
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_new": lambda x: jax.nn.gelu(x, approximate=True),
    "quick_gelu": lambda x: x * jax.nn.sigmoid(1.702 * x),
    "silu": jax.nn.silu,
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "relu2": lambda x: jnp.square(jax.nn.relu(x)),
})


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _total(x, axis):
    return jax.lax.psum(x, axis)


_total.defvjp(lambda x, axis: (jax.lax.psum(x, axis), None), lambda axis, _, g: (g,))


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _copied(x, axis):
    return x


_copied.defvjp(lambda x, axis: (x, None), lambda axis, _, g: (jax.lax.psum(g, axis),))


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _collected(x, axis):
    return jax.lax.all_gather(x, axis, axis=x.ndim - 1, tiled=True)


def _own_part(axis, count, g):
    return (jax.lax.dynamic_slice_in_dim(g, jax.lax.axis_index(axis) * count, count, g.ndim - 1),)


_collected.defvjp(lambda x, axis: (_collected(x, axis), x.shape[-1]), _own_part)


def collected(x, axis, size):
    """The `size` last values of which each core has some, on every core, on the way into what all do alike."""
    return x if axis is None else _collected(x, axis)[..., :size]


def total(x, axis):
    """The sum over the cores of an axis; its gradient is the same on each."""
    return x if axis is None else _total(x, axis)


def copied(x, axis):
    """What every core has alike, on the way into what each has a part of: its gradient is the sum of theirs."""
    return x if axis is None else _copied(x, axis)


def gathered(x, axis, dealt):
    """All tokens of x[batch, tokens, ...] on every core, on the way into what each has a part of."""
    return jax.lax.all_gather(x, axis, axis=1, tiled=True) if dealt else copied(x, axis)


def summed(x, axis, dealt):
    """The sum over the cores: each gets all tokens, or those dealt to it."""
    return jax.lax.psum_scatter(x, axis, scatter_dimension=1, tiled=True) if dealt else total(x, axis)


def dense(params, x):
    y = times(x, params["w"])
    return y + params["b"] if "b" in params else y


def dense_rows(params, x, axis, dealt=False):
    """A dense layer whose inputs lie on the cores: partial products are added up, then the bias once."""
    y = summed(times(x, params["w"]), axis, dealt)
    return y + params["b"] if "b" in params else y


def norm(params, x, eps, plus_one=False, centred=False):
    """Layer norm where there is a bias or it is centred, else RMS norm; in f32 whatever the input is."""
    wide = x.astype(jnp.float32)
    if centred or "bias" in params:
        wide = wide - wide.mean(-1, keepdims=True)
    wide = wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + eps)
    y = wide.astype(x.dtype)
    if "scale" in params:
        y = y * (params["scale"] + 1 if plus_one else params["scale"])
    return y + params["bias"] if "bias" in params else y


def norm_split(params, x, eps, width, axis):
    """RMS norm over `width` values of which each core has some."""
    wide = x.astype(jnp.float32)
    square = copied(total((wide * wide).sum(-1, keepdims=True), axis), axis) / width
    return (wide * jax.lax.rsqrt(square + eps)).astype(x.dtype) * params["scale"]


def waves(positions, width):
    """[positions, width] sines, then cosines, of wavelengths up to 10,000 times 2 pi; in f32."""
    half = width // 2
    angles = positions.astype(jnp.float32)[:, None] * jnp.exp(jnp.arange(half, dtype=jnp.float32) * (-math.log(10000.0) / (half - 1)))
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], 1)


def rows(table, index):
    """Rows of a table by numbers that are in it: from zero on, nothing is counted from the end."""
    return table.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def embed(params, tokens, axis, dealt=False):
    """Rows of a table; with an axis each core has some of the rows and the others' tokens give zeros."""
    if axis is None:
        return rows(params["table"], tokens)
    count = params["table"].shape[0]
    at = tokens - jax.lax.axis_index(axis) * count
    mine = (at >= 0) & (at < count)
    found = rows(params["table"], jnp.where(mine, at, 0))
    return summed(jnp.where(mine[..., None], found, jnp.zeros_like(found)), axis, dealt)


def rope_frequencies(rope, head_dim, length):
    """(radians per position for each pair of dims that turns, factor of sine and cosine), for up to `length` positions."""
    dim = int(head_dim * rope.share)
    base = rope.theta ** (np.arange(0, dim, 2, dtype=np.float32) / np.float32(dim))
    frequency, attention = 1 / base, rope.attention or 1.0
    if rope.kind == "linear":
        frequency = frequency / rope.factor
    elif rope.kind == "llama3":
        wave = 2 * math.pi * base
        smooth = np.clip((rope.original / wave - rope.low) / (rope.high - rope.low), 0, 1)
        frequency = (1 - smooth) * frequency / rope.factor + smooth * frequency
    elif rope.kind == "yarn":
        bounds = [dim * math.log(rope.original / (b * 2 * math.pi)) / (2 * math.log(rope.theta)) for b in (rope.high, rope.low)]
        if not rope.whole:
            bounds = [math.floor(bounds[0]), math.ceil(bounds[1])]
        first, last = max(bounds[0], 0), min(bounds[1], dim - 1)
        unscaled = 1 - np.clip((np.arange(dim // 2) - first) / max(last - first, 0.001), 0, 1)
        frequency = frequency / rope.factor * (1 - unscaled) + frequency * unscaled
        attention = rope.attention or (0.1 * math.log(rope.factor) + 1 if rope.factor > 1 else 1.0)
    elif rope.kind == "longrope":
        frequency = frequency / np.asarray(rope.long if length > rope.original else rope.short, np.float32)
        attention = rope.attention or (math.sqrt(1 + math.log(rope.factor) / math.log(rope.original)) if rope.factor > 1 else 1.0)
        attention = rope.attention_long or attention if length > rope.original else attention
    return frequency.astype(np.float32), attention


def rope_angles(rope, head_dim, positions, length):
    """(cosine, sine) of positions[seq], in f32."""
    frequency, attention = rope_frequencies(rope, head_dim, length)
    angle = positions[:, None].astype(jnp.float32) * frequency
    return jnp.cos(angle) * attention, jnp.sin(angle) * attention


def three_angles(rope, head_dim, positions, length):
    """(cosine, sine)[batch, seq, pairs] of positions[3, batch, seq]: some pairs turn by each of the three."""
    frequency, attention = rope_frequencies(rope, head_dim, length)
    which = np.repeat(np.arange(len(rope.sections)) % 3, rope.sections)
    rotated = jnp.moveaxis(positions, 0, -1).astype(jnp.float32)[..., which]
    angle = rotated * frequency
    return jnp.cos(angle) * attention, jnp.sin(angle) * attention


def rotate(x, angles):
    """Turns the pairs (i, i + half) of the first dims of x[batch, seq, heads, dim] by angles[seq, pairs], or by each row's
    own [batch, seq, pairs]; what the angles do not cover stays."""
    cos, sin = angles[0][..., None, :], angles[1][..., None, :]
    half = cos.shape[-1]
    a, b = x[..., :half].astype(jnp.float32), x[..., half : 2 * half].astype(jnp.float32)
    rotated = [(a * cos - b * sin).astype(x.dtype), (b * cos + a * sin).astype(x.dtype)]
    return jnp.concatenate([*rotated, x[..., 2 * half :]] if 2 * half < x.shape[-1] else rotated, -1)


def attend(q, k, v, mask, scale=None, bias=None, cap=0.0, sinks=None):
    """softmax(q kT scale + bias) v over [batch, seq, heads, dim]; k and v may have fewer heads, shared by groups.

    mask: booleans that broadcast to [batch, 1, queries, keys], or None; False is not looked at.
    bias: [heads, queries or 1, keys], or None. cap: scores are kept between plus and minus this. sinks: a score per head
    that takes its share and gives nothing. Values may have other dims than keys.
    """
    batch, queries, heads, dim = q.shape
    groups = k.shape[2]
    q = q.reshape(batch, queries, groups, heads // groups, dim)
    scores = jnp.einsum("bqghd,bkgd->bghqk", q, k).astype(jnp.float32) * (dim**-0.5 if scale is None else scale)
    if cap:
        scores = cap * jnp.tanh(scores / cap)
    if bias is not None:
        scores = scores + bias.reshape(groups, heads // groups, *bias.shape[1:]).astype(jnp.float32)
    if mask is not None:
        scores = jnp.where(mask[:, :, None], scores, jnp.float32(-1e9))
    weights = (jax.nn.softmax(scores, -1) if sinks is None else with_sinks(scores, sinks)).astype(v.dtype)
    return jnp.einsum("bghqk,bkgd->bqghd", weights, v).reshape(batch, queries, heads * v.shape[-1])


def with_sinks(scores, sinks):
    """The softmax over scores[batch, groups, heads, queries, keys] and one more of each head, which is then left out."""
    sink = sinks.reshape(*scores.shape[1:3], 1, 1).astype(jnp.float32)
    most = jax.lax.stop_gradient(jnp.maximum(scores.max(-1, keepdims=True), sink))
    weights = jnp.exp(scores - most)
    return weights / (weights.sum(-1, keepdims=True) + jnp.exp(sink - most))


def alibi_slopes(heads):
    """One slope per head: powers of two, and for counts between two powers every other one of the finer row."""
    whole = 2 ** math.floor(math.log2(heads))

    def row(count):
        return [2 ** (-8 * (i + 1) / count) for i in range(count)]

    return np.asarray(row(whole) + row(2 * whole)[::2][: heads - whole], np.float32)


def relative_buckets(distance, buckets, furthest, causal):
    """T5's bucket of each distance key - query: exact when near, by its logarithm when far."""
    result = jnp.zeros_like(distance)
    if causal:
        distance = -jnp.minimum(distance, 0)
    else:
        buckets //= 2
        result = jnp.where(distance > 0, buckets, 0)
        distance = jnp.abs(distance)
    exact = buckets // 2
    ratio = jnp.log(jnp.maximum(distance, 1).astype(jnp.float32) / exact) / math.log(furthest / exact)
    far = jnp.minimum(exact + (ratio * (buckets - exact)).astype(jnp.int32), buckets - 1)
    return result + jnp.where(distance < exact, distance, far)
