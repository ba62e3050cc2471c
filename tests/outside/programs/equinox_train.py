"""An MLP and an LSTM over a scan, of equinox, trained for ten steps each."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax


class Reader(eqx.Module):
    cell: eqx.nn.LSTMCell
    out: eqx.nn.Linear

    def __init__(self, key):
        a, b = jax.random.split(key)
        self.cell, self.out = eqx.nn.LSTMCell(4, 16, key=a), eqx.nn.Linear(16, 1, key=b)

    def __call__(self, xs):
        state = (jnp.zeros(16), jnp.zeros(16))
        (h, _), _ = jax.lax.scan(lambda s, x: (self.cell(x, s), None), state, xs)
        return self.out(h)


def train(model, x, y):
    optimizer = optax.adam(1e-2)
    state = optimizer.init(eqx.filter(model, eqx.is_array))

    @eqx.filter_jit
    def step(model, state):
        value, grads = eqx.filter_value_and_grad(lambda m: jnp.mean((jax.vmap(m)(x) - y) ** 2))(model)
        updates, state = optimizer.update(grads, state)
        return eqx.apply_updates(model, updates), state, value

    losses = []
    for _ in range(10):
        model, state, value = step(model, state)
        losses.append(value)
    return jnp.stack(losses)


def run(device):
    key = jax.random.key(0)
    x, y = jax.random.normal(key, (32, 8)), jax.random.normal(jax.random.key(1), (32, 1))
    series = jax.random.normal(key, (32, 12, 4))
    return {"mlp": train(eqx.nn.MLP(8, 1, 32, 2, key=key), x, y), "lstm": train(Reader(key), series, y)}
