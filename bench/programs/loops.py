"""Loops, recurrences and differential equations."""

import jax
import jax.numpy as jnp
import jax.scipy as jsp
from jax import lax

from programs.row import normal, row, whole


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
def cond_switch():
    branches = [jnp.sin, jnp.cos, jnp.tanh, lambda x: x * x]
    return lambda i, x: lax.scan(lambda x, i: (lax.switch(i, branches, x), None), x, i)[0], (whole(200, below=4), normal(256))


@row
def odeint_van_der_pol():
    from jax.experimental.ode import odeint

    def rate(y, _, mu):
        return jnp.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])

    return lambda y, mu: odeint(rate, y, jnp.linspace(0, 5, 20), mu), (jnp.array([2.0, 0.0]), jnp.float32(1.0))


@row
def odeint_predators():
    from jax.experimental.ode import odeint

    def rate(y, _):
        a, b = y
        return jnp.stack([a * (1.1 - 0.4 * b), b * (0.1 * a - 0.4)])

    return lambda y: odeint(rate, y, jnp.linspace(0, 10, 50)), (jnp.array([10.0, 5.0]),)


@row
def euler_many_sir():
    def step(s, _):
        a, b, c = s
        new, out = 0.3 * a * b * 0.1, 0.1 * b * 0.1
        return (a - new, b + new - out, c + out), b.max()

    return lambda a, b: lax.scan(step, (a, b, jnp.zeros_like(a)), None, 500), (jnp.full(64, 0.99), jnp.linspace(0.001, 0.01, 64))


@row
def gray_scott():
    def lap(u):
        return jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u

    def step(s, _):
        u, v = s
        w = u * v * v
        return (u + 0.16 * lap(u) - w + 0.06 * (1 - u), v + 0.08 * lap(v) + w - 0.122 * v), None

    return lambda u, v: lax.scan(step, (u, v), None, 40)[0], (jnp.abs(normal(128, 128)), jnp.abs(normal(128, 128, seed=4)) * 0.1)


@row
def jacobi_pad():
    def step(_, u):
        p = jnp.pad(u, 1)
        return 0.25 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:])

    return lambda u: lax.fori_loop(0, 50, step, u), (normal(128, 128),)


@row
def burgers():
    def step(u, _):
        flux = 0.5 * u * u
        return u - 0.01 * (flux - jnp.roll(flux, 1)) + 0.1 * (jnp.roll(u, -1) - 2 * u + jnp.roll(u, 1)), None

    return lambda u: lax.scan(step, u, None, 300)[0], (jnp.sin(jnp.linspace(0, 6.28, 1024)),)


@row
def cells_u8():
    def iterate(_, b):
        p = jnp.pad(b, 1, mode="wrap")
        n = sum(p[i : i + 128, j : j + 128] for i in range(3) for j in range(3)) - b
        return ((n == 3) | ((b == 1) & (n == 2))).astype(jnp.uint8)

    return lambda b: lax.fori_loop(0, 50, iterate, b), (whole(128, 128, below=2).astype(jnp.uint8),)


@row
def logistic_map():
    return lambda r: lax.fori_loop(0, 1000, lambda _, x: r * x * (1 - x), jnp.full_like(r, 0.5)), (jnp.linspace(2.5, 4, 1000),)


@row
def gcd():
    def f(a, b):
        return lax.while_loop(lambda s: (s[1] != 0).any(),
                              lambda s: (jnp.where(s[1] != 0, s[1], s[0]), jnp.where(s[1] != 0, s[0] % jnp.maximum(s[1], 1), 0)),
                              (a, b))[0]  # fmt: skip

    return f, (whole(1000, below=10000) + 1, whole(1000, below=10000, seed=5) + 1)


@row
def scalar_loop():
    def f(x):
        return lax.while_loop(lambda s: s[1] < 2000, lambda s: (s[0] * 0.999 + jnp.sin(s[0]) * 0.01, s[1] + 1), (x, 0))[0]

    return f, (jnp.float32(1.0),)


@row
def primes():
    def f(n):
        def iterate(i, sieve):
            return jnp.where((jnp.arange(5000) % i == 0) & (jnp.arange(5000) > i), False, sieve)

        return lax.fori_loop(2, 71, iterate, jnp.ones(5000, bool)).sum() + n

    return f, (jnp.int32(0),)


@row
def time_warp():
    def f(a, b):
        d = jnp.abs(a[:, None] - b[None])

        def line(above, costs):
            def cell(left, s):
                diagonal, up, c = s
                best = c + jnp.minimum(jnp.minimum(left, up), diagonal)
                return best, best

            return lax.scan(cell, jnp.inf, (jnp.concatenate([jnp.full(1, jnp.inf), above[:-1]]), above, costs))[1], None

        return lax.scan(line, jnp.cumsum(d[0]), d[1:])[0][-1]

    return f, (normal(40), normal(50))


@row
def hidden_markov():
    def f(start, move, seen):
        def step(a, e):
            a = (a @ move) * e
            s = a.sum()
            return a / s, jnp.log(s)

        return lax.scan(step, start, seen)[1].sum()

    return f, (jax.nn.softmax(normal(16)), jax.nn.softmax(normal(16, 16)), jax.nn.sigmoid(normal(300, 16)))


@row
def running_mean():
    def step(s, x):
        s = 0.95 * s + 0.05 * x
        return s, x - s

    return lambda x: lax.scan(step, jnp.zeros(8), x)[1], (normal(2000, 8),)


@row
def monte_carlo_paths():
    def f(k):
        z = jax.random.normal(k, (100, 1000))
        paths = jnp.exp(jnp.cumsum(0.01 * z + 0.0002, 0))
        return jnp.maximum(paths.mean(0) - 1, 0).mean()

    return f, (jax.random.key(3),)


@row
def black_scholes():
    def price(s, k, t):
        d1 = (jnp.log(s / k) + (0.02 + 0.045) * t) / (0.3 * jnp.sqrt(t))
        return s * jsp.stats.norm.cdf(d1) - k * jnp.exp(-0.02 * t) * jsp.stats.norm.cdf(d1 - 0.3 * jnp.sqrt(t))

    return jax.vmap(jax.value_and_grad(price)), tuple(jnp.abs(normal(10000, seed=i)) + 0.5 for i in range(3))


@row
def binomial_tree():
    def f(s):
        v = jnp.maximum(s * jnp.exp(0.02 * (2 * jnp.arange(257.0) - 256)) - 1, 0)
        return lax.fori_loop(0, 256, lambda _, v: 0.999 * (0.52 * jnp.roll(v, -1) + 0.48 * v), v)[0]

    return jax.vmap(f), (jnp.linspace(0.8, 1.2, 16),)
