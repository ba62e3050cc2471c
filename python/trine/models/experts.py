"""A mixture of experts: each token goes to the few its router prefers, and no token is dropped.

Few tokens fetch their experts' weights. Many are sorted by expert into blocks of one expert each and multiplied block
after block, so that the work follows the tokens, not the number of experts. Shapes do not depend on the routing.
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
    of = rows(chosen, order)
    slot = rows(first_block, of) * size + jnp.arange(pairs) - rows(first_pair, of)
    placed = jnp.zeros((blocks * size, x.shape[-1]), x.dtype).at[slot].set(rows(x, order // c.chosen))
    owner = jnp.minimum(jnp.searchsorted(jnp.cumsum(used), jnp.arange(blocks), side="right"), c.experts - 1)

    def step(_, part):
        given, owner = part
        mine = {n: jax.lax.dynamic_index_in_dim(value, owner, 0, False, allow_negative_indices=False) for n, value in w.items()}
        return None, expert(mine, c, given)

    _, done = jax.lax.scan(step, None, (placed.reshape(blocks, size, -1), owner))
    back = jnp.zeros((pairs,), jnp.int32).at[order].set(slot)
    return rows(done.reshape(blocks * size, -1), back).reshape(*experts.shape, -1)


def mixture(layer, c, x, axis):
    tokens = x.reshape(-1, x.shape[-1])
    weights, experts = routed(layer, c, tokens)
    w = {name: layer[name]["w"] for name in ("gate", "up", "down")}
    done = (fetched if experts.size <= c.experts else blocked)(w, c, copied(tokens, axis), experts)
    return total(jnp.einsum("tcw,tc->tw", done, copied(weights, axis)), axis).reshape(x.shape)
