"""Hamiltonian Monte Carlo by blackjax: the first steps to the digit, before chance tells devices apart."""

import blackjax
import jax
import jax.numpy as jnp


def run(device):
    def logdensity(x):
        return -0.5 * (x[0] ** 2 + (x[1] - x[0] ** 2) ** 2 / 0.5)

    hmc = blackjax.hmc(logdensity, step_size=0.1, inverse_mass_matrix=jnp.ones(2), num_integration_steps=8)
    state = hmc.init(jnp.array([0.5, 0.5]))

    @jax.jit
    def chain(state, keys):
        return jax.lax.scan(lambda s, k: (hmc.step(k, s)[0],) * 2, state, keys)[1].position

    return {"positions": chain(state, jax.random.split(jax.random.key(0), 16))}
