"""Losses and the AdamW optimiser, over any dictionary of parameters."""

import jax
import jax.numpy as jnp

from trine.models.layers import total


def picked(values, at):
    """One of the last dim's values at every position."""
    return jnp.take_along_axis(values, at[..., None], -1, mode="promise_in_bounds", wrap_negative_indices=False)[..., 0]


@jax.named_scope("loss")
def cross_entropy(logits, targets, axis=None, classes=None):
    """Mean over all positions whose target is not below zero, in f32.

    With an axis each core has some of the classes, the last one perhaps more than there are.
    """
    logits = logits.astype(jnp.float32)
    counted = targets >= 0
    at = jnp.where(counted, targets, 0)
    if axis is None:
        chosen = picked(logits, at)
        lost = jax.nn.logsumexp(logits, -1) - chosen
    else:
        mine = logits.shape[-1]
        first = jax.lax.axis_index(axis) * mine
        logits = jnp.where(first + jnp.arange(mine) < classes, logits, -1e30)
        highest = jax.lax.pmax(jax.lax.stop_gradient(logits.max(-1)), axis)
        summed = total(jnp.exp(logits - highest[..., None]).sum(-1), axis)
        here = (at >= first) & (at < first + mine)
        found = picked(logits, jnp.where(here, at - first, 0))
        lost = jnp.log(summed) + highest - total(jnp.where(here, found, 0.0), axis)
    return jnp.where(counted, lost, 0.0).sum() / jnp.maximum(counted.sum(), 1)


def adamw_init(params):
    def zeros():
        return jax.tree.map(lambda x: jnp.zeros(x.shape, jnp.float32), params)

    return {"mean": zeros(), "square": zeros(), "count": jnp.zeros((), jnp.int32)}


@jax.named_scope("optimiser")
def adamw(grads, state, params, rate, beta1=0.9, beta2=0.95, eps=1e-8, decay=0.1):
    """(parameters, state) after one step; the moments are f32, the parameters stay what they are."""
    count = state["count"] + 1
    fix1, fix2 = 1 - beta1**count, 1 - beta2**count

    @jax.jit  # traced once for every shape, so that a program of many layers holds few of them
    def step(p, g, m, s, rate, fix1, fix2):
        g, wide = g.astype(jnp.float32), p.astype(jnp.float32)
        m, s = beta1 * m + (1 - beta1) * g, beta2 * s + (1 - beta2) * g * g
        return (wide - rate * (m / fix1 / (jnp.sqrt(s / fix2) + eps) + decay * wide)).astype(p.dtype), m, s

    done = jax.tree.map(lambda *leaf: step(*leaf, rate, fix1, fix2), params, grads, state["mean"], state["square"])
    params, mean, square = (jax.tree.map(lambda three, i=i: three[i], done, is_leaf=lambda x: isinstance(x, tuple)) for i in range(3))
    return params, {"mean": mean, "square": square, "count": count}
