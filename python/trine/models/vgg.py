"""VGG, NHWC: 3x3 convolutions and pooling, then three dense layers; spelled as torchvision spells its tensors."""

import jax
import jax.numpy as jnp

from trine.models import parameters as p
from trine.models.classifier import classifier
from trine.models.convolution import batch_norm, conv, max_pool
from trine.models.layers import dense

POOLED = 7  # rows and columns that the dense layers take


def steps(c):
    """(number of the convolution in the file, inputs, outputs) or None for pooling, in order."""
    at, have = 0, c.channels
    for width in c.widths:
        if width == "M":
            yield None
            at += 1
            continue
        yield at, have, width
        at, have = at + (3 if c.normed else 2), width


def parameters(c):
    features = {}
    for step in steps(c):
        if step:
            at, inputs, outputs = step
            features[str(at)] = p.conv(3, inputs, outputs, True)
            if c.normed:
                features[str(at + 1)] = p.batch_norm(outputs)
    last = [width for width in c.widths if width != "M"][-1] * POOLED * POOLED
    dense_layers = {"0": p.dense(last, c.hidden), "3": p.dense(c.hidden, c.hidden), "6": p.dense(c.hidden, c.classes)}
    return {"features": features, "classifier": dense_layers}


def evenly(x, size):
    """Means of size x size parts of an image whose sides are so many times that size, or divide it."""
    batch, height, width, channels = x.shape
    if height % size == 0 and width % size == 0:
        return x.reshape(batch, size, height // size, size, width // size, channels).mean((2, 4))
    return jnp.repeat(jnp.repeat(x, size // height, 1), size // width, 2)


def run(params, c, images, training):
    x, running = images, {}
    for n, step in enumerate(steps(c)):
        with jax.named_scope(f"step {n}"):
            if step is None:
                x = max_pool(x, 2, 2, pad=0)
                continue
            x = conv(params["features"][str(step[0])], x)
            if c.normed:
                x, running[str(step[0] + 1)] = batch_norm(params["features"][str(step[0] + 1)], x, training=training)
            x = jax.nn.relu(x)
    with jax.named_scope("head"):
        x = evenly(x, POOLED).transpose(0, 3, 1, 2).reshape(x.shape[0], -1)
        for n in ("0", "3"):
            x = jax.nn.relu(dense(params["classifier"][n], x))
        return dense(params["classifier"]["6"], x), {"features": running}


forward, loss, loss_and_statistics, input_shapes = classifier(run)
