"""The transformer block of every family: attention and MLP around norms, as the settings say.

`parameters` and `block` are two views of one thing; the tree of the first is what the second takes. Each layer of a
model calls the same traced function, so that a program of eighty layers holds one of them.
"""

import functools

import jax
import jax.numpy as jnp

from trine.models import disentangled, experts, griffin, latent, recurrent
from trine.models import parameters as p
from trine.models.layers import ACTIVATIONS, attend, copied, dense, dense_rows, gathered, norm, norm_split, rotate
from trine.models.stored import times


def attention_parameters(c):
    dim = c.head_dim // 2 if c.share == "keys" else c.head_dim  # of what a core has of a head
    queries, keys = c.heads * dim, c.kv_heads * dim
    shared = dict(split="columns", parts=c.kv_heads, groups=c.groups)
    tree = {
        "q": p.dense(c.width, queries, c.qkv_bias, "columns", c.heads, c.groups),
        "k": p.dense(c.width, keys, c.qkv_bias if c.k_bias is None else c.k_bias, **shared),
        "v": p.dense(c.width, keys, c.qkv_bias, **shared),
        "o": p.dense(queries, c.width, c.o_bias, "rows", c.heads, c.groups),
    }
    if c.qk_norm in ("head", "after"):
        tree |= {"q_norm": p.norm(c.head_dim, c.norm), "k_norm": p.norm(c.head_dim, c.norm)}
    if c.qk_norm in ("whole", "own"):
        tree["q_norm"] = p.norm(queries, c.norm, 0, c.heads, c.groups)
        tree["k_norm"] = p.norm(keys, c.norm, 0, c.kv_heads, c.groups)
    if c.sinks:
        tree["sinks"] = {"table": p.Parameter((c.heads,), "zeros", split=0, parts=c.heads, groups=c.groups)}
    return tree


MIXERS = {
    "attention": attention_parameters,
    "latent": latent.parameters,
    "convolution": recurrent.convolution_parameters,
    "state": recurrent.state_parameters,
    "recurrence": griffin.parameters,
    "both": lambda c: attention_parameters(c) | {"state": recurrent.state_parameters(c)},
    "distances": lambda c: disentangled.parameters(c, attention_parameters(c)),
}


def block_parameters(c):
    """Of a layer whose settings are c."""
    count = c.experts or None
    tree = MIXERS[c.mixer](c) | ({"norm1": p.norm(c.width, c.norm)} if c.first_norm else {})
    if c.block == "bare":
        return tree
    tree |= {
        "up": p.dense(c.width, c.ffn, c.mlp_bias, "columns", count=count),
        "down": p.dense(c.ffn, c.width, c.mlp_bias, "rows", count=count),
    }
    if c.norms == 2:
        tree["norm2"] = p.norm(c.width, c.norm)
    if c.block == "sandwich":
        tree |= {"norm1_after": p.norm(c.width, c.norm), "norm2_after": p.norm(c.width, c.norm)}
    if c.gated:
        tree["gate"] = p.dense(c.width, c.ffn, c.mlp_bias, "columns", count=count)
    if c.experts:
        tree |= experts.parameters(c)
    if c.activation == "xielu":
        tree |= {name: {"table": p.Parameter((1,), "zeros")} for name in ("bend_up", "bend_down")}
    if c.layer_scale:
        tree |= {name: {"table": p.Parameter((c.width,), "ones")} for name in ("scale1", "scale2")}
    return tree


def layers_parameters(c):
    return [block_parameters(c.layer(i)) for i in range(c.layers)]


@jax.named_scope("norm")
def normed(params, c, x):
    return norm(params, x, c.eps, c.norm in ("rms1", "layer1"), c.norm in ("centred", "plain"))


def heads_of(x, c):
    return x.reshape(*x.shape[:2], -1, c.head_dim)


def normed_heads(layer, name, c, x, axis):
    """A projection of x as heads, with the norm some families have on it."""
    y = dense(layer[name], x)
    if c.clip:
        y = jnp.clip(y, -c.clip, c.clip)
    if c.qk_norm == "own":
        one, scale = {"scale": jnp.ones((), y.dtype)}, layer[name + "_norm"]["scale"]
        return normed(one, c, heads_of(y, c)) * heads_of(scale[None, None], c)
    if c.qk_norm == "whole":
        # Keys that several cores share are counted by each, so the sum over cores has as many copies of them.
        width = (c.heads if name == "q" else c.kv_heads) * c.head_dim
        copies = 1 if axis is None or name == "q" else max(1, jax.lax.axis_size(axis) * y.shape[-1] // width)
        y = norm_split(layer[name + "_norm"], y, c.eps, width * copies, axis)
    y = heads_of(y, c)
    return normed(copied(layer[name + "_norm"], axis), c, y) if c.qk_norm == "head" else y


def put(cache, new, at):
    """The cache with new keys or values from position `at` on."""
    return jax.lax.dynamic_update_slice(cache, new.astype(cache.dtype), (0, at, 0, 0), allow_negative_indices=False)


@jax.named_scope("attention")
def attention(layer, c, x, angles, mask, bias, cache, at, axis):
    x = gathered(x, axis, c.dealt)
    if c.share:
        shared = by_keys if c.share == "keys" else by_queries
        return shared(layer, c, x, angles, mask, bias, cache, at, axis)
    q, k = (normed_heads(layer, name, c, x, axis) for name in "qk")
    v = dense(layer["v"], x)
    v = heads_of(jnp.clip(v, -c.clip, c.clip) if c.clip else v, c)
    if angles is not None:
        q, k = rotate(q, angles), rotate(k, angles)
    if c.qk_norm == "after":
        q, k = (normed(copied(layer[name], axis), c, y) for name, y in (("q_norm", q), ("k_norm", k)))
    if cache is not None:
        cache = {"k": put(cache["k"], k, at), "v": put(cache["v"], v, at)}
        k, v = cache["k"], cache["v"]
    sinks = layer["sinks"]["table"] if c.sinks else None
    return dense_rows(layer["o"], attend(q, k, v, mask, c.score_scale or None, bias, c.score_cap, sinks), axis, c.dealt), cache


def scaled(x, factor):
    return x if factor == 1.0 else x * jnp.asarray(factor, x.dtype)


def mixed(layer, c, x, angles, mask, bias, cache, at, axis):
    """(what the layer's mixer gives, its cache)"""
    if c.mixer == "attention":
        return attention(layer, c, x, angles, mask, bias, cache, at, axis)
    if c.mixer == "distances":
        return disentangled.attention(layer, c, x, mask, bias, axis), None
    if c.mixer == "latent":
        return latent.attention(layer, c, x, angles, mask, cache, lambda old, new: put(old, new, at), axis)
    if c.mixer == "convolution":
        y, left = recurrent.convolution(layer, c, x, cache, axis)
    elif c.mixer == "state":
        y, left = recurrent.state(layer, c, x, cache, axis)
    elif c.mixer == "recurrence":
        y, left = griffin.recurrence(layer, c, x, cache, at, axis)
    else:
        into, out, of_state = c.attention_scales
        y, keys = attention(layer, c, scaled(x, into), angles, mask, bias, cache, at, axis)
        z, left = recurrent.state(layer["state"], c, x, cache, axis)
        y, left = scaled(y, out) + scaled(z, of_state), left | (keys or {})
    return y, None if cache is None else {name: value.astype(cache[name].dtype) for name, value in left.items()}


def of_pair(x, axis, dim):
    """What the two cores of a pair have, side by side."""
    pairs = [[i, i + 1] for i in range(0, jax.lax.axis_size(axis), 2)]
    return jax.lax.all_gather(x, axis, axis=dim, tiled=True, axis_index_groups=pairs)


def by_queries(layer, c, x, angles, mask, bias, cache, at, axis):
    """Attention of a core that has a head together with another: the middle half of the queries, while the other has the
    first and the last quarter, so that both look at as many keys. Tokens lie in that order, the pair's first half first.
    Times are taken from it; values need the other core's program, too."""
    half, quarter, cores = x.shape[1] // 2, x.shape[1] // 4, jax.lax.axis_size(axis)
    mine, before = x[:, :half], cache["k"].shape[1] - half
    q, k = (normed_heads(layer, name, c, mine, axis) for name in "qk")
    v = heads_of(dense(layer["v"], mine), c)
    if angles is not None:
        own = tuple(a[quarter : quarter + half] for a in angles)
        q, k = rotate(q, own), rotate(k, own)

    def seen(name, new):
        new = of_pair(new, axis, 1)
        old = [of_pair(cache[name][:, :before], axis, 1)] if before else []
        return jnp.concatenate([*old, new[:, half : half + quarter], new[:, :half], new[:, half + quarter :]], 1)

    mask = mask[:, :, quarter : quarter + half]
    y = attend(q, seen("k", k), seen("v", v), mask, c.score_scale or None, bias)
    y = times(y, layer["o"]["w"])
    cache = {"k": put(cache["k"], k, at // 2), "v": put(cache["v"], v, at // 2)}
    alike = [list(range(first, cores, 2)) for first in (0, 1)]
    if c.dealt:
        y = jax.lax.psum_scatter(y, axis, scatter_dimension=1, tiled=True, axis_index_groups=alike)
    else:
        y = of_pair(jax.lax.psum(y, axis, axis_index_groups=alike), axis, 1)
    return y + layer["o"]["b"] if "b" in layer["o"] else y, cache


def by_keys(layer, c, x, angles, mask, bias, cache, at, axis):
    """Attention of one query by a core that has a head together with another: half of its dims while it is projected, half
    of the keys while it looks at them. Times are taken from it: what the halves' averages weigh is left out."""
    own = [dense(layer[name], x) for name in "qkv"]
    q, k, v = jnp.split(of_pair(jnp.stack(own, 2), axis, 3), 3, 2)
    if c.qk_norm == "head":
        q, k = (normed(layer[name], c, y) for name, y in (("q_norm", q), ("k_norm", k)))
    if angles is not None:
        q, k = rotate(q, angles), rotate(k, angles)
    cache = {"k": put(cache["k"], k, at), "v": put(cache["v"], v, at)}
    seen = mask[..., : cache["k"].shape[1]]
    y = attend(q, cache["k"], cache["v"], seen, c.score_scale or None, bias if bias is None else bias[..., : seen.shape[-1]])
    y = jnp.split(of_pair(y[:, None], axis, 1).sum(1), 2, -1)[0]
    return dense_rows(layer["o"], y, axis), cache


@jax.named_scope("cross attention")
def cross_attention(layer, c, x, keys, mask, axis):
    """Looks at keys computed once from the other stack."""
    q = heads_of(dense(layer["q"], copied(x, axis)), c)
    return dense_rows(layer["o"], attend(q, keys["k"], keys["v"], mask, c.score_scale or None), axis)


def xielu(layer, axis, x):
    """Above zero a parabola, below it a bent exponential: how much each is bent is learned (arXiv 2411.13010)."""
    up, down = (jax.nn.softplus(copied(layer[name]["table"], axis)) for name in ("bend_up", "bend_down"))
    below = (jnp.expm1(jnp.minimum(x, -1e-6)) - x) * (0.5 + down)
    return jnp.where(x > 0, up * x * x, below) + 0.5 * x


@jax.named_scope("mlp")
def mlp(layer, c, x, axis):
    if c.experts:
        return experts.mixture(layer, c, x, axis)
    x = gathered(x, axis, c.dealt)
    act = functools.partial(xielu, layer, axis) if c.activation == "xielu" else ACTIVATIONS[c.activation]
    h = experts.gated(c, dense(layer["gate"], x), lambda: dense(layer["up"], x)) if c.gated else act(dense(layer["up"], x))
    return scaled(dense_rows(layer["down"], h, axis, c.dealt), c.mlp_scales[1])


def added(layer, c, x, y, which):
    """x and what a block adds, by the factors some families give it."""
    if c.layer_scale:
        y = y * layer["scale" + which]["table"]
    return x + scaled(y, c.residual)


def layer_scope(i, stack=""):
    """The name that everything in a layer has: where a program's time goes is told by these."""
    return jax.named_scope(f"{stack} layer {i}".lstrip())


@functools.partial(jax.jit, static_argnames=("c", "axis"))
def block(layer, c, x, angles=None, mask=None, bias=None, cache=None, at=0, cross=None, cross_mask=None, axis=None):
    """(x after one layer, its cache with the new keys and values)."""
    def attended(h):
        return mixed(layer, c, h, angles, mask, bias, cache, at, axis)

    if c.block == "parallel":
        h = normed(layer["norm1"], c, x)
        y, cache = attended(h)
        return x + y + mlp(layer, c, normed(layer["norm2"], c, x) if c.norms == 2 else h, axis), cache
    if c.block == "post":
        y, cache = attended(x)
        x = normed(layer["norm1"], c, x + y)
        if cross is not None:
            x = normed(layer["norm_cross"], c, x + cross_attention(layer["cross"], c, x, cross, cross_mask, axis))
        return normed(layer["norm2"], c, x + mlp(layer, c, x, axis)), cache
    if c.block == "normed":
        y, cache = attended(x)
        x = x + normed(layer["norm1"], c, y)
        return x + normed(layer["norm2"], c, mlp(layer, c, x, axis)), cache
    if c.block == "sandwich":
        y, cache = attended(normed(layer["norm1"], c, x))
        x = added(layer, c, x, normed(layer["norm1_after"], c, y), "1")
        return added(layer, c, x, normed(layer["norm2_after"], c, mlp(layer, c, normed(layer["norm2"], c, x), axis)), "2"), cache
    y, cache = attended(normed(layer["norm1"], c, x) if c.first_norm else x)
    x = added(layer, c, x, y, "1")
    if c.block == "bare":
        return x, cache
    if cross is not None:
        x = x + cross_attention(layer["cross"], c, normed(layer["norm_cross"], c, x), cross, cross_mask, axis)
    return added(layer, c, x, mlp(layer, c, normed(layer["norm2"], c, x), axis), "2"), cache


def layer_cache(c, batch, length, cores=1):
    """Shapes of what a layer keeps of the tokens before, on one core, by name."""
    if c.mixer == "latent":
        return latent.cache_shapes(c, batch, length)
    if c.mixer == "recurrence":
        return griffin.cache_shapes(c, batch, cores)
    left = recurrent.cache_shapes(c, batch, cores) if c.mixer != "attention" else {}
    if c.mixer in ("attention", "both"):
        left |= dict.fromkeys("kv", cache_shape(c, batch, length, cores))
    return left


# How the axes of a cache lie over the cores; the others' are whole on each.
CACHE_AXES = {"k": 2, "v": 2, "conv": 2, "state": 1}


def cache_shape(c, batch, length, cores=1):
    """Of the keys, or the values, of one layer on one core."""
    if c.share:
        return (batch, length // 2, 1, c.head_dim)
    keys = attention_parameters(c)["k"]["w"].on_core(cores)[-1]
    return (batch, length, keys // c.head_dim, c.head_dim)


def near_mask(length, window):
    """[1, 1, queries, keys]: a token sees those up to `window` before and after it."""
    at = jnp.arange(length)
    return (jnp.abs(at[:, None] - at[None]) <= window)[None, None]


def image_mask(positions, keys, window, images):
    """[batch, 1, queries, keys]: as causal_mask, but that tokens of one image see all of it."""
    at = jnp.arange(keys)[None]
    of_key = jnp.pad(images, ((0, 0), (0, keys - images.shape[1])), constant_values=-1)
    same = (images[:, :, None] == of_key[:, None]) & (images >= 0)[:, :, None]
    seen = (at <= positions[:, None])[None] | same
    return (seen & (at > positions[:, None] - window)[None] if window else seen)[:, None]


def causal_mask(positions, keys, window):
    """[1, 1, queries, keys]: what a query at each position may see."""
    at = jnp.arange(keys)[None]
    seen = at <= positions[:, None]
    return (seen & (at > positions[:, None] - window) if window else seen)[None, None]
