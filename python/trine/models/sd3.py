"""Stable Diffusion 3 and 3.5: a latent image and a text through one attention, each with weights of its own."""

import functools

import jax
import jax.numpy as jnp

from trine.models import adaptive as a
from trine.models import parameters as p
from trine.models.block import layer_scope
from trine.models.layers import copied, dense, dense_rows

QKV, ADDED = ("to_q", "to_k", "to_v"), ("add_q_proj", "add_k_proj", "add_v_proj")


def parameters(c):
    own, other = (("norm_q", "norm_k"), ("norm_added_q", "norm_added_k")) if c.qk_norm else ((), ())

    def block(i):
        last, dual = i == c.layers - 1, i in c.dual
        attention = a.attention_parameters(c.width, c.heads, c.head_dim, norms=own) | {"to_out": [a.out_parameters(c.width, c.heads, c.head_dim)]}
        tree = {"norm1": a.moves(c.width, 9 if dual else 6), "ff": a.mlp_parameters(c.width),
                "norm1_context": a.moves(c.width, 2 if last else 6),
                "attn": attention | a.attention_parameters(c.width, c.heads, c.head_dim, ADDED, norms=other)}  # fmt: skip
        if dual:
            tree["attn2"] = dict(attention)
        if not last:
            tree["attn"]["to_add_out"] = a.out_parameters(c.width, c.heads, c.head_dim)
            tree["ff_context"] = a.mlp_parameters(c.width)
        return tree

    return {
        "pos_embed": {"proj": p.conv(c.patch, c.channels, c.width, True),
        "pos_embed": {"value": p.Parameter((c.table**2, c.width), trained=False, counted=False)}},
        "time_text_embed": {"timestep_embedder": a.two(256, c.width), "text_embedder": a.two(c.pooled, c.width)},
        "context_embedder": p.dense(c.text, c.width),
        "transformer_blocks": [block(i) for i in range(c.layers)],
        "norm_out": a.moves(c.width, 2),
        "proj_out": p.dense(c.width, c.patch * c.patch * c.outputs),
    }


@functools.partial(jax.jit, static_argnames=("c", "axis"))
def block(params, c, x, text, time, axis):
    """(image, text or None) after a block."""
    dual, last = "attn2" in params, "ff_context" not in params
    own, other = (("norm_q", "norm_k"), ("norm_added_q", "norm_added_k")) if c.qk_norm else ((), ())
    shift, scale, gate, shift2, scale2, gate2, *more = a.by_time(params["norm1"], time, 9 if dual else 6, axis)
    still = a.plain(x)
    if last:
        of_text, to_text = a.by_time(params["norm1_context"], time, 2, axis)
        h_text = a.moved(a.plain(text), to_text, of_text)
    else:
        t_shift, t_scale, t_gate, t_shift2, t_scale2, t_gate2 = a.by_time(params["norm1_context"], time, 6, axis)
        h_text = a.moved(a.plain(text), t_shift, t_scale)
    attn = params["attn"]
    seen = a.heads_of(attn, copied(a.moved(still, shift, scale), axis), QKV, own, c.head_dim, axis)
    read = a.heads_of(attn, copied(h_text, axis), ADDED, other, c.head_dim, axis)
    y, y_text = a.together(seen, read)
    x = x + gate[:, None] * dense_rows(attn["to_out"][0], y, axis)
    if dual:
        (y,) = a.together(a.heads_of(params["attn2"], copied(a.moved(still, more[0], more[1]), axis), QKV, own, c.head_dim, axis))
        x = x + more[2][:, None] * dense_rows(params["attn2"]["to_out"][0], y, axis)
    x = x + gate2[:, None] * a.mlp(params["ff"], a.moved(a.plain(x), shift2, scale2), axis)
    if last:
        return x, None
    text = text + t_gate[:, None] * dense_rows(attn["to_add_out"], y_text, axis)
    return x, text + t_gate2[:, None] * a.mlp(params["ff_context"], a.moved(a.plain(text), t_shift2, t_scale2), axis)


def forward(params, c, inputs, axis=None):
    """Where inputs["images"][batch, height, width, channels] flow at ["times"][batch], given ["text"][batch, seq, width] and
    its ["pooled"][batch, width]."""
    images = inputs["images"]
    x, count = a.patched(params["pos_embed"]["proj"], images, c.patch), images.shape[1] // c.patch
    first = (c.table - count) // 2
    table = params["pos_embed"]["pos_embed"]["value"].reshape(c.table, c.table, -1)
    x = x + table[first : first + count, first : first + count].reshape(count * count, -1)
    embed = params["time_text_embed"]
    time = a.twice(embed["timestep_embedder"], a.sines(inputs["times"]), x.dtype) + a.twice(embed["text_embedder"], inputs["pooled"], x.dtype)
    text = dense(params["context_embedder"], inputs["text"])
    for i, layer in enumerate(params["transformer_blocks"]):
        with layer_scope(i):
            x, text = block(layer, c, x, text, time, axis)
    with jax.named_scope("head"):
        scale, shift = a.by_time(params["norm_out"], time, 2, axis)
        return a.unpatched(dense(params["proj_out"], a.moved(a.plain(x), shift, scale)), c.patch, c.outputs)


def loss(params, c, inputs, axis=None):
    """Mean square distance from inputs["noise"]."""
    return jnp.mean(jnp.square(forward(params, c, inputs, axis) - inputs["noise"]).astype(jnp.float32))


def input_shapes(c, phase, batch, seq):
    """`seq` is the length of the text."""
    images = ((batch, c.size, c.size, c.channels), "float")
    inputs = {"images": images, "times": ((batch,), "float32"), "text": ((batch, seq, c.text), "float"), "pooled": ((batch, c.pooled), "float")}
    return inputs | ({"noise": ((batch, c.size, c.size, c.outputs), "float")} if phase == "train" else {})
