"""A convolutional network of flax.nnx, trained for ten steps on images made here."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class Net(nnx.Module):
    def __init__(self, rngs):
        self.conv = nnx.Conv(3, 8, kernel_size=(3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.drop = nnx.Dropout(0.2, rngs=rngs)
        self.out = nnx.Linear(8 * 8 * 8, 10, rngs=rngs)

    def __call__(self, x):
        x = nnx.avg_pool(nnx.relu(self.norm(self.conv(x))), window_shape=(2, 2), strides=(2, 2))
        return self.out(self.drop(x.reshape(x.shape[0], -1)))


@nnx.jit
def step(model, optimizer, x, y):
    def loss(model):
        return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()

    value, grads = nnx.value_and_grad(loss)(model)
    optimizer.update(model, grads)
    return value


def run(device):
    model = Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
    key = jax.random.key(1)
    x, y = jax.random.normal(key, (16, 16, 16, 3)), jnp.arange(16) % 10
    losses = [step(model, optimizer, x, y) for _ in range(10)]
    model.eval()
    return {"losses": jnp.stack(losses), "logits": model(x)}
