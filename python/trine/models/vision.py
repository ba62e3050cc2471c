"""Images by transformers: ViT, and CLIP with its text tower. Images are [batch, height, width, channels]."""

import jax
import jax.numpy as jnp

from trine.models import parameters as p
from trine.models.block import block, block_parameters, layer_scope, normed
from trine.models.layers import dense
from trine.models.training import cross_entropy


def tower_parameters(c):
    tree = {
        "patches": p.conv(c.patch, c.channels, c.width, c.patch_bias),
        "positions": p.table(c.patches + c.first_token, c.width),
        "layers": [block_parameters(c) for _ in range(c.layers)],
        "norm": p.norm(c.width, c.norm),
    }
    if c.first_token:
        tree["cls"] = {"table": p.Parameter((1, c.width))}
    if c.embed_norm:
        tree["embed_norm"] = p.norm(c.width, c.norm)
    return tree


def parameters(c):
    return tower_parameters(c) | ({"classifier": p.dense(c.width * (2 if c.pooled else 1), c.classes)} if c.head == "classes" else {})


def patched(params, c, images):
    """[batch, patches, width]: each patch through one dense layer, which is what the convolution amounts to."""
    batch, height, width, channels = images.shape
    rows, columns = height // c.patch, width // c.patch
    x = images.reshape(batch, rows, c.patch, columns, c.patch, channels).transpose(0, 1, 3, 2, 4, 5)
    y = x.reshape(batch, rows * columns, -1) @ params["w"].reshape(-1, c.width)
    return y + params["b"] if "b" in params else y


@jax.named_scope("embedding")
def embedded(params, c, images):
    x = patched(params["patches"], c, images)
    if c.first_token:
        x = jnp.concatenate([jnp.broadcast_to(params["cls"]["table"], (x.shape[0], 1, c.width)), x], 1)
    x = x + params["positions"]["table"]
    if "embed_norm" in params:
        x = normed(params["embed_norm"], c, x)
    return x


def states(params, c, images, axis=None):
    x = embedded(params, c, images)
    for i, layer in enumerate(params["layers"]):
        with layer_scope(i, "image" if c.embed_norm else ""):
            x, _ = block(layer, c, x, axis=axis)
    return x


def forward(params, c, inputs, axis=None):
    """Logits of the classes of inputs["images"], or the hidden states where there is no head."""
    x = normed(params["norm"], c, states(params, c, inputs["images"], axis))
    with jax.named_scope("head"):
        if "classifier" not in params:
            return x
        first = x[:, 0]
        return dense(params["classifier"], jnp.concatenate([first, x[:, 1:].mean(1)], -1) if c.pooled else first)


def loss(params, c, inputs, axis=None):
    return cross_entropy(forward(params, c, inputs, axis), inputs["labels"])


def input_shapes(c, phase, batch, seq):
    images = {"images": ((batch, c.image, c.image, c.channels), "float")}
    return images | ({"labels": ((batch,), "int32")} if phase == "train" else {})
