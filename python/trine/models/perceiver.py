"""Perceiver of text: a few latents look at all tokens, then at one another, and the places to fill in look at them.

The tree of parameters is spelled as the files spell their tensors. Tensor parallelism does not cut it.
"""

import functools

import jax
import jax.numpy as jnp

from trine.models import parameters as p
from trine.models.block import layer_scope
from trine.models.layers import ACTIVATIONS, attend, dense, norm, rows
from trine.models.training import cross_entropy

EPS = 1e-5


def layer_parameters(width, other, keys, values, wider, cross):
    own = {"layernorm1": p.norm(width, "layer"), "query": p.dense(width, keys), "key": p.dense(other, keys), "value": p.dense(other, values)}
    own |= {"layernorm2": p.norm(other, "layer")} if cross else {}
    mlp = {"dense1": p.dense(width, wider * width), "dense2": p.dense(wider * width, width)}
    return {"attention": {"self": own, "output": {"dense": p.dense(values, width)}}, "layernorm": p.norm(width, "layer"), "mlp": mlp}


def parameters(c):
    return {
        "perceiver": {
            "input_preprocessor": {"embeddings": p.table(c.vocab, c.width), "position_embeddings": p.table(c.context, c.width)},
            "embeddings": {"latents": {"value": p.Parameter((c.latents, c.latent_width))}},
            "encoder": {
                "cross_attention": layer_parameters(c.latent_width, c.width, c.cross_keys, c.cross_values, c.cross_wider, True),
                "self_attends": [layer_parameters(c.latent_width, c.latent_width, c.keys, c.values, c.wider, False) for _ in range(c.layers)],
            },
            "decoder": {
                "output_position_encodings": {"position_embeddings": {"value": p.Parameter((c.context, c.width))}},
                "decoding_cross_attention": layer_parameters(c.width, c.latent_width, c.out_keys, c.width, 1, True),
            },
        },
        "embedding_decoder": {"bias": {"value": p.Parameter((c.vocab,), "zeros")}},
    }


@functools.partial(jax.jit, static_argnames=("c", "heads", "adds"))
def block(params, c, x, at, heads, adds=True, mask=None):
    """at: what x looks at; None: itself."""
    own = params["attention"]["self"]
    h = norm(own["layernorm1"], x, EPS)
    at = h if at is None else norm(own["layernorm2"], at, EPS)
    q, k, v = (dense(own[name], y).reshape(*y.shape[:2], heads, -1) for name, y in (("query", h), ("key", at), ("value", at)))
    y = dense(params["attention"]["output"]["dense"], attend(q, k, v, mask))
    x = x + y if adds else y
    h = ACTIVATIONS[c.activation](dense(params["mlp"]["dense1"], norm(params["layernorm"], x, EPS)))
    return x + dense(params["mlp"]["dense2"], h)


def forward(params, c, inputs, axis=None):
    """Logits of every position of inputs["tokens"][batch, seq]; inputs["mask"] is True where there is a token."""
    body, tokens = params["perceiver"], inputs["tokens"]
    read = body["input_preprocessor"]
    x = rows(read["embeddings"]["table"], tokens) + read["position_embeddings"]["table"][: tokens.shape[1]]
    mask = inputs["mask"][:, None, None, :] if "mask" in inputs else None
    latents = jnp.broadcast_to(body["embeddings"]["latents"]["value"], (tokens.shape[0], c.latents, c.latent_width))
    with jax.named_scope("cross attention"):
        latents = block(body["encoder"]["cross_attention"], c, latents, x, c.cross_heads, c.adds, mask)
    for i in range(c.blocks * c.layers):
        with layer_scope(i):
            latents = block(body["encoder"]["self_attends"][i % c.layers], c, latents, None, c.heads)
    with jax.named_scope("head"):
        places = body["decoder"]["output_position_encodings"]["position_embeddings"]["value"]
        places = jnp.broadcast_to(places, (tokens.shape[0], *places.shape))
        y = block(body["decoder"]["decoding_cross_attention"], c, places, latents, c.out_heads, False)
        y = y[:, : tokens.shape[1]] if tokens.shape[1] < c.context else y
        return y @ read["embeddings"]["table"].T + params["embedding_decoder"]["bias"]["value"]


def loss(params, c, inputs, axis=None):
    return cross_entropy(forward(params, c, inputs), inputs["labels"])


def input_shapes(c, phase, batch, seq):
    tokens = ((batch, seq), "int32")
    return {"tokens": tokens, "mask": ((batch, seq), "bool")} | ({"labels": tokens} if phase == "train" else {})
