"""JAX functions of the corpus, small and real: what layers, losses, optimisers, samplers and solvers are made of."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/(tests|python)/(replay/|jax/|trine/)?")
PROGRAMS = {}


def lowered(jitted, shapes, named=None):
    """StableHLO with the user's lines, as text."""
    text = jitted.trace(*shapes).lower(lowering_platforms=("neuron",)).compiler_ir("stablehlo").operation.get_asm(enable_debug_info=True)
    if named:
        text = re.sub(r"module @\S+", "module @" + re.sub(r"\W", "_", named), text, count=1)
    return text.encode()


def s(*shape, dtype="float32"):
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


def program(*shapes, **jit):
    def keep(f):
        PROGRAMS[f.__name__] = (jax.jit(f, **jit), shapes)
        return f

    return keep


half = functools.partial(s, dtype="bfloat16")
whole = functools.partial(s, dtype="int32")


@program(s(64, 256), s(256, 512), s(512), s(512, 256), s(256))
def mlp(x, w1, b1, w2, b2):
    return jax.nn.gelu(x @ w1 + b1) @ w2 + b2


@program(half(64, 256), half(256, 1024), half(1024, 256))
def mlp_half(x, w1, w2):
    return jax.nn.relu(x @ w1) @ w2


@program(s(16, 64), s(64, 128), s(128, 10), whole(16))
def mlp_step(x, w1, w2, labels):
    def loss(w1, w2):
        logits = jax.nn.relu(x @ w1) @ w2
        return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(16), labels])

    value, (g1, g2) = jax.value_and_grad(loss, (0, 1))(w1, w2)
    return value, w1 - 0.1 * g1, w2 - 0.1 * g2


@program(s(32, 512), s(512), s(512))
def layer_norm(x, g, b):
    m, v = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - m) * lax.rsqrt(v + 1e-5) * g + b


@program(half(32, 512), half(512))
def rms_norm(x, g):
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt((wide**2).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype) * g


@program(s(32, 512), s(512), s(32, 512))
def layer_norm_gradient(x, g, dy):
    return jax.vjp(lambda x, g: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g, x, g)[1](dy)


@program(s(64, 1000))
def softmax(x):
    return jax.nn.softmax(x)


@program(s(64, 1000), whole(64))
def cross_entropy(x, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], 1).mean()


def attend(q, k, v, causal):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)


@program(s(2, 128, 4, 64), s(2, 128, 4, 64), s(2, 128, 4, 64))
def attention(q, k, v):
    return attend(q, k, v, False)


@program(half(1, 256, 4, 64), half(1, 256, 4, 64), half(1, 256, 4, 64))
def attention_causal(q, k, v):
    return attend(q, k, v, True)


@program(s(1, 128, 2, 32), s(1, 128, 2, 32), s(1, 128, 2, 32), s(1, 128, 2, 32))
def attention_gradient(q, k, v, dy):
    return jax.vjp(lambda *a: attend(*a, True), q, k, v)[1](dy)


@program(half(4, 1, 8, 64), half(4, 256, 2, 64), half(4, 256, 2, 64), half(4, 1, 2, 64), whole())
def attention_decode(q, k, v, new, at):
    k = lax.dynamic_update_slice(k, new, (0, at, 0, 0))
    seen = jnp.arange(256) <= at
    scores = jnp.einsum("bqgcd,bkgd->bgcqk", q.reshape(4, 1, 2, 4, 64), k) / 8
    return jnp.einsum("bgcqk,bkgd->bqgcd", jax.nn.softmax(jnp.where(seen, scores, -1e9).astype(jnp.float32)).astype(v.dtype), v), k


@program(s(2, 64, 8, 32), s(64, 16))
def rope(x, angles):
    a, b = jnp.split(x, 2, -1)
    c, n = jnp.cos(angles)[None, :, None], jnp.sin(angles)[None, :, None]
    return jnp.concatenate([a * c - b * n, b * c + a * n], -1)


@program(s(500, 64), whole(4, 32))
def embedding(table, tokens):
    return table[tokens]


@program(s(500, 64), whole(4, 32), s(4, 32, 64))
def embedding_gradient(table, tokens, dy):
    return jax.vjp(lambda t: t[tokens], table)[1](dy)


@program(s(2, 16, 16, 8), s(3, 3, 8, 16), s(16))
def convolution(x, w, b):
    return jax.nn.relu(lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + b)


@program(half(1, 8, 28, 28), half(16, 8, 3, 3))
def convolution_strided(x, w):
    return lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))


@program(s(1, 12, 14, 14), s(12, 1, 5, 5))
def convolution_depthwise(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=12)


@program(s(1, 8, 8, 8), s(4, 8, 3, 3))
def convolution_transposed(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), [(2, 2), (2, 2)], lhs_dilation=(2, 2))


@program(s(2, 8, 12, 12), s(4, 8, 3, 3), s(2, 4, 12, 12))
def convolution_gradient(x, w, dy):
    return jax.vjp(lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME"), x, w)[1](dy)


@program(s(4, 16, 16, 8))
def pooling(x):
    largest = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return largest, lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME") / 9


@program(s(4, 16, 16, 8), s(4, 8, 8, 8))
def pooling_gradient(x, dy):
    return jax.vjp(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), x)[1](dy)


@program(s(20, 8, 32), s(8, 64), s(32, 256), s(64, 256), s(256))
def lstm(xs, h, wx, wh, b):
    def step(carry, x):
        h, c = carry
        i, f, g, o = jnp.split(x @ wx + h @ wh + b, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return lax.scan(step, (h, jnp.zeros_like(h)), xs)


@program(s(6, 64, 64), s(4, 64))
def layers_scanned(ws, x):
    return lax.scan(lambda x, w: (jnp.tanh(x @ w), x.sum()), x, ws)


@program(s(64, 64), s(64), whole())
def power_iteration(a, v, n):
    return lax.fori_loop(0, n, lambda _, v: (a @ v) / jnp.linalg.norm(a @ v), v)


@program(s(32))
def newton(x):
    return lax.while_loop(lambda c: jnp.any(jnp.abs(c[0] ** 2 - x) > 1e-4), lambda c: (0.5 * (c[0] + x / c[0]), c[1] + 1), (x + 1, 0))


@program(whole(), s(8, 8))
def branches(i, x):
    return lax.switch(i, [lambda x: x.T, lambda x: jnp.sin(x), lambda x: x @ x], x)


@program(s(16, 300))
def sorting(x):
    return jnp.sort(x, -1), jnp.argsort(x, -1), *lax.top_k(x, 5)


@program(s(8, 4000))
def arg_max(x):
    return jnp.argmax(x, -1), x.max(-1)


@program(s(16, 500))
def running(x):
    return jnp.cumsum(x, 1), lax.cummax(x, 1), jnp.cumprod(x[:, :9], 1)


@program(s(100, 16), whole(40), s(40, 16))
def scatter(x, at, rows):
    return x.at[at].set(rows), x.at[at].add(rows), x.at[at, 3].max(rows[:, 0])


@program(s(40, 30), whole(7), whole(7))
def gather_points(x, i, j):
    return x[i, j], x[:, j], x[i][:, None, 3:9]


@program(s(64), whole())
def dynamic(x, i):
    return lax.dynamic_slice(x, (i,), (8,)), lax.dynamic_update_slice(x, x[:4], (i,)), jnp.roll(x, i)


@program(s(12, 10), s(12, 6))
def moving(x, y):
    return jnp.concatenate([x, y], 1), jnp.pad(x, ((1, 2), (0, 3))), x[::2, ::-1], x.T.reshape(4, 30), jnp.tile(x, (2, 1))


@program(s(24, 36), s(6))
def reductions(x, y):
    return x.sum(0), x.max(1), x.prod(), jnp.any(x > 1, 0), x.reshape(6, 4, 36).sum((0, 2)), jnp.var(x), jnp.linalg.norm(y)


@program(s(128), s(128))
def elementwise(x, y):
    return jnp.exp(x) / (1 + jnp.abs(y)) + jnp.tanh(x * y) - jnp.log1p(jnp.abs(x)) * jnp.sin(y) ** 2 + lax.erf(x)


@program(whole(128), whole(128), s(128, dtype="uint8"))
def integers(x, y, b):
    return x // (jnp.abs(y) + 1), x % 7, x << 2, x ^ y, lax.population_count(x), b.astype(jnp.int32) * x, jnp.clip(x, -5, 5)


@program(s(128))
def formats(x):
    narrow = [x.astype(t).astype(jnp.float32) for t in (jnp.bfloat16, jnp.float16, jnp.float8_e4m3fn, jnp.float8_e5m2)]
    return *narrow, lax.reduce_precision(x, 5, 7), lax.bitcast_convert_type(x, jnp.int32)


@program(s(2, dtype="uint32"))
def random(key):
    return jax.random.normal(key, (64, 32)), jax.random.bernoulli(key, 0.3, (100,)), jax.random.categorical(key, jnp.zeros((4, 9)))


@program(s(32, 32), s(32, 4))
def solving(a, b):
    p = a @ a.T + 32 * jnp.eye(32)
    return jnp.linalg.cholesky(p), jax.scipy.linalg.solve_triangular(p, b, lower=True), jnp.linalg.qr(a)


@program(s(64), s(8, 32))
def fourier(x, y):
    return jnp.abs(jnp.fft.rfft(x)), jnp.fft.ifft2(y).real


@program(s(16, dtype="complex64"), s(16, dtype="complex64"))
def complex_numbers(x, y):
    return x * y, jnp.exp(x), jnp.abs(y), x.conj() / y


@program(s(4, 32, 64), s(4, 64, 16), s(32, 64))
def batched_products(a, b, c):
    return a @ b, jnp.einsum("bij,kj->bik", a, c), jnp.einsum("ij,ij->i", c, c)


@program(half(512, 512), half(512, 512))
def matmul_512(a, b):
    return a @ b


@program(s(130, 700), s(700, 300))
def matmul_odd(a, b):
    return a @ b


@program(s(1024, 1024), s(1024, 1024), s(1024, 1024), s(1024, 1024), donate_argnums=(0, 2, 3))
def adamw(w, g, m, v):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return w - 1e-3 * (m / (jnp.sqrt(v) + 1e-8) + 0.01 * w), m, v


@program(s(2, 64, 64), s(64, 4), s(4, 64, 128), s(4, 128, 64))
def experts(x, gate, up, down):
    weights, chosen = lax.top_k(jax.nn.softmax(x @ gate), 2)
    every = jnp.einsum("btef,efd->bted", jax.nn.silu(jnp.einsum("btd,edf->btef", x, up)), down)
    return (jnp.take_along_axis(every, chosen[..., None], 2) * weights[..., None]).sum(2)


@program(s(8, 300), s(2, dtype="uint32"))
def sampling(logits, key):
    values, _ = lax.top_k(logits, 20)
    cut = jnp.where(logits < values[:, -1:], -jnp.inf, logits / 0.8)
    return jax.random.categorical(key, cut)


@program(s(64, 256), s(256, 512, dtype="int8"), s(512))
def weights_quantised(x, w, scale):
    return x @ (w.astype(jnp.float32) * scale)


@program(s(4, 8, 8, 3))
def image(x):
    return jax.image.resize(x, (4, 16, 16, 3), "bilinear"), jax.image.resize(x, (4, 4, 4, 3), "nearest")


def programs():
    about = {"jax": True, "chips": ["trn1", "trn2"]}
    return {name: (lowered(f, shapes), dict(about)) for name, (f, shapes) in PROGRAMS.items()}
