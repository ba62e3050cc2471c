"""Programs in 64 bits."""

import jax.numpy as jnp
from jax import lax

from programs.row import double, normal, row


@row
@double
def f64_recurrence():
    return lambda x: lax.fori_loop(0, 500, lambda _, x: x - 0.01 * jnp.sin(x) + 0.001 * x * x, x), (normal(256),)


@row
@double
def f64_lorenz():
    def step(v, _):
        x, y, z = v
        d = jnp.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])
        return v + 0.001 * d, v[0]

    return lambda v: lax.scan(step, v, None, 1000), (jnp.ones(3),)


@row
@double
def f64_elementwise():
    return lambda x: jnp.exp(-x * x) * jnp.cos(x) + jnp.sqrt(jnp.abs(x)), (normal(50000),)


@row
@double
def f64_solve():
    return jnp.linalg.solve, (normal(100, 100) + 20 * jnp.eye(100), normal(100, 2))


@row
@double
def f64_simpson():
    def f(a):
        x = jnp.linspace(0, 1, 1001)
        y = jnp.exp(-a[:, None] * x) / (1 + x * x)
        return (y[:, :-1:2] + 4 * y[:, 1::2] + y[:, 2::2]).sum(1) / 3000

    return f, (jnp.abs(normal(64)),)
