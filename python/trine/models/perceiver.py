"""Perceiver: a few latents look at all tokens or pixels, then at one another; then the places to fill in, or one of the class,
look at them.

The tree of parameters is spelled as the files spell their tensors. Tensor parallelism does not cut it.
"""

import functools

import jax
import jax.numpy as jnp

from trine.models import parameters as p
from trine.models.block import layer_scope
from trine.models.convolution import batch_norm, conv, max_pool
from trine.models.layers import ACTIVATIONS, attend, dense, norm, rows
from trine.models.training import cross_entropy

EPS = 1e-5
STEM, COLOURS = 64, 3  # channels of the convolution before, and of an image
BANDS = 64  # frequencies of a position, each along either axis
LEARNED = 256  # channels of a pixel, and of its place, where places are learned


def layer_parameters(width, other, keys, values, wider, cross):
    own = {"layernorm1": p.norm(width, "layer"), "query": p.dense(width, keys), "key": p.dense(other, keys), "value": p.dense(other, values)}
    own |= {"layernorm2": p.norm(other, "layer")} if cross else {}
    mlp = {"dense1": p.dense(width, wider * width), "dense2": p.dense(wider * width, width)}
    return {"attention": {"self": own, "output": {"dense": p.dense(values, width)}}, "layernorm": p.norm(width, "layer"), "mlp": mlp}


def parameters(c):
    body = {
        "embeddings": {"latents": {"value": p.Parameter((c.latents, c.latent_width))}},
        "encoder": {
            "cross_attention": layer_parameters(c.latent_width, c.width, c.cross_keys, c.cross_values, c.cross_wider, True),
            "self_attends": [layer_parameters(c.latent_width, c.latent_width, c.keys, c.values, c.wider, False) for _ in range(c.layers)],
        },
    }
    if c.sees:
        place = {
            "output_position_encodings": {"position_embeddings": {"value": p.Parameter((1, c.latent_width))}},
            "decoding_cross_attention": layer_parameters(c.latent_width, c.latent_width, c.latent_width, c.latent_width, 1, True),
            "final_layer": p.dense(c.latent_width, c.classes),
        }
        return {"perceiver": body | {"decoder": {"decoder": place}} | ({"input_preprocessor": READERS[c.sees](c)} if c.sees in READERS else {})}
    return {
        "perceiver": body | {
            "input_preprocessor": {"embeddings": p.table(c.vocab, c.width), "position_embeddings": p.table(c.context, c.width)},
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


READERS = {  # what comes before the latents of an image, by the name of its tensors
    "conv": lambda c: {"convnet": {"conv": p.conv(7, COLOURS, STEM), "batchnorm": p.batch_norm(STEM)}},
    "learned": lambda c: {"convnet_1x1": p.conv(1, COLOURS, LEARNED, True), "positions_projection": p.dense(LEARNED, LEARNED),
                          "position_embeddings": {"position_embeddings": {"value": p.Parameter((c.image**2, LEARNED))}}},
}  # fmt: skip


def places(size, most):
    """[size * size, 2 + 4 * BANDS] of a square of pixels: where each is, and waves along both axes up to `most` / 2 of them."""
    along = jnp.linspace(-1.0, 1.0, size)
    at = jnp.stack(jnp.meshgrid(along, along, indexing="ij"), -1).reshape(-1, 2)
    angles = jnp.pi * (at[:, :, None] * jnp.linspace(1.0, most / 2, BANDS)).reshape(-1, 2 * BANDS)
    return jnp.concatenate([at, jnp.sin(angles), jnp.cos(angles)], -1)


@jax.named_scope("stem")
def seen(params, c, images):
    """[batch, pixels, width]: pixels, or what a convolution makes of them, beside their places."""
    if c.sees == "learned":
        reads = params["input_preprocessor"]
        x, place = conv(reads["convnet_1x1"], images), dense(reads["positions_projection"], reads["position_embeddings"]["position_embeddings"]["value"])
    elif c.sees == "conv":
        reads = params["input_preprocessor"]["convnet"]
        x = jax.nn.relu(batch_norm(reads["batchnorm"], conv(reads["conv"], images, 2))[0])
        x = max_pool(x, 3, 2, 0)
        place = places(x.shape[1], 56)
    else:
        x, place = images, places(images.shape[1], 224)
    x = x.reshape(x.shape[0], -1, x.shape[-1])
    return jnp.concatenate([x, jnp.broadcast_to(place.astype(x.dtype), (x.shape[0], *place.shape))], -1)


def latents_of(body, c, x, mask=None):
    """The latents after they have looked at x, and then at one another."""
    latents = jnp.broadcast_to(body["embeddings"]["latents"]["value"], (x.shape[0], c.latents, c.latent_width))
    with jax.named_scope("cross attention"):
        latents = block(body["encoder"]["cross_attention"], c, latents, x, c.cross_heads, c.adds, mask)
    for i in range(c.blocks * c.layers):
        with layer_scope(i):
            latents = block(body["encoder"]["self_attends"][i % c.layers], c, latents, None, c.heads)
    return latents


def classified(body, c, images):
    latents = latents_of(body, c, seen(body, c, images))
    with jax.named_scope("head"):
        own = body["decoder"]["decoder"]
        place = own["output_position_encodings"]["position_embeddings"]["value"]
        y = block(own["decoding_cross_attention"], c, jnp.broadcast_to(place, (images.shape[0], *place.shape)), latents, 1, True)
        return dense(own["final_layer"], y)[:, 0]


def forward(params, c, inputs, axis=None):
    """Logits of every position of inputs["tokens"][batch, seq]; inputs["mask"] is True where there is a token. Of
    inputs["images"][batch, height, width, 3] the logits of the classes."""
    if c.sees:
        return classified(params["perceiver"], c, inputs["images"])
    body, tokens = params["perceiver"], inputs["tokens"]
    read = body["input_preprocessor"]
    x = rows(read["embeddings"]["table"], tokens) + read["position_embeddings"]["table"][: tokens.shape[1]]
    mask = inputs["mask"][:, None, None, :] if "mask" in inputs else None
    latents = latents_of(body, c, x, mask)
    with jax.named_scope("head"):
        place = body["decoder"]["output_position_encodings"]["position_embeddings"]["value"]
        place = jnp.broadcast_to(place, (tokens.shape[0], *place.shape))
        y = block(body["decoder"]["decoding_cross_attention"], c, place, latents, c.out_heads, False)
        y = y[:, : tokens.shape[1]] if tokens.shape[1] < c.context else y
        return y @ read["embeddings"]["table"].T + params["embedding_decoder"]["bias"]["value"]


def loss(params, c, inputs, axis=None):
    return cross_entropy(forward(params, c, inputs), inputs["labels"])


def input_shapes(c, phase, batch, seq):
    if c.sees:
        images = {"images": ((batch, c.image, c.image, COLOURS), "float")}
        return images | ({"labels": ((batch,), "int32")} if phase == "train" else {})
    tokens = ((batch, seq), "int32")
    return {"tokens": tokens, "mask": ((batch, seq), "bool")} | ({"labels": tokens} if phase == "train" else {})
