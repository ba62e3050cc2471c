"""A mixture of experts: each token goes to the few its router prefers, and no token is dropped.

Few tokens fetch their experts' weights. Many are sorted by expert into blocks of one expert each and multiplied block
after block, so that the work follows the tokens, not the number of experts. Shapes do not depend on the routing.
"""

import jax
import jax.numpy as jnp

from trine.models.layers import ACTIVATIONS, copied, dense, total


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
    mine = {name: value[experts.reshape(-1)] for name, value in w.items()}
    rows = jnp.repeat(x, c.chosen, 0)[:, None]
    return jax.vmap(lambda w, x: expert(w, c, x))(mine, rows).reshape(*experts.shape, -1)


def block_size(pairs, experts):
    """A power of two near the tokens an expert gets, at most 128: the rows a tensor engine takes at once."""
    return min(128, max(8, 1 << (-(-pairs // experts) - 1).bit_length()))


def blocked(w, c, x, experts):
    """As `fetched`, by blocks of tokens that share an expert; each expert's last block may be partly empty."""
    pairs, size = experts.size, block_size(experts.size, c.experts)
    blocks = pairs // size + c.experts
    chosen = experts.reshape(-1)
    order = jnp.argsort(chosen, stable=True)
    count = jnp.zeros(c.experts, jnp.int32).at[chosen].add(1)
    used = (count + size - 1) // size
    first_block = jnp.cumsum(used) - used
    first_pair = jnp.cumsum(count) - count
    of = chosen[order]
    slot = first_block[of] * size + jnp.arange(pairs) - first_pair[of]
    rows = jnp.zeros((blocks * size, x.shape[-1]), x.dtype).at[slot].set(x[order // c.chosen])
    owner = jnp.minimum(jnp.searchsorted(jnp.cumsum(used), jnp.arange(blocks), side="right"), c.experts - 1)

    def step(_, part):
        rows, owner = part
        return None, expert({name: value[owner] for name, value in w.items()}, c, rows)

    _, done = jax.lax.scan(step, None, (rows.reshape(blocks, size, -1), owner))
    back = jnp.zeros((pairs,), jnp.int32).at[order].set(slot)
    return done.reshape(blocks * size, -1)[back].reshape(*experts.shape, -1)


def mixture(layer, c, x, axis):
    rows = x.reshape(-1, x.shape[-1])
    weights, experts = routed(layer, c, rows)
    w = {name: layer[name]["w"] for name in ("gate", "up", "down")}
    done = (fetched if experts.size <= c.experts else blocked)(w, c, copied(rows, axis), experts)
    return total(jnp.einsum("tcw,tc->tw", done, copied(weights, axis)), axis).reshape(x.shape)
