"""Losses and the AdamW optimiser, over any dictionary of parameters."""

import jax
import jax.numpy as jnp


def cross_entropy(logits, targets):
    """Mean over all positions, in f32."""
    logits = logits.astype(jnp.float32)
    chosen = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return (jax.nn.logsumexp(logits, -1) - chosen).mean()


def adamw_init(params):
    def zeros():
        return jax.tree.map(jnp.zeros_like, params)

    return {"mean": zeros(), "square": zeros(), "count": jnp.zeros((), jnp.int32)}


def adamw(grads, state, params, rate, beta1=0.9, beta2=0.95, eps=1e-8, decay=0.1):
    count = state["count"] + 1
    mean = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, state["mean"], grads)
    square = jax.tree.map(lambda s, g: beta2 * s + (1 - beta2) * g * g, state["square"], grads)
    fix1, fix2 = 1 - beta1**count, 1 - beta2**count

    def step(p, m, s):
        return p - rate * (m / fix1 / (jnp.sqrt(s / fix2) + eps) + decay * p)

    return jax.tree.map(step, params, mean, square), {"mean": mean, "square": square, "count": count}
