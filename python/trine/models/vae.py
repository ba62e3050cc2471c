"""The autoencoder of Stable Diffusion and Flux, NHWC: latents to an image, and an image to what its latents are drawn from.

The tree of parameters is spelled as diffusers spells its tensors. Tensor parallelism does not cut it.
"""

import functools

import jax
import jax.numpy as jnp

from trine.models import parameters as p
from trine.models.convolution import conv, doubled, group_norm
from trine.models.layers import attend, dense

EPS = 1e-6


def residual_parameters(inputs, outputs):
    tree = {"norm1": p.norm(inputs, "layer"), "conv1": p.conv(3, inputs, outputs, True), "norm2": p.norm(outputs, "layer"),
            "conv2": p.conv(3, outputs, outputs, True)}  # fmt: skip
    return tree | ({"conv_shortcut": p.conv(1, inputs, outputs, True)} if inputs != outputs else {})


def middle_parameters(c, width):
    tree = {"resnets": [residual_parameters(width, width) for _ in range(2)]}
    if not c.attends:
        return tree
    names = {name: p.dense(width, width) for name in ("to_q", "to_k", "to_v")} | {"to_out": [p.dense(width, width)]}
    return tree | {"attentions": [{"group_norm": p.norm(width, "layer")} | names]}


def side_parameters(c, widths, inputs, outputs, depth, sampler):
    """Of the encoder, whose levels narrow the image, or of the decoder, whose levels widen it again."""
    tree = {"conv_in": p.conv(3, inputs, widths[0], True), "conv_norm_out": p.norm(widths[-1], "layer"),
        "conv_out": p.conv(3, widths[-1], outputs, True)}
    levels, have = [], widths[0]
    for i, width in enumerate(widths):
        level = {"resnets": [residual_parameters(have if n == 0 else width, width) for n in range(depth)]}
        if i < len(widths) - 1:
            level[sampler] = [{"conv": p.conv(3, width, width, True)}]
        levels.append(level)
        have = width
    return tree | {"down_blocks" if sampler == "downsamplers" else "up_blocks": levels}


def parameters(c):
    encoder = side_parameters(c, c.widths, c.channels, 2 * c.latent, c.depth, "downsamplers") | {"mid_block": middle_parameters(c, c.widths[-1])}
    decoder = side_parameters(c, c.widths[::-1], c.latent, c.channels, c.depth + 1,
        "upsamplers") | {"mid_block": middle_parameters(c, c.widths[-1])}
    tree = {"encoder": encoder, "decoder": decoder}
    if c.quant:
        tree |= {"quant_conv": p.conv(1, 2 * c.latent, 2 * c.latent, True), "post_quant_conv": p.conv(1, c.latent, c.latent, True)}
    return tree


@functools.partial(jax.jit, static_argnames="c")
@jax.named_scope("residual")
def residual(params, c, x):
    y = conv(params["conv1"], jax.nn.silu(group_norm(params["norm1"], x, c.groups, EPS)))
    y = conv(params["conv2"], jax.nn.silu(group_norm(params["norm2"], y, c.groups, EPS)))
    return y + (conv(params["conv_shortcut"], x) if "conv_shortcut" in params else x)


@jax.named_scope("middle")
def middle(params, c, x):
    x = residual(params["resnets"][0], c, x)
    for look in params.get("attentions", ()):
        batch, height, width, channels = x.shape
        y = group_norm(look["group_norm"], x, c.groups, EPS).reshape(batch, height * width, channels)
        q, k, v = (dense(look[name], y)[:, :, None] for name in ("to_q", "to_k", "to_v"))
        x = x + dense(look["to_out"][0], attend(q, k, v, None)).reshape(x.shape)
    return residual(params["resnets"][1], c, x)


def finished(params, c, x):
    return conv(params["conv_out"], jax.nn.silu(group_norm(params["conv_norm_out"], x, c.groups, EPS)))


def encode(params, c, images):
    """Means and logarithms of variances of the latents of images[batch, height, width, channels]."""
    side = params["encoder"]
    x = conv(side["conv_in"], images)
    for i, level in enumerate(side["down_blocks"]):
        with jax.named_scope(f"down {i}"):
            for one in level["resnets"]:
                x = residual(one, c, x)
            if "downsamplers" in level:
                x = conv(level["downsamplers"][0]["conv"], x, 2, pad=(0, 1))
    x = finished(side, c, middle(side["mid_block"], c, x))
    return conv(params["quant_conv"], x) if c.quant else x


def decode_image(params, c, latents):
    """The image of latents[batch, height, width, channels]."""
    side = params["decoder"]
    x = conv(params["post_quant_conv"], latents) if c.quant else latents
    x = middle(side["mid_block"], c, conv(side["conv_in"], x))
    for i, level in enumerate(side["up_blocks"]):
        with jax.named_scope(f"up {i}"):
            for one in level["resnets"]:
                x = residual(one, c, x)
            if "upsamplers" in level:
                x = conv(level["upsamplers"][0]["conv"], doubled(x))
    return finished(side, c, x)


def forward(params, c, inputs, axis=None):
    """The image of inputs["latents"]; where there are inputs["images"] instead, what their latents are drawn from."""
    return decode_image(params, c, inputs["latents"]) if "latents" in inputs else encode(params, c, inputs["images"])


def loss(params, c, inputs, axis=None):
    """Mean square distance of inputs["images"] from what is made of their latents' means."""
    means = encode(params, c, inputs["images"])[..., : c.latent]
    return jnp.mean(jnp.square(decode_image(params, c, means) - inputs["images"]).astype(jnp.float32))


def input_shapes(c, phase, batch, seq):
    images = {"images": ((batch, c.size, c.size, c.channels), "float")}
    small = c.size // 2 ** (len(c.widths) - 1)
    return images if phase == "train" else {"latents": ((batch, small, small, c.latent), "float")}
