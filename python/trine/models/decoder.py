"""Decoders: tokens in, logits of the next one out, with a cache of keys and values."""

from dataclasses import replace

import jax
import jax.numpy as jnp

from trine.models import parameters as p
from trine.models.block import block, block_parameters, cache_shape, causal_mask, layer_scope, normed
from trine.models.layers import alibi_slopes, dense, embed, gathered, rope_angles, rows
from trine.models.training import cross_entropy


# Tokens of a sequence from which on they are dealt out: by our timer it pays there and not at 512 (Llama-3-8B, TP8 and
# TP32 on trn1, TP16 on trn2). Of fewer it does where all of them, of all sequences, are more than the compiler keeps on
# chip of one value, a quarter of Trainium1's 24 MiB (elements of two bytes): every core would bring them in and out.
DEALT_LEAST = 1024
STAYS = 3 << 20


def parameters(c):
    tree = {"tokens": p.table(c.vocab, c.embed, split=0), "layers": [block_parameters(c) for _ in range(c.layers)]}
    if c.positions == "learned":
        tree["positions"] = p.table(c.context + c.position_offset, c.width)
    if c.embed != c.width:
        tree |= {"embed_in": p.dense(c.embed, c.width, False), "embed_out": p.dense(c.width, c.embed, False)}
    if c.final_norm:
        tree["norm"] = p.norm(c.width, c.norm)
    if not c.tied:
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
    return x


def alibi(c, keys, heads, axis):
    """Falcon's bias [heads, 1, keys], rounded to bf16 as its training was."""
    slopes = alibi_slopes(c.heads)
    if axis is not None:
        spread = p.Parameter((c.heads,), split=0, parts=c.heads, groups=c.groups).spread(slopes, jax.lax.axis_size(axis))
        slopes = jax.lax.dynamic_slice(jnp.asarray(spread), (jax.lax.axis_index(axis) * heads,), (heads,))
    bias = jnp.asarray(slopes, jnp.bfloat16)[:, None, None] * jnp.arange(keys).astype(jnp.bfloat16)
    return bias.astype(jnp.float32) * c.head_dim**-0.5


def states(params, c, tokens, cache=None, at=0, axis=None):
    """(hidden states after the last norm, cache) of tokens[batch, seq] that stand at position `at` on."""
    seq = tokens.shape[1]
    positions = at + jnp.arange(seq)
    x = embedded(params, c, tokens, positions, axis)
    keys = seq if cache is None else cache[0]["k"].shape[1] * (2 if c.share else 1)
    angles = rope_angles(c.rope, c.head_dim, positions, keys) if c.positions == "rope" else None
    masks = {window: causal_mask(positions, keys, window) for window in {0, c.window}}
    bias = None
    if c.positions == "alibi":
        bias = alibi(c, keys, params["layers"][0]["q"]["w"].shape[1] // c.head_dim, axis)
    new_cache = []
    for i, layer in enumerate(params["layers"]):
        mask = masks[c.window if i >= c.window_from else 0]
        with layer_scope(i):
            x, new = block(layer, c, x, angles, mask, bias, None if cache is None else cache[i], at, axis=axis)
        new_cache.append(new)
    x = normed(params["norm"], c, x) if c.final_norm else x
    return x, None if cache is None else new_cache


@jax.named_scope("head")
def scores(params, c, x, axis=None):
    """Logits of the part of the vocabulary this core has."""
    if "embed_out" in params:
        x = dense(params["embed_out"], x)
    x = gathered(x, axis, c.dealt)
    return x @ params["tokens"]["table"].T if c.tied else dense(params["head"], x)


def logits(params, c, x, axis=None):
    y = scores(params, c, x, axis)
    return y if axis is None else jax.lax.all_gather(y, axis, axis=y.ndim - 1, tiled=True)[..., : c.vocab]


def forward(params, c, inputs, axis=None):
    """Logits of every position of inputs["tokens"][batch, seq]."""
    return logits(params, c, states(params, c, inputs["tokens"], axis=axis)[0], axis)


def deals(c, inputs, axis):
    """Whether each core has some of the tokens between the blocks: norms and sums are then done once, not by all."""
    batch, seq = inputs["tokens"].shape
    if axis is None or seq % jax.lax.axis_size(axis) or (seq < DEALT_LEAST and batch * seq * c.width <= STAYS):
        return False
    return c.positions != "learned" and not c.experts


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
    shape = cache_shape(c, batch, length, cores)
    return [{"k": shape, "v": shape} for _ in range(c.layers)]


def input_shapes(c, phase, batch, seq):
    tokens = {"tokens": ((batch, 1 if phase == "decode" else seq), "int32")}
    return tokens | {"decode": {"at": ((), "int32")}, "train": {"labels": ((batch, seq), "int32")}}.get(phase, {})
