"""Decoders: tokens in, logits of the next one out, with a cache of keys and values."""

from dataclasses import replace

import jax
import jax.numpy as jnp

from trine.models import parameters as p
from trine.models.block import CACHE_AXES, block, causal_mask, image_mask, layer_cache, layer_scope, layers_parameters, normed
from trine.models.layers import alibi_slopes, dense, embed, gathered, rope_angles, rows, three_angles, waves
from trine.models.stored import is_stored
from trine.models.training import cross_entropy


# Tokens of a sequence from which on they are dealt out: by our timer it pays there and not at 512 (Llama-3-8B, TP8 and
# TP32 on trn1, TP16 on trn2). Of fewer it does where all of them, of all sequences, are more than the compiler keeps on
# chip of one value, a quarter of Trainium1's 24 MiB (elements of two bytes): every core would bring them in and out.
DEALT_LEAST = 1024
STAYS = 3 << 20


def parameters(c):
    tree = {"tokens": p.table(c.vocab, c.embed, split=0), "layers": layers_parameters(c)}
    if c.positions == "learned":
        tree["positions"] = p.table(c.context + c.position_offset, c.width)
    if c.embed != c.width:
        tree |= {"embed_in": p.dense(c.embed, c.width, False), "embed_out": p.dense(c.width, c.embed, False)}
    if c.embed_norm:
        tree["embed_norm"] = p.norm(c.width, c.norm)
    if c.final_norm:
        tree["norm"] = p.norm(c.width, c.norm)
    if not c.tied and c.head:
        tree["head"] = p.dense(c.embed, c.vocab, c.head_bias, "columns")
    return tree


@jax.named_scope("embedding")
def embedded(params, c, tokens, positions, axis):
    x = embed(params["tokens"], tokens, axis, c.dealt)
    if c.embed_scale != 1.0:
        x = x * jnp.asarray(c.embed_scale, x.dtype)
    if "embed_in" in params:
        x = dense(params["embed_in"], x)
    if c.positions == "learned":
        x = x + rows(params["positions"]["table"], positions + c.position_offset)
    if c.positions == "waves":
        x = x + waves(positions + c.position_offset, c.width).astype(x.dtype)
    return normed(params["embed_norm"], c, x) if c.embed_norm else x


def alibi(c, keys, heads, axis):
    """A bias [heads, 1, keys]; Falcon's is rounded to bf16 as its training was, and scaled as the scores are."""
    slopes = alibi_slopes(c.heads)
    if axis is not None:
        spread = p.Parameter((c.heads,), split=0, parts=c.heads, groups=c.groups).spread(slopes, jax.lax.axis_size(axis))
        slopes = jax.lax.dynamic_slice(jnp.asarray(spread), (jax.lax.axis_index(axis) * heads,), (heads,))
    if not c.alibi_scaled:
        return jnp.asarray(slopes)[:, None, None] * (jnp.arange(keys) - (keys - 1)).astype(jnp.float32)
    bias = jnp.asarray(slopes, jnp.bfloat16)[:, None, None] * jnp.arange(keys).astype(jnp.bfloat16)
    return bias.astype(jnp.float32) * c.head_dim**-0.5


def states(params, c, tokens, cache=None, at=0, axis=None, given=None, three=None, images=None):
    """(hidden states after the last norm, cache) of tokens[batch, seq] that stand at position `at` on. given: the tokens as
    vectors already. three: their three positions each, [3, batch, seq], where they are not all the same. images: [batch, seq]
    the number of the image that a token is of, whose tokens see one another; below zero: of none."""
    seq = tokens.shape[1]
    positions = at + jnp.arange(seq)
    x = embedded(params, c, tokens, positions, axis) if given is None else given
    keys = keys_of(c, seq, cache)
    each = [c.layer(i) for i in range(c.layers)]
    ropes = {own.rope for own in each if own.positions == "rope" and own.mixer not in ("convolution", "state", "recurrence")}
    rotated = {rope: rope_angles(rope, rotary_dims(c), positions, keys) for rope in sorted(ropes, key=repr) if three is None}
    angles = rotated or {rope: three_angles(rope, c.head_dim, three, keys) for rope in ropes}
    windows = {0, c.window} if not c.forms else {own.window for own in each}
    masks = {window: causal_mask(positions, keys, window) for window in windows}
    if images is not None:
        masks = {window: image_mask(positions, keys, window, images) for window in windows}
    bias = None
    if c.positions == "alibi":
        bias = alibi(c, keys, heads_here(params["layers"][0]["q"]["w"]) // c.head_dim, axis)
    new_cache = []
    for i, (layer, own) in enumerate(zip(params["layers"], each, strict=True)):
        mask = masks[own.window if i >= c.window_from else 0]
        angle = angles.get(own.rope) if own.positions == "rope" else None
        with layer_scope(i):
            x, new = block(layer, own, x, angle, mask, bias, None if cache is None else cache[i], at, axis=axis)
        new_cache.append(new)
    x = normed(params["norm"], c, x) if c.final_norm else x
    x = x if c.head_scale == 1.0 else x * jnp.asarray(c.head_scale, x.dtype)
    return x, None if cache is None else new_cache


def heads_here(w):
    """Columns of a projection that this core has."""
    return (w["codes"] if is_stored(w) else w).shape[1]


def rotary_dims(c):
    """Dims of a head that positions may turn."""
    return c.latent.rotated if c.latent else c.head_dim


def keys_of(c, seq, cache):
    """How many tokens there may be to look at: those of a cache where there is one that grows."""
    for layer in cache or ():
        for name in ("k", "latent"):
            if name in layer:
                return layer[name].shape[1] * (2 if c.share else 1)
    return seq


@jax.named_scope("head")
def scores(params, c, x, axis=None):
    """Logits of the part of the vocabulary this core has."""
    if "embed_out" in params:
        x = dense(params["embed_out"], x)
    x = gathered(x, axis, c.dealt)
    y = x @ params["tokens"]["table"].T if c.tied else dense(params["head"], x)
    return c.logit_cap * jnp.tanh(y / c.logit_cap) if c.logit_cap else y


def logits(params, c, x, axis=None):
    y = scores(params, c, x, axis)
    return y if axis is None else jax.lax.all_gather(y, axis, axis=y.ndim - 1, tiled=True)[..., : c.vocab]


def forward(params, c, inputs, axis=None):
    """Logits of every position of inputs["tokens"][batch, seq]; hidden states of a model without a head."""
    x, _ = states(params, c, inputs["tokens"], axis=axis)
    return logits(params, c, x, axis) if c.head else x


def deals(c, inputs, axis):
    """Whether each core has some of the tokens between the blocks: norms and sums are then done once, not by all."""
    batch, seq = inputs["tokens"].shape
    if axis is None or seq % jax.lax.axis_size(axis) or (seq < DEALT_LEAST and batch * seq * c.width <= STAYS):
        return False
    plain = all(own.mixer == "attention" and not own.experts for own in map(c.layer, range(c.layers)))
    return c.positions != "learned" and plain


def prefill(params, c, inputs, cache, axis=None, at=0):
    """(logits of the last position, cache); the tokens stand at position `at` on, all before them are in the cache."""
    if deals(c, inputs, axis):
        x, cache = states(params, replace(c, dealt=True), inputs["tokens"], cache, at, axis)
        last = jax.lax.all_gather(x[:, -1:], axis)[-1]
    else:
        x, cache = states(params, c, inputs["tokens"], cache, at, axis)
        last = x[:, -1:]
    return logits(params, c, last, axis)[:, 0], cache


def decode(params, c, inputs, cache, axis=None):
    """(logits, cache) of one more token per row, inputs["tokens"][batch, 1], at position inputs["at"]."""
    x, cache = states(params, c, inputs["tokens"], cache, inputs["at"], axis)
    return logits(params, c, x[:, -1:], axis)[:, 0], cache


def loss(params, c, inputs, axis=None):
    """Cross-entropy of inputs["labels"][batch, seq] given the tokens; a label below zero is not counted."""
    c = replace(c, dealt=deals(c, inputs, axis))
    x, _ = states(params, c, inputs["tokens"], axis=axis)
    return cross_entropy(scores(params, c, x, axis), inputs["labels"], axis, c.vocab)


def cache_shapes(c, batch, length, cores=1):
    return [layer_cache(c.layer(i), batch, length, cores) for i in range(c.layers)]


def cache_specs(c, axis):
    """A PartitionSpec for every array of the cache."""
    from jax.sharding import PartitionSpec

    def spec(name):
        return PartitionSpec(*(None,) * CACHE_AXES[name], axis) if name in CACHE_AXES else PartitionSpec()

    return [{name: spec(name) for name in names} for names in cache_shapes(c, 1, 2)]


def input_shapes(c, phase, batch, seq):
    tokens = {"tokens": ((batch, 1 if phase == "decode" else seq), "int32")}
    return tokens | {"decode": {"at": ((), "int32")}, "train": {"labels": ((batch, seq), "int32")}}.get(phase, {})
