"""A mixture of experts: each token goes to the few its router prefers, and no token is dropped.

Few tokens fetch their experts' weights. Many are given to every expert: a tensor engine is faster at that than DMA is at
sorting tokens by expert. Shapes do not depend on the routing.
"""

import jax
import jax.numpy as jnp

from trine.models import parameters as p
from trine.models.layers import ACTIVATIONS, copied, dense, rows, total
from trine.models.stored import times, whole

NEVER = -1e9  # a score that is not chosen


def parameters(c):
    """Of the router, and of what every token goes to beside the experts."""
    tree = {"router": p.dense(c.width, c.experts, c.router.bias)}
    if c.router.corrected:
        tree["router_correction"] = {"table": p.Parameter((c.experts,), "zeros", trained=False)}
    if c.shared_ffn:
        shared = {name: p.dense(c.width, c.shared_ffn, c.mlp_bias, "columns") for name in ("gate", "up")}
        tree["shared"] = shared | {"down": p.dense(c.shared_ffn, c.width, c.mlp_bias, "rows")}
    if c.shared_gate:
        tree["shared_gate"] = p.dense(c.width, 1, False)
    return tree


def gated(c, gate, up):
    """What goes through the gate, with the limits some families set. up: a function, called once the gate is there."""
    if c.mlp_scales[0] != 1.0:
        gate = gate * jnp.asarray(c.mlp_scales[0], gate.dtype)
    if not c.gate_limit:
        return ACTIVATIONS[c.activation](gate) * up()
    gate, up = jnp.minimum(gate, c.gate_limit), jnp.clip(up(), -c.gate_limit, c.gate_limit)
    return gate * jax.nn.sigmoid(gate * c.gate_slope) * (up + 1)


def among_groups(choice, r):
    """Scores of the experts whose group is among the best, and of the others one that is never chosen."""
    grouped = choice.reshape(*choice.shape[:-1], r.groups, -1)
    value = jax.lax.top_k(grouped, r.of_group)[0].sum(-1) if r.of_group > 1 else grouped.max(-1)
    least = jax.lax.top_k(value, r.best)[0][..., -1:]
    return jnp.where((value >= least)[..., None], grouped, NEVER).reshape(choice.shape)


def one_by_one(logits, c):
    """(weights, experts): the best, then the best of the rest, each with its share among those near to it."""
    left, weights, experts = logits, [], []
    for _ in range(c.chosen):
        best, which = left.max(-1, keepdims=True), left.argmax(-1)
        far = (best - logits) / jnp.maximum(jnp.abs(logits), best) > 2 * c.router.jitter
        near = jnp.where(far, NEVER, left)
        weights.append(1 / jnp.exp(near - best).sum(-1))
        experts.append(which)
        left = jnp.where(jnp.arange(c.experts) == which[..., None], NEVER, left)
    return jnp.stack(weights, -1), jnp.stack(experts, -1)


def routed(layer, c, x):
    """(weights, experts) of each token, both [tokens, chosen]."""
    r = c.router
    logits = dense(layer["router"], x).astype(jnp.float32)
    if r.kind == "mixer":
        weights, experts = one_by_one(logits, c)
        return weights.astype(x.dtype), experts
    scores = jax.nn.softmax(logits, -1) if r.kind == "softmax" else jax.nn.sigmoid(logits)
    if r.corrected or r.groups > 1:
        choice = scores + layer["router_correction"]["table"].astype(jnp.float32) if r.corrected else scores
        choice = among_groups(choice, r) if r.groups > 1 else choice
        experts = jax.lax.top_k(choice, c.chosen)[1]
        weights = jnp.take_along_axis(scores, experts, -1, mode="promise_in_bounds", wrap_negative_indices=False)
    else:
        weights, experts = jax.lax.top_k(scores, c.chosen)
    weights = weights / weights.sum(-1, keepdims=True) if r.normed else weights
    weights = weights if r.scale == 1.0 else weights * r.scale
    return weights.astype(x.dtype), experts


def expert(w, c, x):
    return times(gated(c, plus(times(x, w["gate"]), w, "gate"), lambda: plus(times(x, w["up"]), w, "up")), w["down"])


def plus(y, w, name):
    return y + w[name + " bias"] if name + " bias" in w else y


def fetched(w, c, x, experts):
    """[tokens, chosen, width]: every token with its own experts' weights."""
    def of(value):
        return rows(value, experts.reshape(-1))

    mine = {name: jax.tree.map(of, value) for name, value in w.items()}
    each = jnp.repeat(x, c.chosen, 0)[:, None]
    return jax.vmap(lambda w, x: expert(w, c, x))(mine, each).reshape(*experts.shape, -1)


def shares_of(c, weights, experts):
    """[tokens, experts]: the share each expert has in a token, which is zero for most."""
    return sum(jax.nn.one_hot(experts[:, i], c.experts, dtype=weights.dtype) * weights[:, i : i + 1] for i in range(c.chosen))


def everyone(w, c, x, weights, experts):
    """[tokens, width]: every expert computes every token, by the share it has in it. As many multiplies as there are
    experts, but large and even ones: no token is moved."""
    shares = shares_of(c, weights, experts)
    x = jnp.broadcast_to(x, (c.experts, *x.shape))
    wide = {name: value[:, None] for name, value in w.items() if name.endswith("bias")}

    def of(name):
        return plus(jnp.einsum("etw,ewf->etf", x, whole(w[name], x.dtype)), wide, name)

    h = gated(c, of("gate"), lambda: of("up"))
    return jnp.einsum("etf,efw->tw", h * shares.T[..., None], whole(w["down"], x.dtype))


def for_all(layer, c, x, axis):
    """What the expert of every token adds, in parts over the cores."""
    w = {name: layer["shared"][name]["w"] for name in ("gate", "up", "down")}
    y = expert(w, c, copied(x, axis))
    return y * copied(jax.nn.sigmoid(dense(layer["shared_gate"], x)), axis) if c.shared_gate else y


def mixture(layer, c, x, axis):
    tokens = x.reshape(-1, x.shape[-1])
    weights, experts = routed(layer, c, tokens)
    w = {name: layer[name]["w"] for name in ("gate", "up", "down")}
    w |= {name + " bias": layer[name]["b"] for name in ("gate", "up") if "b" in layer[name]}
    alike, own = tokens, weights
    tokens, weights = copied(tokens, axis), copied(weights, axis)
    if experts.size <= c.experts:
        y = jnp.einsum("tcw,tc->tw", fetched(w, c, tokens, experts), weights)
    else:
        y = everyone(w, c, tokens, weights, experts)
    if c.shared_ffn:
        y = y + for_all(layer, c, alike, axis)
    y = total(y, axis)
    if "b" in layer["down"]:
        y = y + shares_of(c, own, experts) @ layer["down"]["b"]
    return y.reshape(x.shape)
