"""A diffusion UNet takes the noise out of images, a few steps of it."""

import argparse

import jax
import jax.numpy as jnp
from checking import compare, report

from trine.models import unet


def denoise(params, config, images, steps):
    def step(images, t):
        noise = unet.forward(params, config, images, jnp.full((images.shape[0],), t, jnp.float32))
        return images - noise / steps, None

    return jax.lax.scan(step, images, jnp.linspace(1000.0, 1.0, steps))[0]


def main(config, batch, size, steps, limit=1e-4):
    params = unet.init(config, jax.random.key(0))
    images = jax.random.normal(jax.random.key(1), (batch, size, size, config.channels))
    clean, error, seconds = compare(lambda p, x: denoise(p, config, x, steps), params, images, repeats=1)
    report(f"UNet, {steps} steps of {batch} x {size}x{size}", error, seconds, limit)
    return clean


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, epilog="example: unet.py --steps 4")
    options.add_argument("--batch", type=int, default=1)
    options.add_argument("--size", type=int, default=64)
    options.add_argument("--steps", type=int, default=4)
    options.add_argument("--width", type=int, default=64)
    given = options.parse_args()
    main(unet.UNetConfig(width=given.width), given.batch, given.size, given.steps)
