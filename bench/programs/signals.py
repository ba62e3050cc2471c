"""Transforms, filters and images."""

import jax
import jax.numpy as jnp
import jax.scipy as jsp
from jax import lax

from programs.row import normal, row, whole


@row
def fft():
    return lambda x: jnp.abs(jnp.fft.fft(x)) ** 2, (normal(64, 1024),)


@row
def fft_convolve():
    def f(x, k):
        return jnp.fft.irfft2(jnp.fft.rfft2(x) * jnp.fft.rfft2(k, x.shape), x.shape)

    return f, (normal(256, 256), normal(9, 9))


@row
def fft_spectrogram():
    def f(x):
        frames = x[jnp.arange(0, 16000 - 400, 160)[:, None] + jnp.arange(400)] * jnp.hanning(400)
        return jnp.log(jnp.abs(jnp.fft.rfft(frames)) + 1e-6)

    return f, (normal(16000),)


@row
def interpolate():
    return lambda x, a, b: jnp.interp(x, a, b), (normal(10000), jnp.linspace(-3, 3, 100), normal(100))


@row
def resize():
    return lambda x: jax.image.resize(x, (128, 128, 3), "bilinear"), (normal(64, 64, 3),)


@row
def map_coordinates():
    return lambda x, c: jsp.ndimage.map_coordinates(x, c, order=1), (normal(100, 100), jnp.abs(normal(2, 5000)) * 30)


@row
def stft_gradient():
    def f(x):
        frames = x.reshape(32, 256) * jnp.hanning(256)
        return (jnp.abs(jnp.fft.rfft(frames)) ** 2).sum(-1).max()

    return jax.grad(f), (normal(8192),)


@row
def fft_2d():
    return lambda x: jnp.fft.ifft2(jnp.fft.fft2(x) * 0.5).real, (normal(128, 128),)


@row
def fft_prime():
    return lambda x: jnp.fft.fft(x), (normal(16, 509),)


@row
def fft_heat():
    def f(u):
        k = jnp.fft.rfftfreq(256) * 2
        step = lambda u, _: (jnp.fft.irfft(jnp.fft.rfft(u) * jnp.exp(-0.1 * k * k), 256), None)
        return lax.scan(step, u, None, 50)[0]

    return f, (normal(256),)


@row
def fir_filter():
    return lambda x, w: jnp.convolve(x, w, mode="same"), (normal(8000), normal(31))


@row
def fir_many():
    return jax.vmap(lambda x, w: jnp.convolve(x, w, mode="valid"), (0, None)), (normal(32, 1000), normal(15))


@row
def iir_filter():
    def f(x):
        def step(s, x):
            a, b = s
            y = 0.2 * x + 1.2 * a - 0.5 * b
            return (y, a), y

        return lax.scan(step, (0.0, 0.0), x)[1]

    return f, (normal(2000),)


@row
def blur_image():
    def f(x, k):
        x = jnp.moveaxis(x, -1, 0)[:, None]
        x = lax.conv_general_dilated(x, k[None, None, :, None], (1, 1), "SAME")
        return lax.conv_general_dilated(x, k[None, None, None], (1, 1), "SAME")

    return f, (normal(128, 128, 3), jnp.ones(7) / 7)


@row
def sobel():
    def f(x):
        p = jnp.pad(x, 1, mode="edge")
        gx = p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:] - p[:-2, :-2] - 2 * p[1:-1, :-2] - p[2:, :-2]
        gy = p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:] - p[:-2, :-2] - 2 * p[:-2, 1:-1] - p[:-2, 2:]
        return jnp.sqrt(gx * gx + gy * gy)

    return f, (normal(256, 256),)


@row
def augment():
    def f(x, flip):
        x = jnp.pad(x, ((0, 0), (4, 4), (4, 4), (0, 0)), mode="reflect")[:, 3:35, 5:37]
        x = jnp.where(flip[:, None, None, None], x[:, :, ::-1], x)
        return (x - x.mean((1, 2), keepdims=True)) / (x.std((1, 2), keepdims=True) + 1e-5)

    return f, (normal(32, 32, 32, 3), whole(32, below=2) > 0)


@row
def flip_image():
    return lambda x: (x[:, ::-1], x[::-1]), (normal(256, 256, 3),)


@row
def rotate_image():
    def f(x, a):
        i, j = jnp.meshgrid(jnp.arange(100.0) - 50, jnp.arange(100.0) - 50, indexing="ij")
        at = jnp.stack([jnp.cos(a) * i - jnp.sin(a) * j + 50, jnp.sin(a) * i + jnp.cos(a) * j + 50])
        return jsp.ndimage.map_coordinates(x, at, order=1, mode="nearest")

    return f, (normal(100, 100), jnp.float32(0.3))


@row
def color_convert():
    def f(x):
        y = x.astype(jnp.float32) / 255
        high, low = y.max(-1), y.min(-1)
        gray = y @ jnp.array([0.299, 0.587, 0.114])
        return (gray * 255).astype(jnp.uint8), jnp.where(high > 0, (high - low) / jnp.maximum(high, 1e-6), 0)

    return f, (whole(128, 128, 3, below=256).astype(jnp.uint8),)


@row
def equalize():
    def f(x):
        counts = jnp.zeros(256, jnp.int32).at[x.ravel()].add(1)
        table = (jnp.cumsum(counts) * 255 // x.size).astype(jnp.uint8)
        return table[x]

    return f, (whole(128, 128, below=256),)


@row
def resize_cubic():
    return lambda x: jax.image.resize(x, (2, 96, 96, 3), "cubic"), (normal(2, 64, 64, 3),)


@row
def patches():
    def f(x, w):
        x = x.reshape(8, 8, 4, 8, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(8, 64, 48)
        return x @ w

    return f, (normal(8, 32, 32, 3), normal(48, 64))


@row
def dilate_mask():
    return lambda m: lax.reduce_window(m, False, lax.bitwise_or, (5, 5), (1, 1), "SAME"), (whole(128, 128, below=20) == 0,)
