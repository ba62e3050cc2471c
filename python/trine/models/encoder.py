"""Encoders of the BERT kind: hidden states of all tokens, and a head where the configuration names one."""

import jax
import jax.numpy as jnp

from trine.models import parameters as p
from trine.models.block import block, block_parameters, layer_scope, near_mask, normed
from trine.models.layers import ACTIVATIONS, copied, dense, embed, norm, rope_angles, rows
from trine.models.training import cross_entropy


def parameters(c):
    layers = 1 if c.shared else c.layers
    tree = {
        "tokens": p.table(c.vocab, c.embed, split=0),
        "embed_norm": p.norm(c.embed, c.norm),
        "layers": [block_parameters(c.layer(i)) for i in range(layers)],
    }
    if c.positions == "learned":
        tree["positions"] = p.table(c.context, c.embed)
    if c.distances:
        tree["distances"] = p.table(c.distances.rows, c.width) | (p.norm(c.width, c.norm) if c.distances.normed else {})
    if c.final_norm:
        tree["norm"] = p.norm(c.width, c.norm)
    if c.types:
        tree["types"] = p.table(c.types, c.embed)
    if c.embed != c.width:
        tree["embed_in"] = p.dense(c.embed, c.width)
    if c.head == "masked":
        bias = p.Parameter((c.vocab,), "zeros", split=0)
        tree["masked"] = {"dense": p.dense(c.width, c.embed, c.masked_bias), "norm": p.norm(c.embed, c.norm), "bias": bias}
    if c.head == "classes":
        tree |= {"pooler": p.dense(c.width, c.width), "classifier": p.dense(c.width, c.classes)}
    return tree


@jax.named_scope("embedding")
def embedded(params, c, inputs, axis):
    tokens = inputs["tokens"]
    x = embed(params["tokens"], tokens, axis)
    if c.positions == "learned":
        x = x + params["positions"]["table"][c.position_offset : c.position_offset + tokens.shape[1]]
    if c.types:
        x = x + (rows(params["types"]["table"], inputs["types"]) if "types" in inputs else params["types"]["table"][0])
    x = normed(params["embed_norm"], c, x)
    if "embed_in" in params:
        x = dense(params["embed_in"], x)
    return x


def states(params, c, inputs, axis=None):
    """Hidden states of inputs["tokens"][batch, seq]; inputs["mask"] is True where there is a token."""
    x = embedded(params, c, inputs, axis)
    mask = inputs["mask"][:, None, None, :] if "mask" in inputs else None
    bias = None
    if c.distances:
        x = x if mask is None else x * inputs["mask"][..., None].astype(x.dtype)
        bias = params["distances"]["table"]
        bias = norm(params["distances"], bias, c.eps) if c.distances.normed else bias
        mask = mask if mask is None else mask & mask.swapaxes(-1, -2)
    for i in range(c.layers):
        own = c.layer(0 if c.shared else i)
        angles = rope_angles(own.rope, own.head_dim, jnp.arange(x.shape[1]), x.shape[1]) if own.positions == "rope" else None
        seen = mask
        if own.window:
            seen = near_mask(x.shape[1], own.window) if mask is None else mask & near_mask(x.shape[1], own.window)
        with layer_scope(i):
            x, _ = block(params["layers"][0 if c.shared else i], own, x, angles, mask=seen, bias=bias, axis=axis)
    return normed(params["norm"], c, x) if c.final_norm else x


@jax.named_scope("head")
def masked_scores(params, c, x, axis):
    """Logits over the part of the vocabulary this core has."""
    h = ACTIVATIONS[c.masked_activation or c.activation](dense(params["masked"]["dense"], x))
    return copied(normed(params["masked"]["norm"], c, h), axis) @ params["tokens"]["table"].T + params["masked"]["bias"]


@jax.named_scope("head")
def classified(params, c, x):
    """Logits of the classes, from the state of the first token."""
    return dense(params["classifier"], ACTIVATIONS[c.pooler](dense(params["pooler"], x[:, 0])))


def forward(params, c, inputs, axis=None):
    """Hidden states, or what the head makes of them: logits of every token, or of the classes."""
    x = states(params, c, inputs, axis)
    if c.head == "masked":
        y = masked_scores(params, c, x, axis)
        return y if axis is None else jax.lax.all_gather(y, axis, axis=2, tiled=True)[..., : c.vocab]
    if c.head == "classes":
        return classified(params, c, x)
    return x


def loss(params, c, inputs, axis=None):
    """Cross-entropy of inputs["labels"]: per token, below zero not counted, or per row for classes."""
    x = states(params, c, inputs, axis)
    if c.head == "classes":
        return cross_entropy(classified(params, c, x), inputs["labels"])
    return cross_entropy(masked_scores(params, c, x, axis), inputs["labels"], axis, c.vocab)


def input_shapes(c, phase, batch, seq):
    inputs = {"tokens": ((batch, seq), "int32"), "mask": ((batch, seq), "bool")}
    if phase == "train":
        inputs["labels"] = ((batch,) if c.head == "classes" else (batch, seq), "int32")
    return inputs
