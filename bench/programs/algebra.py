"""Linear algebra and optimisers."""

import jax
import jax.numpy as jnp
import jax.scipy as jsp
from jax import lax

from programs.row import normal, row


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


@row
def clusters():
    def f(x, c):
        def iterate(c, _):
            near = jax.nn.one_hot(jnp.argmin(((x[:, None] - c[None]) ** 2).sum(-1), 1), len(c))
            return near.T @ x / jnp.maximum(near.sum(0), 1)[:, None], None

        return lax.scan(iterate, c, None, 10)[0]

    return f, (normal(1000, 4), normal(8, 4))


@row
def polynomial():
    return lambda p, x: jnp.polyval(p, x), (normal(20), normal(50000))


@row
def rotations():
    def f(a):
        c, s = jnp.cos(a), jnp.sin(a)
        z, one = jnp.zeros_like(c), jnp.ones_like(c)
        x = jnp.stack([one, z, z, z, c, -s, z, s, c], -1).reshape(-1, 3, 3)
        y = jnp.stack([c, z, s, z, one, z, -s, z, c], -1).reshape(-1, 3, 3)
        return x @ y @ x

    return f, (normal(2000),)


@row
def products_3x3():
    return lambda a, b: jnp.einsum("nij,njk->nik", a, b) @ jnp.swapaxes(a, 1, 2), (normal(4000, 3, 3), normal(4000, 3, 3))


@row
def matrix_power():
    return lambda a: jnp.linalg.matrix_power(a, 13), (normal(48, 48) * 0.1,)


@row
def power_series():
    return lambda a: lax.fori_loop(1, 20, lambda i, s: (s[0] + s[1], s[1] @ a / i), (jnp.zeros_like(a), jnp.eye(16)))[0], (
        normal(16, 16) * 0.2,)  # fmt: skip


@row
def triangular_solve():
    return lambda a, b: jsp.linalg.solve_triangular(jnp.tril(a) + 8 * jnp.eye(128), b, lower=True), (normal(128, 128), normal(128, 32))


@row
def inverse():
    return jnp.linalg.inv, (normal(100, 100) + 20 * jnp.eye(100),)


@row
def determinants_3x3():
    return jnp.linalg.det, (normal(4000, 3, 3),)


@row
def cholesky_batch():
    return lambda a: jnp.linalg.cholesky(a @ jnp.swapaxes(a, 1, 2) + 8 * jnp.eye(8)), (normal(200, 8, 8),)


@row
def pca():
    def f(x):
        x = x - x.mean(0)
        values, vectors = jnp.linalg.eigh(x.T @ x / len(x))
        return x @ vectors[:, -2:], values

    return f, (normal(500, 20),)


@row
def eigenvalues_batch():
    return lambda a: jnp.linalg.eigvalsh(a + jnp.swapaxes(a, 1, 2)), (normal(64, 8, 8),)


@row
def svd():
    return lambda a: jnp.linalg.svd(a, full_matrices=False), (normal(60, 40),)


@row
def ridge():
    return lambda x, y: jnp.linalg.solve(x.T @ x + jnp.eye(30), x.T @ y), (normal(1000, 30), normal(1000))


@row
def logistic_regression():
    def f(w, x, y):
        loss = lambda w: jnp.logaddexp(0, -y * (x @ w)).mean() + 0.01 * w @ w
        return lax.fori_loop(0, 50, lambda _, w: w - 0.5 * jax.grad(loss)(w), w)

    return f, (jnp.zeros(20), normal(500, 20), jnp.sign(normal(500)))


@row
def newton_logistic():
    def f(x, y):
        loss = lambda w: jnp.logaddexp(0, -y * (x @ w)).mean() + 0.01 * w @ w
        step = lambda _, w: w - jnp.linalg.solve(jax.hessian(loss)(w), jax.grad(loss)(w))
        return lax.fori_loop(0, 8, step, jnp.zeros(8))

    return f, (normal(300, 8), jnp.sign(normal(300)))


@row
def bfgs_rosenbrock():
    def rosenbrock(x):
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    from jax.scipy.optimize import minimize

    return lambda x: minimize(rosenbrock, x, method="BFGS").x, (jnp.full(6, 0.5),)


@row
def adam_rosenbrock():
    def f(x):
        g = jax.grad(lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())

        def step(s, i):
            x, m, v = s
            d = g(x)
            m, v = 0.9 * m + 0.1 * d, 0.999 * v + 0.001 * d * d
            return (x - 0.01 * m / (1 - 0.9**i) / (jnp.sqrt(v / (1 - 0.999**i)) + 1e-8), m, v), None

        return lax.scan(step, (x, x * 0, x * 0), jnp.arange(1.0, 501))[0][0]

    return f, (jnp.full(10, 0.5),)


@row
def lasso():
    def f(a, b):
        def step(_, x):
            x = x - 0.001 * a.T @ (a @ x - b)
            return jnp.sign(x) * jnp.maximum(jnp.abs(x) - 0.001, 0)

        return lax.fori_loop(0, 100, step, jnp.zeros(100))

    return f, (normal(200, 100), normal(200))


@row
def sinkhorn():
    def f(x, y):
        k = jnp.exp(-((x[:, None] - y[None]) ** 2).sum(-1))

        def step(s, _):
            u = 1 / (k @ s[1])
            return (u, 1 / (k.T @ u)), None

        u, v = lax.scan(step, (jnp.ones(128), jnp.ones(128)), None, 50)[0]
        return u[:, None] * k * v

    return f, (normal(128, 2), normal(128, 2))


@row
def page_rank():
    return lambda a: lax.fori_loop(0, 50, lambda _, v: 0.15 / 300 + 0.85 * a @ v, jnp.full(300, 1 / 300)), (
        jax.nn.softmax(normal(300, 300), 0),)  # fmt: skip


@row
def floyd_warshall():
    return lambda d: lax.fori_loop(0, 64, lambda k, d: jnp.minimum(d, d[:, k, None] + d[None, k]), d), (jnp.abs(normal(64, 64)),)
