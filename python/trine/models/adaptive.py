"""What diffusion transformers share: blocks whose norms are moved by the time, patches of a latent image, sines of a time.

Images are [batch, height, width, channels]. Names of parameters are those of diffusers' files.
"""

import jax
import jax.numpy as jnp
import numpy as np

from trine.models import parameters as p
from trine.models.layers import ACTIVATIONS, attend, collected, copied, dense, dense_rows, norm

EPS = 1e-6


def two(inputs, width):
    return {"linear_1": p.dense(inputs, width), "linear_2": p.dense(width, width)}


def twice(params, x, dtype):
    return dense(params["linear_2"], jax.nn.silu(dense(params["linear_1"], x.astype(dtype))))


def sines(times, width=256, shift=0):
    """Cosines, then sines, of times[batch] at width / 2 frequencies."""
    half = width // 2
    angle = times.astype(jnp.float32)[:, None] * np.exp(-np.log(10000.0) * np.arange(half, dtype=np.float32) / (half - shift))
    return jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], -1)


def grid(width, rows, base, scale=1.0):
    """[rows², width]: sines of the column, then of the row, of each patch of a square."""
    at = np.arange(rows, dtype=np.float64) / (rows / base) / scale
    omega = 1.0 / 10000 ** (np.arange(width // 4, dtype=np.float64) / (width / 4))
    one = np.concatenate([f(np.outer(at, omega)) for f in (np.sin, np.cos)], 1)
    both = np.concatenate([np.tile(one[None], (rows, 1, 1)), np.tile(one[:, None], (1, rows, 1))], -1)
    return both.reshape(rows * rows, width).astype(np.float32)


def patched(params, x, patch):
    """[batch, patches, width]"""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height // patch, patch, width // patch, patch, channels).swapaxes(2, 3)
    return x.reshape(batch, -1, patch * patch * channels) @ params["w"].reshape(-1, params["w"].shape[-1]) + params["b"]


def unpatched(x, patch, channels):
    batch, count, _ = x.shape
    rows = int(count**0.5)
    x = x.reshape(batch, rows, rows, patch, patch, channels).swapaxes(2, 3)
    return x.reshape(batch, rows * patch, rows * patch, channels)


def plain(x, eps=EPS):
    """A layer norm without parameters."""
    return norm({"scale": jnp.ones((), x.dtype), "bias": jnp.zeros((), x.dtype)}, x, eps)


def moved(x, shift, scale):
    return x * (1 + scale[:, None]) + shift[:, None]


def moves(width, count):
    return {"linear": p.dense(width, count * width, True, "columns")}


def by_time(params, time, count, axis):
    """`count` vectors that move a block's norms, of the time."""
    y = dense(params["linear"], copied(jax.nn.silu(time), axis))
    return jnp.split(collected(y, axis, count * time.shape[-1]), count, -1)


def attention_parameters(width, heads, dim, names=("to_q", "to_k", "to_v"), bias=True, norms=()):
    tree = {name: p.dense(width, heads * dim, bias, "columns", heads) for name in names}
    return tree | {name: p.norm(dim, "rms") for name in norms}


def out_parameters(width, heads, dim):
    return p.dense(heads * dim, width, True, "rows", heads)


def heads_of(params, x, names, norms, dim, axis=None):
    """q, k and v of x as heads, with the norms that q and k have."""
    found = []
    for name, own in zip(names, (*norms, None), strict=True) if norms else [(name, None) for name in names]:
        y = dense(params[name], x)
        y = y.reshape(*y.shape[:2], -1, dim)
        found.append(norm(copied(params[own], axis), y, EPS) if own else y)
    return found


def together(*parts):
    """Attention over all tokens of several (q, k, v), cut as they came."""
    q, k, v = (jnp.concatenate([part[i] for part in parts], 1) for i in range(3))
    y = attend(q, k, v, None)
    ends = np.cumsum([part[0].shape[1] for part in parts])[:-1]
    return jnp.split(y, ends, 1)


def mlp_parameters(width, ratio=4):
    return {"net": {"0": {"proj": p.dense(width, ratio * width, True, "columns")}, "2": p.dense(ratio * width, width, True, "rows")}}


def mlp(params, x, axis):
    net = params["net"]
    return dense_rows(net["2"], ACTIVATIONS["gelu_new"](dense(net["0"]["proj"], copied(x, axis))), axis)
