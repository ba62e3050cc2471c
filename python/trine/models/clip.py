"""CLIP: a text and an image into one space; logits are how near each text lies to each image."""

import jax.numpy as jnp

from trine.models import parameters as p
from trine.models import vision
from trine.models.block import block, block_parameters, causal_mask, layer_scope, normed
from trine.models.layers import dense, embed
from trine.models.training import cross_entropy


def parameters(c):
    text = {
        "tokens": p.table(c.text.vocab, c.text.width, split=0),
        "positions": p.table(c.text.context, c.text.width),
        "layers": [block_parameters(c.text) for _ in range(c.text.layers)],
        "norm": p.norm(c.text.width, c.text.norm),
        "projection": p.dense(c.text.width, c.width, False),
    }
    seen = vision.tower_parameters(c.vision) | {"projection": p.dense(c.vision.width, c.width, False)}
    return {"text": text, "vision": seen, "scale": {"table": p.Parameter((), "ones")}}


def text_features(params, c, tokens, axis=None):
    s, seq = c.text, tokens.shape[1]
    x = embed(params["tokens"], tokens, axis) + params["positions"]["table"][:seq]
    mask = causal_mask(jnp.arange(seq), seq, 0)
    for i, layer in enumerate(params["layers"]):
        with layer_scope(i, "text"):
            x, _ = block(layer, s, x, mask=mask, axis=axis)
    x = normed(params["norm"], s, x)
    end = tokens.argmax(-1) if c.end == 2 else (tokens == c.end).argmax(-1)
    return dense(params["projection"], jnp.take_along_axis(x, end[:, None, None], 1, mode="promise_in_bounds", wrap_negative_indices=False)[:, 0])


def image_features(params, c, images, axis=None):
    x = vision.states(params, c.vision, images, axis)
    return dense(params["projection"], normed(params["norm"], c.vision, x[:, 0]))


def unit(x):
    return x / jnp.sqrt((x * x).sum(-1, keepdims=True))


def forward(params, c, inputs, axis=None):
    """[texts, images]"""
    text = unit(text_features(params["text"], c, inputs["tokens"], axis))
    image = unit(image_features(params["vision"], c, inputs["images"], axis))
    return text @ image.T * jnp.exp(params["scale"]["table"])


def loss(params, c, inputs, axis=None):
    """Each text belongs to the image of its row, and the other way round."""
    logits = forward(params, c, inputs, axis)
    rows = jnp.arange(logits.shape[0])
    return (cross_entropy(logits, rows) + cross_entropy(logits.T, rows)) / 2


def input_shapes(c, phase, batch, seq):
    text = {"tokens": ((batch, min(seq, c.text.context)), "int32")}
    return text | vision.input_shapes(c.vision, "forward", batch, seq)
