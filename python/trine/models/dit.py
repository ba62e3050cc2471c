"""DiT: patches of a latent image through blocks that the time and a class move. As diffusers has it, every block with its
own embedding of the two."""

import functools

import jax
import jax.numpy as jnp

from trine.models import adaptive as a
from trine.models import parameters as p
from trine.models.block import layer_scope
from trine.models.layers import copied, dense, dense_rows, rows

QKV = ("to_q", "to_k", "to_v")


def parameters(c):
    def block():
        emb = {"timestep_embedder": a.two(256, c.width), "class_embedder": {"embedding_table": p.table(c.classes + 1, c.width)}}
        attention = a.attention_parameters(c.width, c.heads, c.head_dim, bias=c.bias) | {"to_out": [a.out_parameters(c.width, c.heads, c.head_dim)]}
        return {"norm1": {"emb": emb} | a.moves(c.width, 6), "attn1": attention, "ff": a.mlp_parameters(c.width)}

    return {
        "pos_embed": {"proj": p.conv(c.patch, c.channels, c.width, True)},
        "transformer_blocks": [block() for _ in range(c.layers)],
        "proj_out_1": p.dense(c.width, 2 * c.width),
        "proj_out_2": p.dense(c.width, c.patch * c.patch * c.outputs),
    }


def condition(params, inputs, dtype):
    time = a.twice(params["timestep_embedder"], a.sines(inputs["times"], shift=1), dtype)
    return time + rows(params["class_embedder"]["embedding_table"]["table"], inputs["classes"])


@functools.partial(jax.jit, static_argnames=("c", "axis"))
def block(params, c, x, inputs, axis):
    shift, scale, gate, shift2, scale2, gate2 = a.by_time(params["norm1"], condition(params["norm1"]["emb"], inputs, x.dtype), 6, axis)
    h = copied(a.moved(a.plain(x), shift, scale), axis)
    (y,) = a.together(a.heads_of(params["attn1"], h, QKV, (), c.head_dim))
    x = x + gate[:, None] * dense_rows(params["attn1"]["to_out"][0], y, axis)
    return x + gate2[:, None] * a.mlp(params["ff"], a.moved(a.plain(x, c.eps), shift2, scale2), axis)


def forward(params, c, inputs, axis=None):
    """The noise in inputs["images"][batch, height, width, channels] at ["times"][batch], of ["classes"][batch]."""
    images = inputs["images"]
    x = a.patched(params["pos_embed"]["proj"], images, c.patch)
    count = images.shape[1] // c.patch
    x = x + jnp.asarray(a.grid(c.width, count, c.size // c.patch), x.dtype)
    moment = {name: inputs[name] for name in ("times", "classes")}
    for i, layer in enumerate(params["transformer_blocks"]):
        with layer_scope(i):
            x = block(layer, c, x, moment, axis)
    with jax.named_scope("head"):
        time = condition(params["transformer_blocks"][0]["norm1"]["emb"], moment, x.dtype)
        shift, scale = jnp.split(dense(params["proj_out_1"], jax.nn.silu(time)), 2, -1)
        return a.unpatched(dense(params["proj_out_2"], a.moved(a.plain(x), shift, scale)), c.patch, c.outputs)


def loss(params, c, inputs, axis=None):
    """Mean square distance from inputs["noise"]; what it says of the spread of it is not counted."""
    made = forward(params, c, inputs, axis)[..., : inputs["noise"].shape[-1]]
    return jnp.mean(jnp.square(made - inputs["noise"]).astype(jnp.float32))


def input_shapes(c, phase, batch, seq):
    images = ((batch, c.size, c.size, c.channels), "float")
    inputs = {"images": images, "times": ((batch,), "float32"), "classes": ((batch,), "int32")}
    return inputs | ({"noise": images} if phase == "train" else {})
