"""A mixture of experts: each token goes to the few its router prefers, and no token is dropped.

Few tokens fetch their experts' weights. Many are given to every expert: a tensor engine is faster at that than DMA is at
sorting tokens by expert. Shapes do not depend on the routing.
"""

import jax
import jax.numpy as jnp

from trine.models.layers import ACTIVATIONS, copied, dense, rows, total


def routed(layer, c, x):
    """(weights, experts) of each token, both [tokens, chosen]."""
    scores = jax.nn.softmax(dense(layer["router"], x).astype(jnp.float32), -1)
    weights, experts = jax.lax.top_k(scores, c.chosen)
    return (weights / weights.sum(-1, keepdims=True)).astype(x.dtype), experts


def expert(w, c, x):
    act = ACTIVATIONS[c.activation]
    return (act(x @ w["gate"]) * (x @ w["up"])) @ w["down"]


def fetched(w, c, x, experts):
    """[tokens, chosen, width]: every token with its own experts' weights."""
    mine = {name: rows(value, experts.reshape(-1)) for name, value in w.items()}
    each = jnp.repeat(x, c.chosen, 0)[:, None]
    return jax.vmap(lambda w, x: expert(w, c, x))(mine, each).reshape(*experts.shape, -1)


def everyone(w, c, x, weights, experts):
    """[tokens, width]: every expert computes every token, by the share it has in it, which is zero for most. As many
    multiplies as there are experts, but large and even ones: no token is moved."""
    act = ACTIVATIONS[c.activation]
    shares = sum(jax.nn.one_hot(experts[:, i], c.experts, dtype=weights.dtype) * weights[:, i : i + 1] for i in range(c.chosen))
    x = jnp.broadcast_to(x, (c.experts, *x.shape))
    h = act(jnp.einsum("etw,ewf->etf", x, w["gate"])) * jnp.einsum("etw,ewf->etf", x, w["up"])
    return jnp.einsum("etf,efw->tw", h * shares.T[..., None], w["down"])


def mixture(layer, c, x, axis):
    tokens = x.reshape(-1, x.shape[-1])
    weights, experts = routed(layer, c, tokens)
    w = {name: layer[name]["w"] for name in ("gate", "up", "down")}
    tokens, weights = copied(tokens, axis), copied(weights, axis)
    if experts.size <= c.experts:
        y = jnp.einsum("tcw,tc->tw", fetched(w, c, tokens, experts), weights)
    else:
        y = everyone(w, c, tokens, weights, experts)
    return total(y, axis).reshape(x.shape)
