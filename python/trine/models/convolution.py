"""Convolutions in NHWC with the layers that go with them. Padding is half the kernel on each side, as in PyTorch."""

import jax
import jax.numpy as jnp


def conv(params, x, stride=1, pad=None):
    """pad: zeros around the image, or (before, after); None: half the kernel. A kernel of fewer inputs than x has is one
    per group of them."""
    half = params["w"].shape[0] // 2 if pad is None else pad
    pads = half if isinstance(half, tuple) else (half, half)
    groups = x.shape[-1] // params["w"].shape[2]
    y = jax.lax.conv_general_dilated(x, params["w"], (stride, stride), (pads, pads),
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups)  # fmt: skip
    return y + params["b"] if "b" in params else y


def conv1(params, x, stride=1, pad=0, groups=1):
    """Over one axis: x[batch, length, channels]; pad: zeros before and after, or (before, after)."""
    pads = pad if isinstance(pad, tuple) else (pad, pad)
    y = jax.lax.conv_general_dilated(x, params["w"], (stride,), (pads,), dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=groups)
    return y + params["b"] if "b" in params else y


def batch_norm(params, x, eps=1e-5, training=False, momentum=0.1):
    """(y, running mean and variance): by the running ones, or in training by the batch's, which move the running ones."""
    statistics = {"mean": params["mean"], "var": params["var"]}
    if training:
        mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
        count = x.shape[0] * x.shape[1] * x.shape[2]
        unbiased = var * (count / max(1, count - 1))
        new = {"mean": mean, "var": unbiased}
        statistics = {name: (1 - momentum) * statistics[name] + momentum * jax.lax.stop_gradient(new[name]) for name in statistics}
    else:
        mean, var = params["mean"], params["var"]
    factor = params["scale"] * jax.lax.rsqrt(var + eps)
    return x * factor + (params["bias"] - mean * factor), statistics


def group_norm(params, x, groups, eps=1e-5):
    batch, height, width, channels = x.shape
    y = x.reshape(batch, height, width, groups, channels // groups).astype(jnp.float32)
    y = y - y.mean((1, 2, 4), keepdims=True)
    y = y * jax.lax.rsqrt((y * y).mean((1, 2, 4), keepdims=True) + eps)
    return y.reshape(x.shape).astype(x.dtype) * params["scale"] + params["bias"]


def max_pool(x, size, stride, pad=None):
    half = size // 2 if pad is None else pad
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, size, size, 1), (1, stride, stride, 1),
                                 ((0, 0), (half, half), (half, half), (0, 0)))  # fmt: skip


def doubled(x):
    """Each pixel four times."""
    batch, height, width, channels = x.shape
    x = jnp.broadcast_to(x[:, :, None, :, None], (batch, height, 2, width, 2, channels))
    return x.reshape(batch, 2 * height, 2 * width, channels)
