"""What stands in attention's place in some layers: a short convolution over tokens, and Mamba's decaying state.

Both see all earlier tokens through a cache that does not grow. Prompts go through the state in chunks: inside one a
product of matrices (kind 2) or a scan (kind 1), from one to the next the state alone.
"""

import jax
import jax.numpy as jnp

from trine.models import parameters as p
from trine.models.layers import ACTIVATIONS, copied, dense, dense_rows, norm, norm_split, total
from trine.models.stored import times


def taps(kernel, channels, bias, split=None, parts=0):
    """A convolution over tokens, each channel for itself."""
    layer = {"taps": p.Parameter((kernel, channels), scale=kernel**-0.5, split=1 if split else None, parts=parts)}
    return layer | ({"b": p.Parameter((channels,), "zeros", split=0 if split else None, parts=parts)} if bias else {})


def convolved(params, x, before):
    """(y, what the next call needs of x); before: as much of the tokens before x[batch, seq, channels], or None: zeros."""
    kernel, seq = params["taps"].shape[0], x.shape[1]
    if before is None:
        before = jnp.zeros((x.shape[0], kernel - 1, x.shape[2]), x.dtype)
    full = jnp.concatenate([before.astype(x.dtype), x], 1)
    y = sum(full[:, i : i + seq] * params["taps"][i] for i in range(kernel))
    return y + params["b"] if "b" in params else y, full[:, seq:]


# ---- a short convolution between two gates


def convolution_parameters(c):
    one = dict(bias=c.mlp_bias, split="columns")
    tree = {name: p.dense(c.width, c.width, **one) for name in ("before", "after", "x")}
    return tree | {"conv": taps(c.kernel, c.width, c.mlp_bias, True), "o": p.dense(c.width, c.width, c.mlp_bias, "rows")}


@jax.named_scope("convolution")
def convolution(layer, c, x, cache, axis):
    x = copied(x, axis)
    before, after, x = (dense(layer[name], x) for name in ("before", "after", "x"))
    y, left = convolved(layer["conv"], before * x, cache and cache["conv"])
    return dense_rows(layer["o"], after * y, axis), {"conv": left}


# ---- a state


def state_parameters(c):
    s = c.space
    heads = s.heads or s.inner
    cut = dict(split="columns", parts=heads)
    tree = {
        "z": p.dense(c.width, s.inner, s.bias, **cut),
        "x": p.dense(c.width, s.inner, s.bias, **cut),
        "conv": taps(s.kernel, s.inner, s.conv_bias, True, heads),
        "d": {"table": p.Parameter((heads,), "ones", split=0)},
        "o": p.dense(s.inner, c.width, s.out_bias, "rows", heads),
    }
    if s.kind == 1:
        rates = {"rates": {"table": p.Parameter((s.inner, s.state), "ones", split=0)}}
        tree |= rates | {"steps": p.dense(s.rank, s.inner, True, "columns"), "inner": p.dense(s.inner, s.rank + 2 * s.state, False, "rows")}
        return tree
    both = s.groups * s.state
    for name in ("into", "out"):
        tree |= {name: p.dense(c.width, both, s.bias), f"conv_{name}": taps(s.kernel, both, s.conv_bias)}
    tree |= {"steps": p.dense(c.width, heads, s.bias, **cut), "rates": {"table": p.Parameter((heads,), "ones", split=0)},
             "step_bias": {"table": p.Parameter((heads,), "ones", split=0)}}  # fmt: skip
    if s.normed:
        tree["norm"] = p.norm(s.inner, "rms", 0, heads)
    return tree


def cache_shapes(c, batch, cores=1):
    """What a layer keeps of the tokens before, on one core."""
    if c.mixer == "convolution":
        return {"conv": (batch, c.kernel - 1, p.Parameter((c.width,), split=0).on_core(cores)[0])}
    s = c.space
    inner = p.Parameter((s.inner,), split=0, parts=s.heads or s.inner).on_core(cores)[0]
    shapes = {"conv": (batch, s.kernel - 1, inner)}
    if s.kind == 1:
        return shapes | {"state": (batch, inner, s.state)}
    both = (batch, s.kernel - 1, s.groups * s.state)
    return shapes | {"conv_into": both, "conv_out": both, "state": (batch, inner * s.heads // s.inner, s.inner // s.heads, s.state)}


@jax.named_scope("state")
def state(layer, c, x, cache, axis):
    """(y, cache)"""
    s, seen = c.space, cache or {}
    act = ACTIVATIONS[c.activation]

    def projected(name, number, of):
        y = dense(layer[name], of)
        return y if s.scales[number] == 1.0 else y * jnp.asarray(s.scales[number], y.dtype)

    shared = copied(x, axis)
    z, y = projected("z", 0, shared), projected("x", 1, shared)
    y, left = convolved(layer["conv"], y, seen.get("conv"))
    new, y = {"conv": left}, act(y)
    before = seen.get("state")
    if s.kind == 1:
        y, new["state"] = by_channel(layer, s, y, before, axis)
        y = y * act(z)
        return dense_rows(layer["o"], y, axis), new
    sampler = []
    for name, number in (("into", 2), ("out", 3)):
        path, new[f"conv_{name}"] = convolved(layer[f"conv_{name}"], projected(name, number, x), seen.get(f"conv_{name}"))
        sampler.append(copied(act(path), axis))
    y, new["state"] = by_head(layer, s, y, projected("steps", 4, shared), *sampler, before, axis)
    return dense_rows(layer["o"], gated_norm(layer, c, y, z, axis), axis), new


def gated_norm(layer, c, y, z, axis):
    """What comes out of the state by its gate, normed where the family does that."""
    s, act = c.space, jax.nn.silu
    if not s.normed:
        return y * act(z)
    if not s.gate_last:
        y = y * act(z)
    if s.norm_groups == 1:
        y = norm_split(layer["norm"], y, c.eps, s.inner, axis)
    else:
        parts = y.reshape(*y.shape[:2], -1, s.inner // s.norm_groups)
        plain = {"scale": jnp.ones((), y.dtype)}
        y = norm(plain, parts, c.eps).reshape(y.shape) * layer["norm"]["scale"]
    return y * act(z) if s.gate_last else y


def by_channel(layer, s, x, before, axis):
    """Kind 1: each channel's state decays at its own rates. x[batch, seq, channels]"""
    given = total(times(x, layer["inner"]["w"]), axis)
    step, into, out = jnp.split(given, (s.rank, s.rank + s.state), -1)
    if s.inner_norms:
        one = {"scale": jnp.ones((), x.dtype)}
        step, into, out = (norm(one, part, 1e-6) for part in (step, into, out))
    step, into, out = (copied(part, axis) for part in (step, into, out))
    step = jax.nn.softplus(dense(layer["steps"], step).astype(jnp.float32))
    rates = -jnp.exp(layer["rates"]["table"].astype(jnp.float32))
    wide = x.astype(jnp.float32)
    decay = jnp.exp(step[..., None] * rates)
    added = (step * wide)[..., None] * into.astype(jnp.float32)[:, :, None]
    if x.shape[1] == 1:
        states = added if before is None else added + decay * before.astype(jnp.float32)[:, None]
    else:
        if before is not None:
            added = added.at[:, 0].add(decay[:, 0] * before.astype(jnp.float32))
        states = jax.lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (decay, added), axis=1)[1]
    y = jnp.einsum("bldn,bln->bld", states, out.astype(jnp.float32)) + wide * layer["d"]["table"].astype(jnp.float32)
    return y.astype(x.dtype), states[:, -1]


def by_head(layer, s, x, step, into, out, before, axis):
    """Kind 2: a head's state [dims, state] decays at one rate. Steps are those of the heads this core has."""
    (batch, seq, _), given_dtype = x.shape, x.dtype
    step = jax.nn.softplus(step.astype(jnp.float32) + layer["step_bias"]["table"].astype(jnp.float32))
    step = jnp.clip(step, s.least, s.most) if s.least > 0 or s.most < float("inf") else step
    heads = step.shape[-1]
    x = x.reshape(batch, seq, heads, -1).astype(jnp.float32)
    into, out = (of_heads(path.reshape(batch, seq, s.groups, s.state), s, heads, axis) for path in (into, out))
    rates = -jnp.exp(layer["rates"]["table"].astype(jnp.float32))
    state = jnp.zeros((batch, heads, x.shape[-1], s.state), jnp.float32) if before is None else before.astype(jnp.float32)
    parts = []
    for at in range(0, seq, s.chunk):
        cut = slice(at, min(seq, at + s.chunk))
        y, state = chunk(x[:, cut], step[:, cut], into[:, cut], out[:, cut], rates, state)
        parts.append(y)
    y = jnp.concatenate(parts, 1) if len(parts) > 1 else parts[0]
    y = y + x * layer["d"]["table"].astype(jnp.float32)[:, None]
    return y.reshape(batch, seq, -1).astype(given_dtype), state


def of_heads(path, s, heads, axis):
    """What each head of this core takes of ways[batch, seq, groups, state] that groups of heads share."""
    every = jnp.repeat(path.astype(jnp.float32), s.heads // s.groups, 2)
    if heads == every.shape[2]:
        return every
    first, cores = jax.lax.axis_index(axis) * heads, jax.lax.axis_size(axis)
    every = jnp.pad(every, ((0, 0), (0, 0), (0, cores * heads - s.heads), (0, 0)))
    return jax.lax.dynamic_slice_in_dim(every, first, heads, 2)


def chunk(x, step, into, out, rates, state):
    """(y, the state after) of tokens that are taken at once: each sees the state before and the tokens before it."""
    steps = step * rates  # logarithms of the decays
    if x.shape[1] == 1:
        decay = jnp.exp(steps[:, 0])[..., None, None]
        state = state * decay + jnp.einsum("bhd,bhn->bhdn", x[:, 0] * step[:, 0, :, None], into[:, 0])
        return jnp.einsum("bhdn,bhn->bhd", state, out[:, 0])[:, None], state
    run = jnp.cumsum(steps, 1)
    tokens = jnp.arange(x.shape[1])
    seen = (tokens[:, None] >= tokens[None])[..., None]
    between = jnp.where(seen, jnp.exp(jnp.where(seen, run[:, :, None] - run[:, None], 0.0)), 0.0)
    weights = jnp.einsum("blhn,bmhn->blmh", out, into) * between
    given = x * step[..., None]
    y = jnp.einsum("blmh,bmhd->blhd", weights, given)
    y = y + jnp.einsum("blhn,bhdn->blhd", out * jnp.exp(run)[..., None], state)
    rest = jnp.exp(run[:, -1:] - run)
    state = state * jnp.exp(run[:, -1])[..., None, None] + jnp.einsum("blhd,blhn->bhdn", given * rest[..., None], into)
    return y, state
