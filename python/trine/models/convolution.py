"""Convolutions in NHWC with the layers that go with them."""

import jax
import jax.numpy as jnp


def conv_init(key, size, inputs, outputs, bias=False, dtype=jnp.float32):
    scale = (2 / (size * size * inputs)) ** 0.5
    params = {"w": (jax.random.normal(key, (size, size, inputs, outputs)) * scale).astype(dtype)}
    if bias:
        params["b"] = jnp.zeros((outputs,), dtype)
    return params


def conv(params, x, stride=1):
    y = jax.lax.conv_general_dilated(x, params["w"], (stride, stride), "SAME",
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))  # fmt: skip
    return y + params["b"] if "b" in params else y


def batch_norm_init(width, dtype=jnp.float32):
    return {"scale": jnp.ones((width,), dtype), "bias": jnp.zeros((width,), dtype),
            "mean": jnp.zeros((width,), dtype), "var": jnp.ones((width,), dtype)}  # fmt: skip


def batch_norm(params, x, eps=1e-5):
    """With the running statistics, as at inference."""
    factor = params["scale"] * jax.lax.rsqrt(params["var"] + eps)
    return x * factor + (params["bias"] - params["mean"] * factor)


def group_norm(params, x, groups, eps=1e-5):
    batch, height, width, channels = x.shape
    y = x.reshape(batch, height, width, groups, channels // groups)
    y = y - y.mean((1, 2, 4), keepdims=True)
    y = y * jax.lax.rsqrt((y * y).mean((1, 2, 4), keepdims=True) + eps)
    return y.reshape(x.shape) * params["scale"] + params["bias"]


def max_pool(x, size, stride):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, size, size, 1), (1, stride, stride, 1), "SAME")
