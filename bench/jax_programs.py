"""Whole jitted programs of many kinds, small and middling: on virtual NeuronCores and on XLA's CPU, by turns.

Prints the fastest of each and the ratio (above 1: ours is faster), then how many are faster. `jax_programs.py fft sort`
runs some.
"""

import argparse

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import jax_peers
import numpy as np
from jax import lax

KEY = jax.random.key(0)
ROWS = {}


def row(f):
    ROWS[f.__name__] = f
    return f


def normal(*shape, seed=1):
    return jax.random.normal(jax.random.key(seed), shape)


def whole(*shape, below, seed=2):
    return jax.random.randint(jax.random.key(seed), shape, 0, below)


# --- loops


@row
def scan_rnn():
    def f(w, u, x):
        return lax.scan(lambda h, v: (jnp.tanh(h @ w + v @ u),) * 2, jnp.zeros((16, 64)), x)

    return f, (normal(64, 64) * 0.1, normal(32, 64), normal(100, 16, 32))


@row
def scan_lstm():
    def f(w, x):
        def step(state, v):
            h, c = state
            i, g, o, z = jnp.split(jnp.concatenate([h, v], -1) @ w, 4, -1)
            c = jax.nn.sigmoid(i) * c + jax.nn.sigmoid(g) * jnp.tanh(z)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        return lax.scan(step, (jnp.zeros((8, 128)),) * 2, x)[1]

    return f, (normal(256, 512) * 0.1, normal(50, 8, 128))


@row
def scan_kalman():
    def f(a, h, q, r, ys):
        def step(state, y):
            m, p = state
            m, p = a @ m, a @ p @ a.T + q
            s = h @ p @ h.T + r
            k = jnp.linalg.solve(s, h @ p).T
            return (m + k @ (y - h @ m), p - k @ s @ k.T), m

        return lax.scan(step, (jnp.zeros(4), jnp.eye(4)), ys)[1]

    return f, (jnp.eye(4) * 0.9, normal(2, 4), jnp.eye(4) * 0.1, jnp.eye(2), normal(200, 2))


@row
def scan_cumulative():
    return lambda x: (jnp.cumsum(x, 1), jnp.cumprod(x * 0.01 + 1, 0), lax.cummax(x, 1)), (normal(256, 512),)


@row
def scan_associative():
    def f(a, b):
        return lax.associative_scan(lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1]), (a, b))

    return f, (jax.nn.sigmoid(normal(1024, 64)), normal(1024, 64))


@row
def while_newton():
    def f(x):
        def iterate(s):
            y, n = s
            return y - (y**3 - x) / (3 * y * y), n + 1

        return lax.while_loop(lambda s: (jnp.abs(s[0] ** 3 - x).max() > 1e-3) & (s[1] < 60), iterate, (jnp.ones_like(x), 0))

    return f, (jnp.abs(normal(4096)) + 1,)


@row
def while_collatz():
    def f(n):
        def iterate(s):
            n, count = s
            return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1

        return jax.vmap(lambda n: lax.while_loop(lambda s: s[0] > 1, iterate, (n, 0))[1])(n)

    return f, (jnp.arange(1, 513),)


@row
def fori_power():
    def f(a):
        return lax.fori_loop(0, 100, lambda _, v: (lambda w: w / jnp.linalg.norm(w))(a @ v), jnp.ones(200))

    return f, (normal(200, 200),)


@row
def fori_cells():
    def iterate(_, b):
        n = sum(jnp.roll(b, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - b
        return ((n == 3) | ((b == 1) & (n == 2))).astype(b.dtype)

    return lambda b: lax.fori_loop(0, 50, iterate, b), (whole(128, 128, below=2),)


@row
def scan_viterbi():
    def f(start, move, seen):
        def step(best, e):
            scores = best[:, None] + move
            return scores.max(0) + e, scores.argmax(0)

        best, back = lax.scan(step, start, seen)
        last, path = lax.scan(lambda k, b: (b[k], k), best.argmax(), back, reverse=True)
        return path, best.max()

    return f, (normal(32), normal(32, 32), normal(200, 32))


# --- differential equations


@row
def ode_lorenz():
    def rate(v):
        x, y, z = v
        return jnp.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    def step(v, _):
        a = rate(v)
        b = rate(v + 0.005 * a)
        c = rate(v + 0.005 * b)
        d = rate(v + 0.01 * c)
        return v + 0.01 / 6 * (a + 2 * b + 2 * c + d), v

    return lambda v: lax.scan(step, v, None, 1000)[1], (jnp.ones(3),)


@row
def ode_many_pendulums():
    def step(s, _):
        q, p = s
        p = p - 0.01 * jnp.sin(q)
        return (q + 0.01 * p, p), None

    return lambda q, p: lax.scan(step, (q, p), None, 200)[0], (normal(10000), normal(10000, seed=3))


@row
def ode_heat():
    def step(u, _):
        return u + 0.2 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u), None

    return lambda u: lax.scan(step, u, None, 50)[0], (normal(256, 256),)


@row
def ode_wave_gradient():
    def f(c, u):
        def step(s, _):
            a, b = s
            lap = jnp.roll(b, 1) + jnp.roll(b, -1) - 2 * b
            return (b, 2 * b - a + c * lap), None

        return (lax.scan(step, (u, u), None, 100)[0][1] ** 2).sum()

    return jax.grad(f), (jnp.full(500, 0.1), jnp.sin(jnp.linspace(0, 6, 500)))


@row
def ode_bodies():
    def step(s, _):
        x, v = s
        d = x[None] - x[:, None]
        a = (d / ((d * d).sum(-1) + 0.01)[..., None] ** 1.5).sum(1)
        v = v + 0.001 * a
        return (x + 0.001 * v, v), None

    return lambda x, v: lax.scan(step, (x, v), None, 20)[0], (normal(128, 3), normal(128, 3) * 0.1)


# --- linear algebra


@row
def linalg_solve_batch():
    return jnp.linalg.solve, (normal(256, 8, 8) + 4 * jnp.eye(8), normal(256, 8, 1))


@row
def linalg_cholesky_solve():
    def f(a, b):
        return jsp.linalg.cho_solve(jsp.linalg.cho_factor(a @ a.T + 100 * jnp.eye(200)), b)

    return f, (normal(200, 200), normal(200, 4))


@row
def linalg_qr():
    return jnp.linalg.qr, (normal(128, 64),)


@row
def linalg_svd_batch():
    return lambda x: jnp.linalg.svd(x, full_matrices=False), (normal(64, 6, 4),)


@row
def linalg_eigh():
    return lambda a: jnp.linalg.eigh(a + a.T), (normal(64, 64),)


@row
def linalg_det_inverse():
    return lambda a: (jnp.linalg.slogdet(a), jnp.linalg.inv(a)), (normal(32, 16, 16) + 4 * jnp.eye(16),)


@row
def linalg_conjugate_gradient():
    def f(a, b):
        m = a @ a.T + 100 * jnp.eye(256)
        return jsp.sparse.linalg.cg(lambda v: m @ v, b, maxiter=50)[0]

    return f, (normal(256, 256), normal(256))


@row
def linalg_expm():
    return jsp.linalg.expm, (normal(32, 32) * 0.2,)


@row
def linalg_least_squares():
    return lambda a, b: jnp.linalg.lstsq(a, b)[0], (normal(200, 10), normal(200))


@row
def linalg_tridiagonal():
    d = normal(64, 100)
    return lax.linalg.tridiagonal_solve, (d, d + 4, d, d[..., None])


@row
def linalg_gaussian_process():
    def f(x, y, at):
        k = lambda a, b: jnp.exp(-((a[:, None] - b[None]) ** 2).sum(-1))
        chol = jnp.linalg.cholesky(k(x, x) + 0.1 * jnp.eye(len(x)))
        return k(at, x) @ jsp.linalg.cho_solve((chol, True), y), 2 * jnp.log(jnp.diag(chol)).sum()

    return f, (normal(150, 3), normal(150), normal(50, 3))


# --- transforms, sorts, indices


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
def interpolate():
    return lambda x, a, b: jnp.interp(x, a, b), (normal(10000), jnp.linspace(-3, 3, 100), normal(100))


@row
def resize():
    return lambda x: jax.image.resize(x, (128, 128, 3), "bilinear"), (normal(64, 64, 3),)


@row
def map_coordinates():
    return lambda x, c: jsp.ndimage.map_coordinates(x, c, order=1), (normal(100, 100), jnp.abs(normal(2, 5000)) * 30)


# --- random numbers


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


# --- sums


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


# --- nets


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


# --- vmapped solvers and others


@row
def vmap_newton():
    def solve(a):
        return lax.fori_loop(0, 20, lambda _, x: x - (jnp.exp(x) * x - a) / (jnp.exp(x) * (x + 1)), 1.0)

    return jax.vmap(solve), (jnp.abs(normal(10000)) + 0.1,)


@row
def vmap_bisect():
    def solve(c):
        def iterate(_, s):
            low, high = s
            mid = (low + high) / 2
            up = mid**3 + mid < c
            return jnp.where(up, mid, low), jnp.where(up, high, mid)

        return lax.fori_loop(0, 40, iterate, (-10.0, 10.0))[0]

    return jax.vmap(solve), (normal(5000),)


@row
def vmap_gradient_descent():
    def solve(a, b):
        return lax.fori_loop(0, 50, lambda _, x: x - 0.01 * a.T @ (a @ x - b), jnp.zeros(8))

    return jax.vmap(solve), (normal(64, 16, 8), normal(64, 16))


@row
def vmap_edit_distance():
    def f(a, b):
        def line(above, x):
            def cell(left, s):
                diagonal, up, y = s
                best = jnp.minimum(jnp.minimum(left, up) + 1, diagonal + (x != y))
                return best, best

            first = above[0] + 1
            _, rest = lax.scan(cell, first, (above[:-1], above[1:], b))
            return jnp.concatenate([first[None], rest]), None

        return lax.scan(line, jnp.arange(len(b) + 1), a)[0][-1]

    return jax.vmap(f), (whole(16, 30, below=4), whole(16, 30, below=4, seed=5))


@row
def clusters():
    def f(x, c):
        def iterate(c, _):
            near = jax.nn.one_hot(jnp.argmin(((x[:, None] - c[None]) ** 2).sum(-1), 1), len(c))
            return near.T @ x / jnp.maximum(near.sum(0), 1)[:, None], None

        return lax.scan(iterate, c, None, 10)[0]

    return f, (normal(1000, 4), normal(8, 4))


@row
def mandelbrot():
    def f(c):
        def iterate(_, s):
            z, n = s
            inside = jnp.abs(z) < 2
            return jnp.where(inside, z * z + c, z), n + inside

        return lax.fori_loop(0, 50, iterate, (jnp.zeros_like(c), jnp.zeros(c.shape, jnp.int32)))[1]

    x = jnp.linspace(-2, 1, 200)
    return f, (x[:, None] + 1j * x[None, :],)


@row
def polynomial():
    return lambda p, x: jnp.polyval(p, x), (normal(20), normal(50000))


@row
def integers():
    def f(x):
        x = x ^ (x >> 16)
        x = (x * jnp.uint32(0x45D9F3B)) ^ (x >> 13)
        return lax.population_count(x).sum(), (x % 97).max(), lax.clz(x).min()

    return f, (whole(100000, below=2**30).astype(jnp.uint32),)


@row
def cond_switch():
    branches = [jnp.sin, jnp.cos, jnp.tanh, lambda x: x * x]
    return lambda i, x: lax.scan(lambda x, i: (lax.switch(i, branches, x), None), x, i)[0], (whole(200, below=4), normal(256))


@row
def special():
    return lambda x: (jsp.special.erf(x), jsp.special.gammaln(x), jsp.special.digamma(x), jsp.stats.norm.logpdf(x)), (
        jnp.abs(normal(20000)) + 0.5,)  # fmt: skip


@row
def tiny():
    return lambda a, b: (a + b, (a * b).sum()), (np.ones(4, np.float32), np.ones(4, np.float32))


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("rows", nargs="*", help=f"of {', '.join(ROWS)}")
    options.add_argument("--seconds", type=float, default=2, help="per row")
    given = options.parse_args()
    given.bf16, given.engines = False, ()
    if unknown := set(given.rows) - set(ROWS):
        raise SystemExit(f"no row is named {', '.join(unknown)}; there are {', '.join(ROWS)}")
    ratios = {}
    jax_peers.print_head()
    for name in given.rows or ROWS:
        r = jax_peers.measure(name, ROWS[name], given)
        jax_peers.print_row(r)
        ratios[name] = r["ratio"]
    slow = sorted((r, name) for name, r in ratios.items() if r < 1)
    listed = ", ".join(f"{n} {r:.2f}" for r, n in slow) or "none"
    print(f"{len(ratios) - len(slow)} of {len(ratios)} faster; slower: {listed}")


if __name__ == "__main__":
    main()
