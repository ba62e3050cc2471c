"""ResNet with bottleneck blocks, NHWC: 50 layers by default."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from trine.models.convolution import batch_norm, batch_norm_init, conv, conv_init, max_pool
from trine.models.layers import dense, dense_init


@dataclass(frozen=True)
class ResNetConfig:
    depths: tuple = (3, 4, 6, 3)
    width: int = 64
    classes: int = 1000


def init(config, key):
    keys = iter(jax.random.split(key, 4 * sum(config.depths) + len(config.depths) + 2))

    def unit(size, inputs, outputs):
        return {"conv": conv_init(next(keys), size, inputs, outputs), "norm": batch_norm_init(outputs)}

    params = {"stem": unit(7, 3, config.width), "stages": []}
    channels = config.width
    for i, depth in enumerate(config.depths):
        inner, outer = config.width << i, config.width << (i + 2)
        blocks = []
        for b in range(depth):
            block = {"a": unit(1, channels, inner), "b": unit(3, inner, inner), "c": unit(1, inner, outer)}
            if b == 0:
                block["skip"] = unit(1, channels, outer)
            blocks.append(block)
            channels = outer
        params["stages"].append(blocks)
    params["head"] = dense_init(next(keys), channels, config.classes)
    return params


def _unit(params, x, stride=1):
    return batch_norm(params["norm"], conv(params["conv"], x, stride))


def forward(params, config, images):
    """Logits of images[batch, height, width, 3]."""
    x = max_pool(jax.nn.relu(_unit(params["stem"], images, 2)), 3, 2)
    for i, blocks in enumerate(params["stages"]):
        for b, block in enumerate(blocks):
            stride = 2 if b == 0 and i > 0 else 1
            y = jax.nn.relu(_unit(block["a"], x))
            y = jax.nn.relu(_unit(block["b"], y, stride))
            y = _unit(block["c"], y)
            x = jax.nn.relu(y + (_unit(block["skip"], x, stride) if "skip" in block else x))
    return dense(params["head"], jnp.mean(x, (1, 2)))
