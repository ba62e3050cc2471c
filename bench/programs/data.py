"""Sorts, indices, random numbers and sums."""

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax

from programs.row import KEY, normal, row, whole


@row
def sort():
    return lambda x: (jnp.sort(x, -1), jnp.argsort(x, 0)), (normal(256, 512),)


@row
def sort_median():
    return lambda x: (jnp.median(x, 0), jnp.quantile(x, 0.9, axis=1)), (normal(200, 300),)


@row
def sort_top_k():
    return lambda x: lax.top_k(x, 10), (normal(64, 5000),)


@row
def sort_unique():
    return lambda x: jnp.unique(x, size=200, return_counts=True), (whole(5000, below=200),)


@row
def search():
    return lambda a, v: jnp.searchsorted(a, v), (jnp.sort(normal(5000)), normal(5000, seed=3))


@row
def histogram():
    return lambda x: jnp.histogram(x, 50, (-4, 4))[0], (normal(50000),)


@row
def bincount():
    return lambda i, w: jnp.bincount(i, w, length=100), (whole(20000, below=100), normal(20000))


@row
def segment_sum():
    return lambda x, i: jax.ops.segment_sum(x, i, 500), (normal(5000, 16), whole(5000, below=500))


@row
def embedding_gradient():
    return jax.grad(lambda t, i: (t[i].mean(1) ** 2).sum()), (normal(2000, 64), whole(64, 32, below=2000))


@row
def graph_layer():
    def f(x, w, a, b):
        h = jax.nn.relu(x @ w)
        n = jnp.zeros(500).at[b].add(1.0)
        return jnp.zeros((500, 32)).at[b].add(h[a]) / jnp.maximum(n, 1)[:, None]

    return f, (normal(500, 32), normal(32, 32), whole(3000, below=500), whole(3000, below=500, seed=4))


@row
def random_normal():
    return lambda k: jax.random.normal(k, (500, 200)), (KEY,)


@row
def random_split():
    return lambda k: jax.vmap(jax.random.uniform)(jax.random.split(k, 1000)), (KEY,)


@row
def random_permutation():
    return lambda k: jax.random.permutation(k, 10000), (KEY,)


@row
def random_categorical():
    return lambda k, x: jax.random.categorical(k, x), (KEY, normal(64, 1000))


@row
def random_gamma():
    return lambda k: jax.random.gamma(k, 2.0, (1000,)), (KEY,)


@row
def random_walk():
    def f(k):
        def step(s, k):
            x, e = s
            a, b = jax.random.split(k)
            y = x + 0.5 * jax.random.normal(a, x.shape)
            take = jnp.log(jax.random.uniform(b, x.shape)) < 0.5 * (x * x - y * y)
            x = jnp.where(take, y, x)
            return (x, e + x), None

        return lax.scan(step, (jnp.zeros(100),) * 2, jax.random.split(k, 200))[0][1]

    return f, (KEY,)


@row
def reduce_moments():
    return lambda x: (x.mean((0, 2)), x.var((0, 2)), x.max(1), jnp.argmax(x, -1)), (normal(64, 64, 64),)


@row
def reduce_logsumexp():
    return lambda x: (jax.nn.logsumexp(x, 0), jax.nn.log_softmax(x, -1)), (normal(500, 1000),)


@row
def reduce_covariance():
    return lambda x: (jnp.cov(x), jnp.corrcoef(x)), (normal(64, 1000),)


@row
def reduce_distances():
    return lambda a, b: jnp.argmin(((a[:, None] - b[None]) ** 2).sum(-1), 1), (normal(500, 8), normal(100, 8))


@row
def reduce_pool():
    def f(x):
        largest = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        return largest, lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    return f, (normal(4, 64, 64, 16),)


@row
def integers():
    def f(x):
        x = x ^ (x >> 16)
        x = (x * jnp.uint32(0x45D9F3B)) ^ (x >> 13)
        return lax.population_count(x).sum(), (x % 97).max(), lax.clz(x).min()

    return f, (whole(100000, below=2**30).astype(jnp.uint32),)


@row
def special():
    return lambda x: (jsp.special.erf(x), jsp.special.gammaln(x), jsp.special.digamma(x), jsp.stats.norm.logpdf(x)), (
        jnp.abs(normal(20000)) + 0.5,)  # fmt: skip


@row
def tiny():
    return lambda a, b: (a + b, (a * b).sum()), (np.ones(4, np.float32), np.ones(4, np.float32))


@row
def strings_count():
    def f(x):
        same = (x[:-2] == 3) & (x[1:-1] == 1) & (x[2:] == 4)
        return same.sum(), jnp.cumsum(same)[-1]

    return f, (whole(50000, below=5).astype(jnp.uint8),)


@row
def group_means():
    def f(x, g):
        s, n = jax.ops.segment_sum(x, g, 50), jax.ops.segment_sum(jnp.ones_like(x), g, 50)
        m = s / jnp.maximum(n, 1)
        return m, jax.ops.segment_max(x, g, 50), x - m[g]

    return f, (normal(10000), whole(10000, below=50))


@row
def nearest_neighbours():
    def f(x, q):
        d = (q * q).sum(1)[:, None] - 2 * q @ x.T + (x * x).sum(1)
        return lax.top_k(-d, 5)[1]

    return f, (normal(1000, 16), normal(50, 16))


@row
def rank_data():
    return lambda x: jnp.argsort(jnp.argsort(x)), (normal(5000),)


@row
def trapezoid():
    return lambda y, x: (jnp.trapezoid(y, x), jnp.gradient(y[0])), (normal(100, 500), jnp.linspace(0, 1, 500))
