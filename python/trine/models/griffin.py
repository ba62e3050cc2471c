"""Griffin's recurrence in attention's place (RecurrentGemma): a number per channel that decays and is added to with every
token, both by gates that see the token; a short convolution before it, a gate of its own beside it.
"""

import jax
import jax.numpy as jnp

from trine.models import parameters as p
from trine.models.layers import ACTIVATIONS, copied, dense, dense_rows
from trine.models.recurrent import convolved, taps

SHARPNESS = 8.0  # of the decay, a constant of the architecture


def parameters(c):
    each, cut = c.recurrent // c.heads, dict(split="columns", parts=c.heads)

    def gate():
        return {"w": p.Parameter((c.heads, each, each), split=0), "b": p.Parameter((c.heads, each), "zeros", split=0)}

    return {
        "y": p.dense(c.width, c.recurrent, **cut),
        "x": p.dense(c.width, c.recurrent, **cut),
        "conv": taps(c.kernel, c.recurrent, True, True, c.heads),
        "into": gate(),
        "decay": gate(),
        "rates": {"table": p.Parameter((c.recurrent,), "ones", split=0, parts=c.heads)},
        "o": p.dense(c.recurrent, c.width, True, "rows", c.heads),
    }


def cache_shapes(c, batch, cores=1):
    """What a layer keeps of the tokens before, on one core."""
    channels = p.Parameter((c.recurrent,), split=0, parts=c.heads).on_core(cores)[0]
    return {"conv": (batch, c.kernel - 1, channels), "state": (batch, channels)}


def opened(gate, x):
    """How far a gate is open for each channel of x[batch, seq, channels]: channels of one head see one another."""
    heads = x.reshape(*x.shape[:2], *gate["b"].shape)
    return jax.nn.sigmoid(jnp.einsum("blhi,hij->blhj", heads, gate["w"]) + gate["b"]).reshape(x.shape)


@jax.named_scope("state")
def recurrence(layer, c, x, cache, at, axis):
    """(y, cache); tokens stand at position `at` on, and the very first one goes in as it is."""
    x, seen = copied(x, axis), cache or {}
    beside = ACTIVATIONS[c.activation](dense(layer["y"], x))
    x, left = convolved(layer["conv"], dense(layer["x"], x), seen.get("conv"))
    wide = [part.astype(jnp.float32) for part in (x, opened(layer["into"], x), opened(layer["decay"], x))]
    decay = -SHARPNESS * wide[2] * jax.nn.softplus(layer["rates"]["table"].astype(jnp.float32))
    first = (at + jnp.arange(x.shape[1]) == 0)[:, None]
    added = wide[0] * wide[1] * jnp.where(first, 1.0, jnp.sqrt(1.0 - jnp.exp(2.0 * decay)))
    decay = jnp.where(first, 0.0, jnp.exp(decay))
    if "state" in seen:
        added = added.at[:, 0].add(decay[:, 0] * seen["state"].astype(jnp.float32))
    states = added if x.shape[1] == 1 else jax.lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (decay, added), axis=1)[1]
    return dense_rows(layer["o"], states.astype(x.dtype) * beside, axis), {"conv": left, "state": states[:, -1]}
