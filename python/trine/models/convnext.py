"""ConvNeXt, both versions, NHWC: wide convolutions of each channel, then an MLP over channels.

The tree of parameters is spelled as the files spell their tensors. Tensor parallelism does not cut it.
"""

import functools

import jax
import jax.numpy as jnp

from trine.models import parameters as p
from trine.models.convolution import conv
from trine.models.layers import ACTIVATIONS, dense, norm
from trine.models.training import cross_entropy


def parameters(c):
    def layer(width):
        tree = {"dwconv": p.conv(7, 1, width, True), "layernorm": p.norm(width, "layer"), "pwconv1": p.dense(width, 4 * width),
                "pwconv2": p.dense(4 * width, width)}  # fmt: skip
        if c.version == 2:
            return tree | {"grn": p.norm(4 * width, "layer")}
        return tree | ({"layer_scale_parameter": {"value": p.Parameter((width,), "ones")}} if c.scaled else {})

    stages, have = [], c.widths[0]
    for i, (width, depth) in enumerate(zip(c.widths, c.depths, strict=True)):
        shrink = {"downsampling_layer": [p.norm(have, "layer"), p.conv(2, have, width, True)]} if i else {}
        stages.append(shrink | {"layers": [layer(width) for _ in range(depth)]})
        have = width
    stem = {"patch_embeddings": p.conv(c.patch, c.channels, c.widths[0], True), "layernorm": p.norm(c.widths[0], "layer")}
    body = {"embeddings": stem, "encoder": {"stages": stages}, "layernorm": p.norm(have, "layer")}
    return {c.name: body, "classifier": p.dense(have, c.classes)}


def responses(params, x):
    """Channels by how much of the image each answers to, beside the others."""
    strength = jnp.sqrt((x * x).sum((1, 2), keepdims=True))
    return params["scale"] * (x * (strength / (strength.mean(-1, keepdims=True) + 1e-6))) + params["bias"] + x


@functools.partial(jax.jit, static_argnames="c")
def block(params, c, x):
    y = norm(params["layernorm"], conv(params["dwconv"], x), 1e-6)
    y = ACTIVATIONS[c.activation](dense(params["pwconv1"], y))
    y = dense(params["pwconv2"], responses(params["grn"], y) if c.version == 2 else y)
    return x + (y * params["layer_scale_parameter"]["value"] if "layer_scale_parameter" in params else y)


def forward(params, c, inputs, axis=None):
    """Logits of inputs["images"][batch, height, width, channels]."""
    body = params[c.name]
    with jax.named_scope("stem"):
        x = conv(body["embeddings"]["patch_embeddings"], inputs["images"], c.patch, pad=0)
        x = norm(body["embeddings"]["layernorm"], x, 1e-6)
    for i, stage in enumerate(body["encoder"]["stages"]):
        if "downsampling_layer" in stage:
            first, shrink = stage["downsampling_layer"]
            x = conv(shrink, norm(first, x, 1e-6), 2, pad=0)
        for n, layer in enumerate(stage["layers"]):
            with jax.named_scope(f"stage {i}/block {n}"):
                x = block(layer, c, x)
    with jax.named_scope("head"):
        return dense(params["classifier"], norm(body["layernorm"], jnp.mean(x, (1, 2)), c.eps))


def loss(params, c, inputs, axis=None):
    return cross_entropy(forward(params, c, inputs), inputs["labels"])


def input_shapes(c, phase, batch, seq):
    images = {"images": ((batch, seq or c.image, seq or c.image, c.channels), "float")}
    return images | ({"labels": ((batch,), "int32")} if phase == "train" else {})
