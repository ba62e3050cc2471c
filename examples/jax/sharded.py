"""One training step of a small LLaMA over eight cores: four ways the batch, two ways the widths of its layers."""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from trine import models


def spec_of(path, value):
    """Columns of what widens and rows of what narrows lie on the axis `model`; the rest is everywhere."""
    names = [getattr(p, "key", None) for p in path]
    if "w" in names and value.ndim == 2:
        return PartitionSpec("model", None) if names[-2] in ("o", "down") else PartitionSpec(None, "model")
    return PartitionSpec()


def sgd(model, params, tokens, targets):
    loss, grads = jax.value_and_grad(model.loss)(params, {"tokens": tokens, "labels": targets})
    return loss, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def main(batch=8, seq=32):
    devices = jax.devices()
    if len(devices) < 8:
        raise SystemExit(f"eight cores are needed, {len(devices)} are there; try TRINE_INSTANCE=trn1.32xlarge")
    model = models.build(dict(model_type="llama", vocab_size=128, num_hidden_layers=2, hidden_size=64, intermediate_size=128,
                              num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True))  # fmt: skip
    params = model.init(jax.random.key(0))
    tokens = jax.random.randint(jax.random.key(1), (batch, seq), 0, 128)
    targets = jnp.roll(tokens, -1, 1)
    mesh = Mesh(np.array(devices[:8]).reshape(4, 2), ("data", "model"))
    place = jax.tree_util.tree_map_with_path(lambda path, v: NamedSharding(mesh, spec_of(path, v)), params)
    rows = NamedSharding(mesh, PartitionSpec("data", None))
    step = jax.jit(lambda p, x, y: sgd(model, p, x, y), out_shardings=(NamedSharding(mesh, PartitionSpec()), place))
    loss, new = step(jax.device_put(params, place), jax.device_put(tokens, rows), jax.device_put(targets, rows))

    cpu = jax.devices("cpu")[0]
    with jax.default_device(cpu):
        want_loss, want = jax.jit(lambda p, x, y: sgd(model, p, x, y))(*jax.device_put((params, tokens, targets), cpu))
    error = max(float(np.abs(np.asarray(a) - np.asarray(b)).max())
                for a, b in zip(jax.tree.leaves(new), jax.tree.leaves(want), strict=True))  # fmt: skip
    print(f"loss {float(loss):.6f} on {mesh.shape} of {devices[0].device_kind}, {float(want_loss):.6f} on one CPU; "
          f"parameters differ by at most {error:.1e}")  # fmt: skip
    if error > 1e-4 or abs(float(loss) - float(want_loss)) > 1e-4:
        raise SystemExit("the sharded step differs from the step on one device")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, epilog="example: TRINE_INSTANCE=trn1.32xlarge sharded.py").parse_args()
    main()
