"""ResNet with basic or bottleneck blocks, NHWC. Tensor parallelism does not cut it."""

import functools

import jax
import jax.numpy as jnp

from trine.models import parameters as p
from trine.models.classifier import classifier
from trine.models.convolution import batch_norm, conv, max_pool
from trine.models.layers import ACTIVATIONS, dense


def blocks(c):
    """(stage, block, inputs, outputs, stride) of each block in order."""
    have = c.stem
    for stage, (width, depth) in enumerate(zip(c.widths, c.depths, strict=True)):
        for i in range(depth):
            stride = 2 if i == 0 and (stage > 0 or c.shrink_first) else 1
            yield stage, i, have, width, stride
            have = width


def parameters(c):
    def one(size, inputs, outputs):
        return {"conv": p.conv(size, inputs, outputs), "norm": p.batch_norm(outputs)}

    stages = [[] for _ in c.depths]
    for stage, _, inputs, outputs, stride in blocks(c):
        inner = outputs // 4
        if c.bottleneck:
            units = [one(1, inputs, inner), one(3, inner, inner), one(1, inner, outputs)]
        else:
            units = [one(3, inputs, outputs), one(3, outputs, outputs)]
        skip = {"skip": one(1, inputs, outputs)} if inputs != outputs or stride != 1 else {}
        stages[stage].append({"units": units} | skip)
    return {"stem": one(7, c.channels, c.stem), "stages": stages, "classifier": p.dense(c.widths[-1], c.classes)}


def unit(params, c, x, stride, training):
    y, statistics = batch_norm(params["norm"], conv(params["conv"], x, stride), c.eps, training)
    return y, {"norm": statistics}


@functools.partial(jax.jit, static_argnames=("c", "stride", "training"))
def block(params, c, x, stride, training):
    """(x after a block, its running statistics)."""
    shrinks = (0 if c.shrink_early else 1) if c.bottleneck else 0
    y, running = x, {"units": []}
    for n, u in enumerate(params["units"]):
        y, statistics = unit(u, c, y if n == 0 else ACTIVATIONS["relu"](y), stride if n == shrinks else 1, training)
        running["units"].append(statistics)
    if "skip" in params:
        x, running["skip"] = unit(params["skip"], c, x, stride, training)
    return ACTIVATIONS[c.activation](y + x), running


def run(params, c, images, training):
    """(logits, running statistics in a tree like the parameters')."""
    running = {"stages": [[] for _ in c.depths]}
    with jax.named_scope("stem"):
        x, running["stem"] = unit(params["stem"], c, images, 2, training)
        x = max_pool(ACTIVATIONS[c.activation](x), 3, 2)
    for stage, i, _, _, stride in blocks(c):
        with jax.named_scope(f"stage {stage}/block {i}"):
            x, statistics = block(params["stages"][stage][i], c, x, stride, training)
        running["stages"][stage].append(statistics)
    with jax.named_scope("head"):
        return dense(params["classifier"], jnp.mean(x, (1, 2))), running


forward, loss, loss_and_statistics, input_shapes = classifier(run)
