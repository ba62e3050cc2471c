"""Networks of flax over meshes of 8 and of 32 devices, data by model: nnx and linen, trained for three steps."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec

MESHES = {"8": (4, 2), "32": (8, 4)}


class Net(nnx.Module):
    def __init__(self, rngs):
        start = nnx.initializers.lecun_normal()
        self.up = nnx.Linear(32, 128, kernel_init=nnx.with_partitioning(start, (None, "model")), rngs=rngs)
        self.down = nnx.Linear(128, 32, kernel_init=nnx.with_partitioning(start, ("model", None)), rngs=rngs)
        self.norm = nnx.LayerNorm(32, rngs=rngs)

    def __call__(self, x):
        return self.norm(x + self.down(nnx.gelu(self.up(x))))


@nnx.jit
def make():
    model = Net(nnx.Rngs(0))
    state = nnx.state(model)
    nnx.update(model, jax.lax.with_sharding_constraint(state, nnx.get_partition_spec(state)))
    return model


@nnx.jit
def step(model, optimizer, x, y):
    value, grads = nnx.value_and_grad(lambda m: jnp.square(m(x) - y).mean())(model)
    optimizer.update(model, grads)
    return value


class Encoder(nn.Module):
    @nn.compact
    def __call__(self, x):
        start = nn.initializers.lecun_normal()
        h = nn.SelfAttention(num_heads=4, qkv_features=32)(nn.LayerNorm()(x))
        h = nn.Dense(128, kernel_init=nn.with_partitioning(start, (None, "model")))(x + h)
        return nn.Dense(32, kernel_init=nn.with_partitioning(start, ("model", None)))(nn.gelu(h))


def of_linen(mesh, x, y):
    model = Encoder()
    made = jax.eval_shape(model.init, jax.random.key(0), x)
    shardings = nn.get_sharding(made, mesh)
    params = nn.unbox(jax.jit(model.init, out_shardings=shardings)(jax.random.key(0), x))
    optimizer = optax.adam(1e-3)
    states = jax.jit(optimizer.init)(params)

    @jax.jit
    def step(params, states):
        value, grads = jax.value_and_grad(lambda p: jnp.square(model.apply(p, x) - y).mean())(params)
        updates, states = optimizer.update(grads, states)
        return optax.apply_updates(params, updates), states, value

    losses = []
    for _ in range(3):
        params, states, value = step(params, states)
        losses.append(value)
    return jnp.stack(losses), model.apply(params, x)


def of_nnx(x, y):
    model = make()
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
    return jnp.stack([step(model, optimizer, x, y) for _ in range(3)]), model(x)


def run(device):
    found = {}
    for devices, shape in MESHES.items():
        mesh = Mesh(np.array(jax.devices()[: shape[0] * shape[1]]).reshape(shape), ("data", "model"))
        keys = jax.random.split(jax.random.key(1))
        with jax.set_mesh(mesh):
            dealt = NamedSharding(mesh, PartitionSpec("data"))
            x, y = (jax.device_put(jax.random.normal(k, (32, 8, 32)), dealt) for k in keys)
            for name, (losses, out) in (("nnx", of_nnx(x, y)), ("linen", of_linen(mesh, x, y))):
                found |= {f"{name}, losses on {devices}": losses, f"{name}, values on {devices}": out}
    return found
