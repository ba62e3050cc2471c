"""Layers of nets, their gradients and training steps."""

import jax
import jax.numpy as jnp
from jax import lax

from programs.row import normal, row, whole


def conv(x, w, stride=1, **options):
    return lax.conv_general_dilated(x, w, (stride,) * 2, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), **options)


@row
def net_conv():
    def f(w, x):
        for v in w[:-1]:
            x = jax.nn.relu(conv(x, v, 2))
        return x.mean((1, 2)) @ w[-1]

    return f, ([normal(3, 3, 3, 16), normal(3, 3, 16, 32), normal(3, 3, 32, 64), normal(64, 10)], normal(8, 32, 32, 3))


@row
def net_conv_gradient():
    f, args = net_conv()
    return jax.grad(lambda w, x: jax.nn.logsumexp(f(w, x), -1).sum()), args


@row
def net_conv_1d():
    def f(x, w):
        return jax.nn.gelu(lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NHC", "HIO", "NHC")))

    return f, (normal(4, 500, 32), normal(5, 32, 32))


@row
def net_depthwise():
    def f(x, w):
        return conv(x, w, feature_group_count=32)

    return f, (normal(4, 32, 32, 32), normal(3, 3, 1, 32))


@row
def net_perceptron():
    def f(w, x, y):
        def loss(w):
            h = x
            for v in w[:-1]:
                h = jax.nn.relu(h @ v)
            return ((h @ w[-1] - y) ** 2).mean()

        return jax.tree.map(lambda p, g: p - 0.01 * g, w, jax.grad(loss)(w))

    return f, ([normal(32, 64), normal(64, 64), normal(64, 1)], normal(128, 32), normal(128, 1))


@row
def net_adam():
    def f(w, m, v, g):
        new = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g), jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, g)
        return jax.tree.map(lambda w, m, v: w - 1e-3 * m / (jnp.sqrt(v) + 1e-8), w, *new), *new

    w = [normal(64, 64) for _ in range(20)]
    return f, (w, w, jax.tree.map(jnp.abs, w), w)


@row
def net_attention():
    def f(x, q, k, v, o):
        heads = lambda y: y.reshape(4, 64, 4, 32)
        a = jax.nn.dot_product_attention(heads(x @ q), heads(x @ k), heads(x @ v))
        return x + a.reshape(4, 64, 128) @ o

    return f, (normal(4, 64, 128), *(normal(128, 128) * 0.1 for _ in range(4)))


@row
def net_norm_gradient():
    def f(x, g):
        y = (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g
        return (jnp.tanh(y) ** 2).sum()

    return jax.grad(f, (0, 1)), (normal(256, 256), normal(256))


@row
def net_per_example():
    def loss(w, x, y):
        return (jnp.tanh(x @ w[0]) @ w[1] - y) ** 2

    return jax.vmap(jax.grad(loss), (None, 0, 0)), ([normal(16, 32), normal(32)], normal(64, 16), normal(64))


@row
def net_hessian():
    return jax.hessian(lambda w, x: jnp.tanh(jnp.tanh(x @ w.reshape(8, 8)) @ jnp.ones(8)).sum()), (normal(64), normal(16, 8))


@row
def net_gru_one_row():
    def f(w, u, x):
        def step(h, v):
            z, r, n = jnp.split(v @ w, 3)
            a, b, c = jnp.split(h @ u, 3)
            z, r = jax.nn.sigmoid(z + a), jax.nn.sigmoid(r + b)
            h = (1 - z) * jnp.tanh(n + r * c) + z * h
            return h, h

        return lax.scan(step, jnp.zeros(64), x)[1]

    return f, (normal(32, 192) * 0.1, normal(64, 192) * 0.1, normal(100, 32))


@row
def net_rnn_gradient():
    def f(w, x):
        return (lax.scan(lambda h, v: (jnp.tanh(h @ w + v),) * 2, jnp.zeros((8, 32)), x)[1] ** 2).mean()

    return jax.grad(f), (normal(32, 32) * 0.1, normal(50, 8, 32))


@row
def net_conv_channels_first():
    def f(w, x):
        for v in w[:-1]:
            x = jax.nn.relu(lax.conv_general_dilated(x, v, (1, 1), "SAME"))
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return jax.nn.logsumexp(x.mean((2, 3)) @ w[-1], -1).sum()

    return jax.grad(f), ([normal(16, 1, 3, 3), normal(32, 16, 3, 3), normal(32, 10)], normal(16, 1, 28, 28))


@row
def net_conv_transpose():
    def f(x, w):
        return lax.conv_transpose(x, w, (2, 2), "SAME")

    return f, (normal(4, 16, 16, 16), normal(3, 3, 16, 8))


@row
def net_autoencoder_step():
    def f(w, x):
        def loss(w):
            h = jnp.tanh(x @ w[0])
            return ((jax.nn.sigmoid(jnp.tanh(h @ w[1]) @ w[2]) - x) ** 2).mean()

        v, g = jax.value_and_grad(loss)(w)
        return v, [a - 0.1 * b for a, b in zip(w, g, strict=True)]

    return f, ([normal(196, 64) * 0.1, normal(64, 64) * 0.1, normal(64, 196) * 0.1], jax.nn.sigmoid(normal(64, 196)))


@row
def net_train_epoch():
    def f(w, xs, ys):
        def step(w, b):
            loss = lambda w: ((jax.nn.relu(b[0] @ w[0]) @ w[1] - b[1]) ** 2).mean()
            v, g = jax.value_and_grad(loss)(w)
            return jax.tree.map(lambda p, g: p - 0.01 * g, w, g), v

        return lax.scan(step, w, (xs, ys))

    return f, ([normal(16, 32) * 0.2, normal(32, 1) * 0.2], normal(50, 32, 16), normal(50, 32, 1))


@row
def net_transformer_block():
    def norm(x):
        return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

    def f(w, x):
        h = norm(x)
        q, k, v = (y.reshape(2, 64, 4, 16) for y in jnp.split(h @ w[0], 3, -1))
        s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 4
        s = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((64, 64), bool)), s, -1e9), -1)
        x = x + jnp.einsum("bhqk,bkhd->bqhd", s, v).reshape(2, 64, 64) @ w[1]
        return x + jax.nn.gelu(norm(x) @ w[2]) @ w[3]

    return f, ([normal(64, 192) * 0.1, normal(64, 64) * 0.1, normal(64, 256) * 0.1, normal(256, 64) * 0.1], normal(2, 64, 64))


@row
def net_transformer_gradient():
    f, (w, x) = net_transformer_block()
    return jax.grad(lambda w, x: (f(w, x) ** 2).mean()), (w, x)


@row
def net_rotary():
    def f(x):
        a = jnp.arange(128.0)[:, None] / 10000 ** (jnp.arange(32.0) / 32)
        c, s = jnp.cos(a)[:, None], jnp.sin(a)[:, None]
        p, q = jnp.split(x, 2, -1)
        return jnp.concatenate([p * c - q * s, p * s + q * c], -1)

    return f, (normal(2, 128, 8, 64),)


@row
def net_rms_swiglu():
    def f(x, g, w, u, d):
        h = x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g
        return x + (jax.nn.silu(h @ w) * (h @ u)) @ d

    return f, (normal(64, 128), normal(128), normal(128, 256) * 0.1, normal(128, 256) * 0.1, normal(256, 128) * 0.1)


@row
def net_experts():
    def f(x, gate, w):
        p, i = lax.top_k(jax.nn.softmax(x @ gate), 2)
        mix = (jax.nn.one_hot(i, 4) * p[..., None]).sum(1)
        return jnp.einsum("te,td,edf->tf", mix, x, w)

    return f, (normal(64, 32), normal(32, 4), normal(4, 32, 32))


@row
def net_int8_weights():
    def f(x, w, s):
        for i in range(4):
            x = jnp.tanh(x @ (w[i].astype(jnp.float32) * s[i]))
        return x

    return f, (normal(1, 256), whole(4, 256, 256, below=255).astype(jnp.int8), jnp.full((4, 256), 0.001))


@row
def net_int4_weights():
    def f(x, w, s):
        for i in range(4):
            x = jnp.tanh(x @ (w[i].astype(jnp.float32) * s[i]))
        return x

    return f, (normal(1, 256), (whole(4, 256, 256, below=15) - 7).astype(jnp.int4), jnp.full((4, 256), 0.01))


@row
def net_bf16_perceptron():
    def f(w, x):
        for v in w:
            x = jax.nn.gelu(x @ v)
        return x

    return f, ([(normal(128, 128) * 0.1).astype(jnp.bfloat16) for _ in range(3)], normal(64, 128).astype(jnp.bfloat16))


@row
def net_batch_norm_step():
    def f(x, g, b):
        m, v = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return (jax.nn.relu((x - m) * lax.rsqrt(v + 1e-5) * g + b) ** 2).mean()

    return jax.value_and_grad(f, (0, 1, 2)), (normal(8, 16, 16, 32), jnp.ones(32), jnp.zeros(32))


@row
def net_cross_entropy():
    def f(x, y):
        return -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1).mean()

    return jax.value_and_grad(f), (normal(128, 1000), whole(128, below=1000))


@row
def net_dropout():
    def f(k, x):
        keep = jax.random.bernoulli(k, 0.9, x.shape)
        return jnp.where(keep, x / 0.9, 0)

    return f, (jax.random.key(1), normal(128, 512))


@row
def net_greedy_decode():
    def f(w, e, first):
        def step(t, _):
            t = jnp.argmax(jnp.tanh(e[t] @ w) @ e.T, -1)
            return t, t

        return lax.scan(step, first, None, 32)[1]

    return f, (normal(64, 64) * 0.2, normal(500, 64), jnp.zeros(4, jnp.int32))


@row
def policy_returns():
    def f(r, done):
        return lax.scan(lambda c, s: ((s[0] + 0.99 * c * (1 - s[1])),) * 2, jnp.zeros(16), (r, done), reverse=True)[1]

    return f, (normal(500, 16), (whole(500, 16, below=20) == 0).astype(jnp.float32))


@row
def cart_pole():
    def step(s, a):
        x, v, t, w = s
        force = jnp.where(a > 0, 10.0, -10.0)
        c, sn = jnp.cos(t), jnp.sin(t)
        u = (force + 0.05 * w * w * sn) / 1.1
        alpha = (9.8 * sn - c * u) / (0.5 * (4 / 3 - 0.1 * c * c / 1.1))
        acc = u - 0.05 * alpha * c / 1.1
        return (x + 0.02 * v, v + 0.02 * acc, t + 0.02 * w, w + 0.02 * alpha), x

    return jax.vmap(lambda a: lax.scan(step, (0.0, 0.0, 0.05, 0.0), a)[1]), (whole(32, 200, below=2),)
