"""Flux: a latent image and a text through blocks with weights of their own, then through blocks that hold both as one.

Positions turn three parts of each head: one stands still, one turns by the row, one by the column of a patch.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from trine.models import adaptive as a
from trine.models import parameters as p
from trine.models.block import layer_scope
from trine.models.layers import ACTIVATIONS, attend, copied, dense, dense_rows, total

QKV, ADDED = ("to_q", "to_k", "to_v"), ("add_q_proj", "add_k_proj", "add_v_proj")
OWN, OTHER = ("norm_q", "norm_k"), ("norm_added_q", "norm_added_k")


def parameters(c):
    def out():
        return a.out_parameters(c.width, c.heads, c.head_dim)

    def double():
        attention = a.attention_parameters(c.width, c.heads, c.head_dim, norms=OWN) | {"to_out": [out()], "to_add_out": out()}
        return {"norm1": a.moves(c.width, 6), "norm1_context": a.moves(c.width, 6),
                "attn": attention | a.attention_parameters(c.width, c.heads, c.head_dim, ADDED, norms=OTHER),
                "ff": a.mlp_parameters(c.width), "ff_context": a.mlp_parameters(c.width)}  # fmt: skip

    def single():
        return {"norm": a.moves(c.width, 3), "attn": a.attention_parameters(c.width, c.heads, c.head_dim, norms=OWN),
                "proj_mlp": p.dense(c.width, 4 * c.width, True, "columns"), "out_attn": p.dense(c.width, c.width, False, "rows", c.heads),
                "out_mlp": p.dense(4 * c.width, c.width, True, "rows")}  # fmt: skip

    embed = {"timestep_embedder": a.two(256, c.width), "text_embedder": a.two(c.pooled, c.width)}
    return {
        "x_embedder": p.dense(c.channels, c.width),
        "context_embedder": p.dense(c.text, c.width),
        "time_text_embed": embed | ({"guidance_embedder": a.two(256, c.width)} if c.guided else {}),
        "transformer_blocks": [double() for _ in range(c.layers)],
        "single_transformer_blocks": [single() for _ in range(c.singles)],
        "norm_out": a.moves(c.width, 2),
        "proj_out": p.dense(c.width, c.outputs),
    }


def angles_of(c, words, rows):
    """(cosine, sine)[tokens, head_dim / 2] of a text, which stands still, and then of a square of patches."""
    at = np.zeros((words + rows * rows, 3))
    at[words:, 1], at[words:, 2] = np.repeat(np.arange(rows), rows), np.tile(np.arange(rows), rows)
    parts = [np.outer(at[:, i], 1 / 10000.0 ** (np.arange(0, dim, 2) / dim)) for i, dim in enumerate(c.axes)]
    angle = np.concatenate(parts, 1)
    return jnp.asarray(np.cos(angle), jnp.float32), jnp.asarray(np.sin(angle), jnp.float32)


def rotated(x, angles):
    """Turns the pairs (2 i, 2 i + 1) of x[batch, tokens, heads, dim]."""
    cos, sin = (angle[:, None, :] for angle in angles)
    pairs = x.astype(jnp.float32).reshape(*x.shape[:-1], -1, 2)
    one, other = pairs[..., 0], pairs[..., 1]
    return jnp.stack([one * cos - other * sin, other * cos + one * sin], -1).reshape(x.shape).astype(x.dtype)


@functools.partial(jax.jit, static_argnames=("c", "axis"))
def double(params, c, x, text, time, angles, axis):
    """(image, text) after a block that has weights for each."""
    shift, scale, gate, shift2, scale2, gate2 = a.by_time(params["norm1"], time, 6, axis)
    t_shift, t_scale, t_gate, t_shift2, t_scale2, t_gate2 = a.by_time(params["norm1_context"], time, 6, axis)
    attn, words = params["attn"], text.shape[1]
    seen = a.heads_of(attn, copied(a.moved(a.plain(x), shift, scale), axis), QKV, OWN, c.head_dim, axis)
    read = a.heads_of(attn, copied(a.moved(a.plain(text), t_shift, t_scale), axis), ADDED, OTHER, c.head_dim, axis)
    q, k, v = (jnp.concatenate(both, 1) for both in zip(read, seen, strict=True))
    y = attend(rotated(q, angles), rotated(k, angles), v, None)
    x = x + gate[:, None] * dense_rows(attn["to_out"][0], y[:, words:], axis)
    text = text + t_gate[:, None] * dense_rows(attn["to_add_out"], y[:, :words], axis)
    x = x + gate2[:, None] * a.mlp(params["ff"], a.moved(a.plain(x), shift2, scale2), axis)
    return x, text + t_gate2[:, None] * a.mlp(params["ff_context"], a.moved(a.plain(text), t_shift2, t_scale2), axis)


@functools.partial(jax.jit, static_argnames=("c", "axis"))
def single(params, c, x, time, angles, axis):
    shift, scale, gate = a.by_time(params["norm"], time, 3, axis)
    h = copied(a.moved(a.plain(x), shift, scale), axis)
    q, k, v = a.heads_of(params["attn"], h, QKV, OWN, c.head_dim, axis)
    y = attend(rotated(q, angles), rotated(k, angles), v, None)
    wide = ACTIVATIONS["gelu_new"](dense(params["proj_mlp"], h))
    y = total(y @ params["out_attn"]["w"] + wide @ params["out_mlp"]["w"], axis) + params["out_mlp"]["b"]
    return x + gate[:, None] * y


def forward(params, c, inputs, axis=None):
    """Where inputs["images"][batch, patches, channels] flow at ["times"][batch], given ["text"][batch, seq, width], its
    ["pooled"][batch, width] and, where the model takes it, ["guidance"][batch]."""
    x = dense(params["x_embedder"], inputs["images"])
    embed = params["time_text_embed"]
    time = a.twice(embed["timestep_embedder"], a.sines(inputs["times"] * 1000), x.dtype)
    if c.guided:
        time = time + a.twice(embed["guidance_embedder"], a.sines(inputs["guidance"] * 1000), x.dtype)
    time = time + a.twice(embed["text_embedder"], inputs["pooled"], x.dtype)
    text = dense(params["context_embedder"], inputs["text"])
    words = text.shape[1]
    angles = angles_of(c, words, int(x.shape[1] ** 0.5))
    for i, layer in enumerate(params["transformer_blocks"]):
        with layer_scope(i, "double"):
            x, text = double(layer, c, x, text, time, angles, axis)
    x = jnp.concatenate([text, x], 1)
    for i, layer in enumerate(params["single_transformer_blocks"]):
        with layer_scope(i, "single"):
            x = single(layer, c, x, time, angles, axis)
    with jax.named_scope("head"):
        scale, shift = a.by_time(params["norm_out"], time, 2, axis)
        return dense(params["proj_out"], a.moved(a.plain(x[:, words:]), shift, scale))


def loss(params, c, inputs, axis=None):
    """Mean square distance from inputs["noise"]."""
    return jnp.mean(jnp.square(forward(params, c, inputs, axis) - inputs["noise"]).astype(jnp.float32))


def input_shapes(c, phase, batch, seq):
    """`seq` is the length of the text."""
    images = ((batch, (c.size // 2) ** 2, c.channels), "float")
    inputs = {"images": images, "times": ((batch,), "float32"), "text": ((batch, seq, c.text), "float"), "pooled": ((batch, c.pooled), "float")}
    inputs |= {"guidance": ((batch,), "float32")} if c.guided else {}
    return inputs | ({"noise": ((batch, (c.size // 2) ** 2, c.outputs), "float")} if phase == "train" else {})
