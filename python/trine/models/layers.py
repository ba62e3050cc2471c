"""Layers that the models share. A layer is a function of its parameters and its input, nothing more."""

import jax
import jax.numpy as jnp


def dense_init(key, inputs, outputs, bias=True, scale=0.02, dtype=jnp.float32):
    params = {"w": (jax.random.normal(key, (inputs, outputs)) * scale).astype(dtype)}
    if bias:
        params["b"] = jnp.zeros((outputs,), dtype)
    return params


def dense(params, x):
    y = x @ params["w"]
    return y + params["b"] if "b" in params else y


def norm_init(width, kind, dtype=jnp.float32):
    params = {"scale": jnp.ones((width,), dtype)}
    if kind == "layer":
        params["bias"] = jnp.zeros((width,), dtype)
    return params


def norm(params, x, eps):
    """Layer norm where there is a bias, RMS norm where there is none; in f32 whatever the input is."""
    wide = x.astype(jnp.float32)
    if "bias" in params:
        wide = wide - wide.mean(-1, keepdims=True)
    wide = wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + eps)
    y = wide.astype(x.dtype) * params["scale"]
    return y + params["bias"] if "bias" in params else y


def rope(x, positions, theta):
    """Rotates pairs (i, i + half) of the last dim of x[batch, seq, heads, dim] by angles of the position."""
    half = x.shape[-1] // 2
    frequency = theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = positions[..., None].astype(jnp.float32) * frequency
    sin, cos = jnp.sin(angle)[..., None, :], jnp.cos(angle)[..., None, :]
    a, b = x[..., :half].astype(jnp.float32), x[..., half:].astype(jnp.float32)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def attend(q, k, v, mask):
    """softmax(q kT / sqrt(dim)) v over [batch, seq, heads, dim]; k and v may have fewer heads, shared by groups.

    mask: booleans that broadcast to [batch, heads, queries, keys], or None; False is not looked at.
    """
    batch, queries, heads, dim = q.shape
    groups = k.shape[2]
    q = q.reshape(batch, queries, groups, heads // groups, dim)
    scores = jnp.einsum("bqghd,bkgd->bghqk", q, k).astype(jnp.float32) * dim**-0.5
    if mask is not None:
        scores = jnp.where(mask[:, :, None], scores, jnp.float32(-1e9))
    weights = jax.nn.softmax(scores, -1).astype(v.dtype)
    return jnp.einsum("bghqk,bkgd->bqghd", weights, v).reshape(batch, queries, heads * dim)
