"""A diffusion UNet, NHWC: residual blocks with a time embedding, attention at the lowest levels."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from trine.models.convolution import conv, conv_init, group_norm
from trine.models.layers import attend, dense, dense_init, norm_init


@dataclass(frozen=True)
class UNetConfig:
    channels: int = 3
    width: int = 32
    levels: int = 3
    groups: int = 8
    heads: int = 4


def _norm_init(width):
    return norm_init(width, "layer")


def _block_init(keys, inputs, outputs, time):
    block = {
        "norm1": _norm_init(inputs),
        "conv1": conv_init(next(keys), 3, inputs, outputs, True),
        "time": dense_init(next(keys), time, outputs),
        "norm2": _norm_init(outputs),
        "conv2": conv_init(next(keys), 3, outputs, outputs, True),
    }
    if inputs != outputs:
        block["skip"] = conv_init(next(keys), 1, inputs, outputs, True)
    return block


def init(config, key):
    c, time = config, config.width * 4
    keys = iter(jax.random.split(key, 40 * c.levels + 20))
    widths = [c.width << i for i in range(c.levels)]
    params = {
        "time1": dense_init(next(keys), c.width, time),
        "time2": dense_init(next(keys), time, time),
        "in": conv_init(next(keys), 3, c.channels, c.width, True),
        "down": [],
        "up": [],
    }
    have = c.width
    for w in widths:
        params["down"].append({"block": _block_init(keys, have, w, time), "shrink": conv_init(next(keys), 3, w, w, True)})
        have = w
    params["middle"] = {
        "block1": _block_init(keys, have, have, time),
        "norm": _norm_init(have),
        "qkv": dense_init(next(keys), have, 3 * have),
        "o": dense_init(next(keys), have, have),
        "block2": _block_init(keys, have, have, time),
    }
    for w in reversed(widths):
        params["up"].append({"grow": conv_init(next(keys), 3, have, w, True), "block": _block_init(keys, 2 * w, w, time)})
        have = w
    params["norm"] = _norm_init(have)
    params["out"] = conv_init(next(keys), 3, have, c.channels, True)
    return params


def _block(p, x, time, groups):
    y = conv(p["conv1"], jax.nn.silu(group_norm(p["norm1"], x, groups)))
    y = y + dense(p["time"], jax.nn.silu(time))[:, None, None, :]
    y = conv(p["conv2"], jax.nn.silu(group_norm(p["norm2"], y, groups)))
    return y + (conv(p["skip"], x) if "skip" in p else x)


def _attention(p, x, c):
    batch, height, width, channels = x.shape
    y = group_norm(p["norm"], x, c.groups).reshape(batch, height * width, channels)
    q, k, v = (
        part.reshape(batch, height * width, c.heads, channels // c.heads)
        for part in jnp.split(dense(p["qkv"], y), 3, -1)
    )
    return x + dense(p["o"], attend(q, k, v, None)).reshape(x.shape)


def forward(params, config, images, times):
    """The noise in images[batch, height, width, channels] at times[batch]."""
    c = config
    half = c.width // 2
    angle = times[:, None] * jnp.exp(-jnp.log(10000.0) * jnp.arange(half) / half)
    time = jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], -1)
    time = dense(params["time2"], jax.nn.silu(dense(params["time1"], time)))
    x, kept = conv(params["in"], images), []
    for level in params["down"]:
        x = _block(level["block"], x, time, c.groups)
        kept.append(x)
        x = conv(level["shrink"], x, 2)
    m = params["middle"]
    x = _block(m["block2"], _attention(m, _block(m["block1"], x, time, c.groups), c), time, c.groups)
    for level in params["up"]:
        batch, height, width, channels = x.shape
        x = jnp.broadcast_to(x[:, :, None, :, None], (batch, height, 2, width, 2, channels))
        x = conv(level["grow"], x.reshape(batch, 2 * height, 2 * width, channels))
        x = _block(level["block"], jnp.concatenate([x, kept.pop()], -1), time, c.groups)
    return conv(params["out"], jax.nn.silu(group_norm(params["norm"], x, c.groups)))
