"""An encoder reads text or sound, a decoder writes and looks at what was read: T5, BART, Whisper.

Where a stack's positions are relative they are a bias of its scores; where they are learned they are added to what it reads.
"""

import jax
import jax.numpy as jnp

from trine.models import decoder as one_stack
from trine.models import parameters as p
from trine.models.block import attention_parameters, block, block_parameters, cache_shape, causal_mask, heads_of, layer_scope, normed
from trine.models.convolution import conv1
from trine.models.layers import ACTIVATIONS, copied, dense, embed, relative_buckets, rows
from trine.models.training import cross_entropy


def parameters(c):
    def stack(s, cross):
        layers = [block_parameters(s) for _ in range(s.layers)]
        for layer in layers if cross else ():
            layer |= {"cross": attention_parameters(s), "norm_cross": p.norm(s.width, s.norm)}
        tree = {"layers": layers}
        if s.final_norm:
            tree["norm"] = p.norm(s.width, s.norm)
        if s.positions == "relative":
            tree["relative"] = {"table": p.Parameter((s.buckets, s.heads), split=1, parts=s.heads)}
        else:
            tree["positions"] = {"table": p.Parameter((s.context + s.position_offset, s.width), trained=cross or not c.bands)}
        if s.embed_norm:
            tree["embed_norm"] = p.norm(s.width, s.norm)
        return tree

    tree = {"tokens": p.table(c.encoder.vocab, c.encoder.embed, split=0), "encoder": stack(c.encoder, False),
            "decoder": stack(c.decoder, True)}  # fmt: skip
    if c.bands:
        tree["encoder"] |= {"conv1": p.conv1(3, c.bands, c.encoder.width), "conv2": p.conv1(3, c.encoder.width, c.encoder.width)}
    if not c.decoder.tied:
        tree["head"] = p.dense(c.decoder.width, c.decoder.vocab, False, "columns")
    if c.logit_bias:
        tree["logit_bias"] = {"table": p.Parameter((c.decoder.vocab,), "zeros", split=0, trained=False, counted=False)}
    return tree


@jax.named_scope("positions")
def position_bias(stack, s, at, queries, keys):
    """[heads, queries, keys] for queries that stand at position `at` on. It depends on the distance alone: there are
    queries + keys - 1 of them, and every query's row is the one before, moved on by one."""
    count = queries + keys - 1
    buckets = relative_buckets(jnp.arange(count) - (queries - 1) - at, s.buckets, s.distance, s.causal)
    by_distance = rows(stack["relative"]["table"], buckets).T
    if queries == 1:
        return by_distance[:, None]
    heads = by_distance.shape[0]
    repeated = jnp.broadcast_to(by_distance[:, None], (heads, queries, count)).reshape(heads, -1)
    moved = jax.lax.slice_in_dim(repeated, queries - 1, queries * count - 1, axis=1)
    return moved.reshape(heads, queries, count - 1)[:, :, :keys]


@jax.named_scope("sound")
def heard(stack, s, features):
    """[batch, times / 2, width] of features[batch, times, bands]: two convolutions, the second of every other time."""
    x = ACTIVATIONS["gelu"](conv1(stack["conv1"], features, pad=1))
    return ACTIVATIONS["gelu"](conv1(stack["conv2"], x, 2, pad=1))


def positioned(stack, s, x, at):
    """x with its positions, from `at` on, and the norm some families put there."""
    if s.embed_scale != 1.0:
        x = x * jnp.asarray(s.embed_scale, x.dtype)
    if s.positions == "learned":
        x = x + rows(stack["positions"]["table"], at + jnp.arange(x.shape[1]) + s.position_offset)
    return normed(stack["embed_norm"], s, x) if s.embed_norm else x


def finished(stack, s, x):
    return normed(stack["norm"], s, x) if s.final_norm else x


def encoded(params, c, inputs, axis=None):
    s, stack = c.encoder, params["encoder"]
    x = heard(stack, s, inputs["features"]) if c.bands else embed(params["tokens"], inputs["tokens"], axis)
    x = positioned(stack, s, x, 0)
    mask = inputs["mask"][:, None, None, :] if "mask" in inputs else None
    bias = position_bias(stack, s, 0, x.shape[1], x.shape[1]) if s.positions == "relative" else None
    for i, layer in enumerate(stack["layers"]):
        with layer_scope(i, "encoder"):
            x, _ = block(layer, s, x, mask=mask, bias=bias, axis=axis)
    return finished(stack, s, x)


@jax.named_scope("cross keys")
def cross_keys(params, c, read, axis):
    """Keys and values of what was read, for each layer of the decoder."""
    s, read = c.decoder, copied(read, axis)
    return [{name: heads_of(dense(layer["cross"][name], read), s) for name in "kv"} for layer in params["decoder"]["layers"]]


def decoded(params, c, tokens, cross, mask, cache=None, at=0, axis=None):
    s, stack = c.decoder, params["decoder"]
    x = positioned(stack, s, embed(params["tokens"], tokens, axis), at)
    positions = at + jnp.arange(x.shape[1])
    keys = x.shape[1] if cache is None else cache[0]["k"].shape[1]
    bias = position_bias(stack, s, at, x.shape[1], keys) if s.positions == "relative" else None
    seen, new_cache = causal_mask(positions, keys, 0), []
    cross_mask = mask[:, None, None, :] if mask is not None else None
    for i, layer in enumerate(stack["layers"]):
        with layer_scope(i, "decoder"):
            x, new = block(layer, s, x, None, seen, bias, None if cache is None else cache[i], at, cross[i], cross_mask, axis)
        new_cache.append(new)
    x = finished(stack, s, x)
    return x if s.positions == "learned" else x * jnp.asarray(s.head_scale, x.dtype), new_cache


def logits(params, c, x, axis):
    y = scores(params, c, x, axis)
    return y if axis is None else jax.lax.all_gather(y, axis, axis=y.ndim - 1, tiled=True)[..., : c.decoder.vocab]


def scores(params, c, x, axis):
    """Logits of the part of the vocabulary this core has."""
    y = one_stack.scores(params, c.decoder, x, axis)
    return y + params["logit_bias"]["table"] if c.logit_bias else y


def forward(params, c, inputs, axis=None):
    """Logits of every position of inputs["decoder_tokens"], having read inputs["tokens"]."""
    cross = cross_keys(params, c, encoded(params, c, inputs, axis), axis)
    x, _ = decoded(params, c, inputs["decoder_tokens"], cross, inputs.get("mask"), axis=axis)
    return logits(params, c, x, axis)


def prefill(params, c, inputs, cache, axis=None):
    """(logits of the first token to write, cache); the cache holds what was read as keys too."""
    cross = cross_keys(params, c, encoded(params, c, inputs, axis), axis)
    start = jnp.full((inputs["features" if c.bands else "tokens"].shape[0], 1), c.start, jnp.int32)
    x, own = decoded(params, c, start, cross, inputs.get("mask"), cache["self"], 0, axis)
    new_cache = {"self": own, "cross": jax.tree.map(lambda new, old: new.astype(old.dtype), cross, cache["cross"])}
    return logits(params, c, x, axis)[:, 0], new_cache


def decode(params, c, inputs, cache, axis=None):
    """(logits, cache) of one more token per row at position inputs["at"]; inputs["mask"] is that of what was read."""
    x, own = decoded(params, c, inputs["tokens"], cache["cross"], inputs.get("mask"), cache["self"], inputs["at"], axis)
    return logits(params, c, x, axis)[:, 0], {"self": own, "cross": cache["cross"]}


def loss(params, c, inputs, axis=None):
    """Cross-entropy of inputs["labels"], which shifted by one are what the decoder is given."""
    labels = inputs["labels"]
    start = jnp.full((labels.shape[0], 1), c.start, labels.dtype)
    given = jnp.concatenate([start, jnp.maximum(labels[:, :-1], 0)], 1)
    cross = cross_keys(params, c, encoded(params, c, inputs, axis), axis)
    x, _ = decoded(params, c, given, cross, inputs.get("mask"), axis=axis)
    return cross_entropy(scores(params, c, x, axis), labels, axis, c.decoder.vocab)


def cache_shapes(c, batch, length, cores=1):
    """As long for what is written as for what was read; of sound there is always the same length."""
    lengths = {"self": length, "cross": c.encoder.context if c.bands else length}
    shapes = {part: cache_shape(c.decoder, batch, length, cores) for part, length in lengths.items()}
    return {part: [{"k": shape, "v": shape} for _ in range(c.decoder.layers)] for part, shape in shapes.items()}


def input_shapes(c, phase, batch, seq):
    tokens = ((batch, seq), "int32")
    read = {"features": ((batch, 2 * c.encoder.context, c.bands), "float")} if c.bands else {"tokens": tokens}
    return {
        "prefill": read,
        "decode": {"tokens": ((batch, 1), "int32"), "at": ((), "int32")},
        "train": read | {"labels": tokens},
        "forward": read | {"decoder_tokens": tokens},
    }[phase]


def cache_specs(c, axis):
    """A PartitionSpec for every array of the cache."""
    return {part: one_stack.cache_specs(c.decoder, axis) for part in ("self", "cross")}
