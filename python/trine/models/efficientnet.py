"""EfficientNet, NHWC: narrow blocks that widen, look at each channel, weigh the channels and narrow again.

The tree of parameters is spelled as the files spell their tensors. Tensor parallelism does not cut it.
"""

import functools

import jax
import jax.numpy as jnp

from trine.models import parameters as p
from trine.models.classifier import classifier
from trine.models.convolution import batch_norm, conv
from trine.models.layers import ACTIVATIONS, dense


def parameters(c):
    def one(b):
        wide = b.inputs * b.expand
        tree = {} if b.expand == 1 else {"expansion": {"expand_conv": p.conv(1, b.inputs, wide), "expand_bn": p.batch_norm(wide)}}
        few = max(1, int(b.inputs * c.squeeze))
        return tree | {
            "depthwise_conv": {"depthwise_conv": p.conv(b.kernel, 1, wide), "depthwise_norm": p.batch_norm(wide)},
            "squeeze_excite": {"reduce": p.conv(1, wide, few, True), "expand": p.conv(1, few, wide, True)},
            "projection": {"project_conv": p.conv(1, wide, b.outputs), "project_bn": p.batch_norm(b.outputs)},
        }

    stem = {"convolution": p.conv(3, c.channels, c.stem), "batchnorm": p.batch_norm(c.stem)}
    top = {"top_conv": p.conv(1, c.blocks[-1].outputs, c.top), "top_bn": p.batch_norm(c.top)}
    body = {"embeddings": stem, "encoder": {"blocks": [one(b) for b in c.blocks]} | top}
    return {"efficientnet": body, "classifier": p.dense(c.top, c.classes)}


def normed(params, name, x, c, training):
    y, statistics = batch_norm(params[name], x, c.eps, training, 0.01)
    return y, {name: statistics}


@functools.partial(jax.jit, static_argnames=("c", "b", "training"))
def block(params, c, b, x, training):
    """(x after a block, its running statistics)"""
    act, y, running = ACTIVATIONS[c.activation], x, {}
    if "expansion" in params:
        y, running["expansion"] = normed(params["expansion"], "expand_bn", conv(params["expansion"]["expand_conv"], y), c, training)
        y = act(y)
    half = b.kernel // 2
    pad = (half - 1, half) if b.stride == 2 and b.after else (half, half)
    y = conv(params["depthwise_conv"]["depthwise_conv"], y, b.stride, pad=pad)
    y, running["depthwise_conv"] = normed(params["depthwise_conv"], "depthwise_norm", y, c, training)
    y = act(y)
    weigh = act(conv(params["squeeze_excite"]["reduce"], y.mean((1, 2), keepdims=True)))
    y = y * jax.nn.sigmoid(conv(params["squeeze_excite"]["expand"], weigh))
    y, running["projection"] = normed(params["projection"], "project_bn", conv(params["projection"]["project_conv"], y), c, training)
    return (x + y if b.adds else y), running


def run(params, c, images, training):
    """(logits, running statistics in a tree like the parameters')."""
    body, act = params["efficientnet"], ACTIVATIONS[c.activation]
    with jax.named_scope("stem"):
        x = conv(body["embeddings"]["convolution"], images, 2, pad=(0, 1))
        x, stem = normed(body["embeddings"], "batchnorm", x, c, training)
        x, blocks = act(x), []
    for i, (layer, b) in enumerate(zip(body["encoder"]["blocks"], c.blocks, strict=True)):
        with jax.named_scope(f"block {i}"):
            x, running = block(layer, c, b, x, training)
        blocks.append(running)
    with jax.named_scope("head"):
        x, top = normed(body["encoder"], "top_bn", conv(body["encoder"]["top_conv"], x), c, training)
        logits = dense(params["classifier"], jnp.mean(act(x), (1, 2)))
    return logits, {"efficientnet": {"embeddings": stem, "encoder": {"blocks": blocks} | top}}


forward, loss, loss_and_statistics, input_shapes = classifier(run, lambda c: c.image)
