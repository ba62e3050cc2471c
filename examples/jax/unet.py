"""The UNet of Stable Diffusion, narrower and with random weights, takes the noise out of images, a few steps of it."""

import argparse

import jax
import jax.numpy as jnp
from checking import compare, report

from trine import models


def denoise(model, params, images, text, steps):
    def step(images, t):
        times = jnp.full((images.shape[0],), t, jnp.float32)
        noise = model.forward(params, {"images": images, "times": times, "text": text})
        return images - noise / steps, None

    return jax.lax.scan(step, images, jnp.linspace(1000.0, 1.0, steps))[0]


def main(config, batch, size, steps, limit=1e-4):
    model = models.build(config)
    params = model.init(jax.random.key(0))
    images = jax.random.normal(jax.random.key(1), (batch, size, size, model.settings.channels))
    text = jax.random.normal(jax.random.key(2), (batch, 77, model.settings.text))
    clean, error, seconds = compare(lambda p, x, t: denoise(model, p, x, t, steps), params, images, text, repeats=1)
    report(f"UNet, {steps} steps of {batch} x {size}x{size}", error, seconds, limit)
    return clean


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, epilog="example: unet.py --steps 4")
    options.add_argument("--batch", type=int, default=1)
    options.add_argument("--size", type=int, default=32)
    options.add_argument("--steps", type=int, default=4)
    options.add_argument("--width", type=int, default=64, help="of the first level; Stable Diffusion has 320")
    options.add_argument("--depth", type=int, default=2, help="residual blocks per level")
    given = options.parse_args()
    widths = [given.width * n for n in (1, 2, 4, 4)]
    config = models.load_config("sd-1.5-unet") | dict(
        block_out_channels=widths, cross_attention_dim=2 * given.width, layers_per_block=given.depth)  # fmt: skip
    main(config, given.batch, given.size, given.steps)
