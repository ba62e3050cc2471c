"""Attention over latent keys (MLA): one narrow vector per token stands for the keys and values of all heads.

The cache holds that vector and the part of the key that turns with the position, on every core alike. A prompt's keys
are made of it head by head; one token's query is brought into its space instead, so that nothing is made of the cache.
"""

import jax
import jax.numpy as jnp

from trine.models import parameters as p
from trine.models.layers import attend, copied, dense, dense_rows, norm, rotate
from trine.models.stored import whole

EPS = 1e-6  # of the norms inside, whatever the configuration says of the others


def parameters(c):
    s = c.latent
    tree = {
        "kv_down": p.dense(c.width, s.rank + s.rotated, c.qkv_bias),
        "kv_norm": p.norm(s.rank, "rms"),
        "k_up": p.dense(s.rank, c.heads * s.still, False, "columns", c.heads),
        "v_up": p.dense(s.rank, c.heads * s.values, False, "columns", c.heads),
        "q": p.dense(s.q_rank or c.width, c.heads * (s.still + s.rotated), False, "columns", c.heads),
        "o": p.dense(c.heads * s.values, c.width, c.o_bias, "rows", c.heads),
    }
    if s.q_rank:
        tree |= {"q_down": p.dense(c.width, s.q_rank, c.qkv_bias), "q_norm": p.norm(s.q_rank, "rms")}
    return tree


def cache_shapes(c, batch, length):
    return {"latent": (batch, length, 1, c.latent.rank), "turned": (batch, length, 1, c.latent.rotated)}


def queries(layer, c, x, axis):
    """(the part that stays, the part that turns), each [batch, seq, heads, dims]"""
    s = c.latent
    x = norm(layer["q_norm"], dense(layer["q_down"], x), EPS) if s.q_rank else x
    q = dense(layer["q"], copied(x, axis))
    q = q.reshape(*q.shape[:2], -1, s.still + s.rotated)
    return q[..., : s.still], q[..., s.still :]


@jax.named_scope("attention")
def attention(layer, c, x, angles, mask, cache, put, axis):
    """`put` adds new entries to a cache."""
    s = c.latent
    still, rotating = queries(layer, c, x, axis)
    kv = dense(layer["kv_down"], x)
    latent = norm(layer["kv_norm"], kv[..., : s.rank], EPS)[:, :, None]
    rotated = rotate(kv[:, :, None, s.rank :], angles)
    rotating = rotate(rotating, angles)
    if cache is not None:
        cache = {"latent": put(cache["latent"], latent), "turned": put(cache["turned"], rotated)}
        latent, rotated = cache["latent"], cache["turned"]
    latent, rotated = copied(latent, axis), copied(rotated, axis)
    scale = c.score_scale or (s.still + s.rotated) ** -0.5
    k_up, v_up = (whole(layer[name]["w"], x.dtype).reshape(s.rank, -1, dim) for name, dim in (("k_up", s.still), ("v_up", s.values)))
    if x.shape[1] == 1 and cache is not None:
        q = jnp.concatenate([jnp.einsum("bqhd,rhd->bqhr", still, k_up), rotating], -1)
        y = attend(q, jnp.concatenate([latent, rotated], -1), latent, mask, scale)
        y = jnp.einsum("bqhr,rhv->bqhv", y.reshape(*q.shape[:3], s.rank), v_up)
        y = y.reshape(*y.shape[:2], -1)
    else:
        k = jnp.einsum("bkr,rhd->bkhd", latent[:, :, 0], k_up)
        k = jnp.concatenate([k, jnp.broadcast_to(rotated, (*k.shape[:3], s.rotated))], -1)
        v = jnp.einsum("bkr,rhv->bkhv", latent[:, :, 0], v_up)
        y = attend(jnp.concatenate([still, rotating], -1), k, v, mask, scale)
    return dense_rows(layer["o"], y, axis), cache
