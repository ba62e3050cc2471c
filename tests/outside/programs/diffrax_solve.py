"""Ordinary differential equations by diffrax: an explicit and an implicit solver, and the gradient through one."""

import diffrax
import jax
import jax.numpy as jnp


def lotka(t, y, args):
    a, b, c, d = args
    return jnp.array([a * y[0] - b * y[0] * y[1], d * y[0] * y[1] - c * y[1]])


def solve(solver, args, y0):
    return diffrax.diffeqsolve(
        diffrax.ODETerm(lotka), solver, t0=0.0, t1=4.0, dt0=0.05, y0=y0, args=args,
        saveat=diffrax.SaveAt(ts=jnp.linspace(0, 4, 9)), stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-6),
    ).ys


def run(device):
    args, y0 = jnp.array([1.1, 0.4, 0.4, 0.1]), jnp.array([6.0, 3.0])
    gradient = jax.jit(jax.grad(lambda a: solve(diffrax.Tsit5(), a, y0)[-1].sum()))(args)
    return {
        "tsit5": jax.jit(lambda: solve(diffrax.Tsit5(), args, y0))(),
        "kvaerno5": jax.jit(lambda: solve(diffrax.Kvaerno5(), args, y0))(),
        "gradient": gradient,
    }
