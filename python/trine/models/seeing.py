"""Decoders that see: a tower reads images, what it says is put among the tokens, and a decoder goes on from there.

LLaVA has CLIP's tower; Qwen2-VL and 2.5 have one whose patches turn by row and column, four of which become one token.
Images are square and all of one size. Where a decoder has three positions per token they are inputs["positions"]
[3, batch, seq], as the maker's own processor computes them.
"""

import jax
import jax.numpy as jnp
import numpy as np

from trine.models import decoder, vision
from trine.models import parameters as p
from trine.models.block import block, layer_scope, layers_parameters, normed
from trine.models.layers import ACTIVATIONS, dense, norm, rows
from trine.models.training import cross_entropy


def parameters(c):
    s, merged = c.vision, c.vision.width * c.merge**2
    if c.merge == 1:
        tower = vision.tower_parameters(s)
        joint = {"one": p.dense(s.width, c.text.width, c.joint_bias)}
        joint |= {"norm": p.norm(s.width, "rms1")} if c.pooled else {"two": p.dense(c.text.width, c.text.width, c.joint_bias)}
    else:
        tower = {"patches": {"w": p.Parameter((c.frames * s.channels * s.patch**2, s.width))}, "layers": layers_parameters(s),
            "norm": p.norm(s.width, s.norm)}
        joint = {"one": p.dense(merged, merged), "two": p.dense(merged, c.text.width)}
    return {"text": decoder.parameters(c.text), "vision": tower, "joint": joint}


def places(c, rows_):
    """(rows, columns) of the patches of a square of that many, in the order of the file: those that become one token lie
    together."""
    m = c.merge
    at = np.arange(rows_ * rows_).reshape(rows_ // m, m, rows_ // m, m).transpose(0, 2, 1, 3).reshape(-1)
    return at // rows_, at % rows_


def window_order(c, rows_):
    """(order of the patches, those of a window together; how many one has), or None where windows do not divide the image."""
    units, each = rows_ // c.merge, c.window
    if not each or units % each:
        return None
    at = np.arange(units * units).reshape(units // each, each, units // each, each).transpose(0, 2, 1, 3).reshape(-1)
    order = (at[:, None] * c.merge**2 + np.arange(c.merge**2)).reshape(-1)
    return order, each * each * c.merge**2


def same_window(c, rows_):
    row, column = (at // (c.window * c.merge) for at in places(c, rows_))
    return jnp.asarray((row[:, None] == row[None]) & (column[:, None] == column[None]))[None, None]


def rotary_tower(params, c, patches, axis):
    """[images, tokens, width of the text] of patches[images, patches, numbers of one]."""
    s = c.vision
    images, count, _ = patches.shape
    rows_ = int(count**0.5)
    x = patches @ params["patches"]["w"]
    frequency = 1 / 10000.0 ** (np.arange(0, s.head_dim // 2, 2, dtype=np.float32) / (s.head_dim // 2))
    angle = np.concatenate([np.outer(at, frequency) for at in places(c, rows_)], -1)
    windows = window_order(c, rows_)
    if windows:
        order, each = windows
        x, angle = x[:, order], angle[order]
    cos, sin = jnp.asarray(np.cos(angle), jnp.float32), jnp.asarray(np.sin(angle), jnp.float32)
    for i, layer in enumerate(params["layers"]):
        own, near = s.layer(i), c.window and i not in c.whole
        with layer_scope(i, "image"):
            if near and windows:
                split = x.reshape(images * count // each, each, -1)
                angles = tuple(jnp.tile(a.reshape(-1, each, a.shape[-1]), (images, 1, 1)) for a in (cos, sin))
                x = block(layer, own, split, angles, axis=axis)[0].reshape(images, count, -1)
            else:
                x, _ = block(layer, own, x, (cos, sin), same_window(c, rows_) if near else None, axis=axis)
    x = normed(params["norm"], s, x)
    if windows:
        x = x[:, np.argsort(order)]
    return x.reshape(images, count // c.merge**2, -1)


def clip_tower(params, c, images, axis):
    """[images, patches, width]: the states after all layers but the last ones, without the first token; after all of them
    and their norm where there is none."""
    s = c.vision
    x = vision.embedded(params, s, images)
    for i, layer in enumerate(params["layers"][: s.layers + 1 + c.layer if c.layer < 0 else c.layer or s.layers]):
        with layer_scope(i, "image"):
            x, _ = block(layer, s, x, axis=axis)
    x = x if c.layer else normed(params["norm"], s, x)
    return x[:, 1:] if c.without_first and s.first_token else x


def seen(params, c, images, axis):
    """[images, tokens, width of the text]"""
    tower = clip_tower if c.merge == 1 else rotary_tower
    x = tower(params["vision"], c, images, axis)
    with jax.named_scope("joint"):
        if c.pooled:
            side, each = c.pooled, c.vision.image // c.vision.patch // c.pooled
            x = x.reshape(x.shape[0], side, each, side, each, -1).mean((2, 4)).reshape(x.shape[0], side * side, -1)
            return dense(params["joint"]["one"], norm(params["joint"]["norm"], x, c.vision.eps, True))
        return dense(params["joint"]["two"], ACTIVATIONS[c.joint_activation](dense(params["joint"]["one"], x)))


def embedded(params, c, inputs, axis):
    """Tokens as vectors, those that stand for a part of an image replaced by what was seen, in order."""
    tokens = inputs["tokens"]
    x = decoder.embedded(params["text"], c.text, tokens, jnp.arange(tokens.shape[1]), axis)
    if "images" not in inputs:
        return x
    found = seen(params, c, inputs["images"], axis)
    found = found.reshape(-1, found.shape[-1])
    here = (tokens == c.token).reshape(-1)
    which = jnp.clip(jnp.cumsum(here) - 1, 0, found.shape[0] - 1)
    put = rows(found, which).reshape(x.shape)
    return jnp.where(here.reshape(*tokens.shape, 1), put.astype(x.dtype), x)


def states(params, c, inputs, cache=None, at=0, axis=None):
    x, images = embedded(params, c, inputs, axis), None
    if c.together and "images" in inputs:
        here = inputs["tokens"] == c.token
        images = jnp.where(here, jnp.cumsum(here & ~jnp.pad(here, ((0, 0), (1, 0)))[:, :-1], 1), -1)
    return decoder.states(params["text"], c.text, inputs["tokens"], cache, at, axis, x, inputs.get("positions"), images)


def forward(params, c, inputs, axis=None):
    """Logits of every position of inputs["tokens"][batch, seq], having seen inputs["images"]."""
    return decoder.logits(params["text"], c.text, states(params, c, inputs, axis=axis)[0], axis)


def prefill(params, c, inputs, cache, axis=None, at=0):
    """(logits of the last position, cache)"""
    x, cache = states(params, c, inputs, cache, at, axis)
    return decoder.logits(params["text"], c.text, x[:, -1:], axis)[:, 0], cache


def decode(params, c, inputs, cache, axis=None):
    """(logits, cache) of one more token per row, inputs["tokens"][batch, 1], at position inputs["at"]."""
    x, cache = states(params, c, inputs, cache, inputs["at"], axis)
    return decoder.logits(params["text"], c.text, x[:, -1:], axis)[:, 0], cache


def loss(params, c, inputs, axis=None):
    """Cross-entropy of inputs["labels"][batch, seq]; a label below zero is not counted."""
    x, _ = states(params, c, inputs, axis=axis)
    return cross_entropy(decoder.scores(params["text"], c.text, x, axis), inputs["labels"], axis, c.text.vocab)


def cache_shapes(c, batch, length, cores=1):
    return decoder.cache_shapes(c.text, batch, length, cores)


def cache_specs(c, axis):
    return decoder.cache_specs(c.text, axis)


def image_tokens(c):
    """Tokens that an image becomes."""
    if c.pooled:
        return c.pooled**2
    return c.vision.patches // c.merge**2 + (0 if c.without_first or c.merge > 1 else 1)


def input_shapes(c, phase, batch, seq):
    """An image per row, whose tokens are among the `seq`."""
    s = c.vision
    inputs = decoder.input_shapes(c.text, phase, batch, seq)
    if c.text.rope.sections:
        inputs["positions"] = ((3, *inputs["tokens"][0]), "int32")
    if phase == "decode":
        return inputs
    shape = (batch, s.image, s.image, s.channels) if c.merge == 1 else (batch, s.patches, c.frames * s.channels * s.patch**2)
    return inputs | {"images": (shape, "float")}
