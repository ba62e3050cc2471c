"""Swin: attention inside windows of an image, which every other block moves by half of one; four stages that halve it.

The tree of parameters is spelled as the files spell their tensors. Tensor parallelism does not cut it.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from trine.models import parameters as p
from trine.models.convolution import conv
from trine.models.layers import ACTIVATIONS, attend, dense, norm
from trine.models.training import cross_entropy


def parameters(c):
    def one(width, heads):
        table = {"value": p.Parameter(((2 * c.window - 1) ** 2, heads))}
        own = {name: p.dense(width, width, c.qkv_bias) for name in ("query", "key", "value")} | {"relative_position_bias_table": table}
        ffn = int(c.ratio * width)
        return {"layernorm_before": p.norm(width, "layer"), "layernorm_after": p.norm(width, "layer"),
                "attention": {"self": own, "output": {"dense": p.dense(width, width)}},
                "intermediate": {"dense": p.dense(width, ffn)}, "output": {"dense": p.dense(ffn, width)}}  # fmt: skip

    layers, width = [], c.width
    for i, (depth, heads) in enumerate(zip(c.depths, c.heads, strict=True)):
        layer = {"blocks": [one(width, heads) for _ in range(depth)]}
        if i < len(c.depths) - 1:
            layer["downsample"] = {"norm": p.norm(4 * width, "layer"), "reduction": p.dense(4 * width, 2 * width, False)}
            width *= 2
        layers.append(layer)
    stem = {"patch_embeddings": {"projection": p.conv(c.patch, c.channels, c.width, True)}, "norm": p.norm(c.width, "layer")}
    body = {"embeddings": stem, "encoder": {"layers": layers}, "layernorm": p.norm(width, "layer")}
    return {"swin": body, "classifier": p.dense(width, c.classes)}


def pairs(window):
    """[window², window²]: the row of the table for a pair of places in a window."""
    at = np.stack(np.meshgrid(np.arange(window), np.arange(window), indexing="ij")).reshape(2, -1)
    distance = at[:, :, None] - at[:, None] + window - 1
    return distance[0] * (2 * window - 1) + distance[1]


def apart(height, width, window, shift):
    """[windows, places, places]: which places of a moved window belong together."""
    def regions(length):
        at = np.arange(length)
        return (at >= length - window).astype(int) + (at >= length - shift)

    region = regions(height)[:, None] * 3 + regions(width)[None]
    region = region.reshape(height // window, window, width // window, window).swapaxes(1, 2).reshape(-1, window * window)
    return region[:, :, None] == region[:, None]


def in_windows(x, window):
    """[batch, windows, places, channels]"""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height // window, window, width // window, window, channels).swapaxes(2, 3)
    return x.reshape(batch, -1, window * window, channels)


@functools.partial(jax.jit, static_argnames=("c", "heads", "shift"))
def block(params, c, x, heads, shift):
    batch, height, width, channels = x.shape
    window = min(c.window, height, width)
    shift = 0 if min(height, width) <= c.window else shift
    y = norm(params["layernorm_before"], x, c.eps)
    high, wide = -(-height // window) * window, -(-width // window) * window
    y = jnp.pad(y, ((0, 0), (0, high - height), (0, wide - width), (0, 0)))
    y = jnp.roll(y, (-shift, -shift), (1, 2)) if shift else y
    y = in_windows(y, window)
    count = y.shape[1]
    y = y.reshape(batch * count, window * window, channels)
    own = params["attention"]["self"]
    q, k, v = (dense(own[name], y).reshape(*y.shape[:2], heads, -1) for name in ("query", "key", "value"))
    bias = own["relative_position_bias_table"]["value"][pairs(window).reshape(-1)].reshape(window**2, window**2, heads).transpose(2, 0, 1)
    mask = None
    if shift:
        mask = jnp.tile(jnp.asarray(apart(high, wide, window, shift)), (batch, 1, 1))[:, None]
    y = dense(params["attention"]["output"]["dense"], attend(q, k, v, mask, None, bias))
    y = y.reshape(batch, high // window, wide // window, window, window, channels).swapaxes(2, 3).reshape(batch, high, wide, channels)
    y = jnp.roll(y, (shift, shift), (1, 2)) if shift else y
    x = x + y[:, :height, :width]
    y = ACTIVATIONS[c.activation](dense(params["intermediate"]["dense"], norm(params["layernorm_after"], x, c.eps)))
    return x + dense(params["output"]["dense"], y)


def halved(params, c, x):
    """Four places become one of twice the channels."""
    batch, height, width, channels = x.shape
    x = jnp.pad(x, ((0, 0), (0, height % 2), (0, width % 2), (0, 0)))
    x = x.reshape(batch, (height + 1) // 2, 2, (width + 1) // 2, 2, channels).transpose(0, 1, 3, 4, 2, 5)
    x = x.reshape(*x.shape[:3], 4 * channels)
    return dense(params["reduction"], norm(params["norm"], x, 1e-5))


def forward(params, c, inputs, axis=None):
    """Logits of inputs["images"][batch, height, width, channels]."""
    body = params["swin"]
    with jax.named_scope("stem"):
        x = conv(body["embeddings"]["patch_embeddings"]["projection"], inputs["images"], c.patch, pad=0)
        x = norm(body["embeddings"]["norm"], x, 1e-5)
    for i, layer in enumerate(body["encoder"]["layers"]):
        for n, one in enumerate(layer["blocks"]):
            with jax.named_scope(f"stage {i}/block {n}"):
                x = block(one, c, x, c.heads[i], c.window // 2 if n % 2 else 0)
        x = halved(layer["downsample"], c, x) if "downsample" in layer else x
    with jax.named_scope("head"):
        return dense(params["classifier"], norm(body["layernorm"], x, c.eps).mean((1, 2)))


def loss(params, c, inputs, axis=None):
    return cross_entropy(forward(params, c, inputs), inputs["labels"])


def input_shapes(c, phase, batch, seq):
    images = {"images": ((batch, c.image, c.image, c.channels), "float")}
    return images | ({"labels": ((batch,), "int32")} if phase == "train" else {})
