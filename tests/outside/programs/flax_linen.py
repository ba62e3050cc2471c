"""A transformer encoder of flax.linen, trained for five steps."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training import train_state


class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        y = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(num_heads=4)(y, y)
        y = nn.gelu(nn.Dense(128)(nn.LayerNorm()(x)))
        return x + nn.Dense(x.shape[-1])(y)


class Encoder(nn.Module):
    @nn.compact
    def __call__(self, ids):
        x = nn.Embed(97, 64)(ids) + self.param("position", nn.initializers.normal(0.02), (ids.shape[1], 64))
        for _ in range(2):
            x = nn.remat(Block)()(x)
        return nn.Dense(97)(x)


def run(device):
    model = Encoder()
    ids = jax.random.randint(jax.random.key(0), (4, 32), 0, 97)
    params = model.init(jax.random.key(1), ids)
    state = train_state.TrainState.create(apply_fn=model.apply, params=params, tx=optax.adamw(1e-3))

    @jax.jit
    def step(state):
        def loss(p):
            logits = state.apply_fn(p, ids)
            return optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], ids[:, 1:]).mean()

        value, grads = jax.value_and_grad(loss)(state.params)
        return state.apply_gradients(grads=grads), value

    losses = []
    for _ in range(5):
        state, value = step(state)
        losses.append(value)
    return {"losses": jnp.stack(losses), "logits": model.apply(state.params, ids)}
