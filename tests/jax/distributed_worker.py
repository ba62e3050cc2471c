"""One process of a job of several, or all of it where there is one: collectives over eight devices, results as JSON."""

import json
import os
import signal
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

CORES = 8


def spread(mesh, value, spec):
    value = np.asarray(value)
    return jax.make_array_from_callback(value.shape, NamedSharding(mesh, spec), lambda index: value[index])


def whole(mesh, array):
    """Everyone's parts, everywhere."""
    return np.asarray(jax.jit(lambda x: x, out_shardings=NamedSharding(mesh, P()))(array))


def collectives(mesh):
    x = np.random.default_rng(0).normal(size=(16, 24)).astype(np.float32)
    given = spread(mesh, x, P("i"))
    ring = [(i, (i + 3) % CORES) for i in range(CORES)]
    cases = {
        "psum": lambda v: jax.lax.psum(v, "i"),
        "pmax": lambda v: jax.lax.pmax(v, "i"),
        "all_gather": lambda v: jax.lax.all_gather(v, "i", tiled=True),
        "ppermute": lambda v: jax.lax.ppermute(v, "i", ring),
        "psum_scatter": lambda v: jax.lax.psum_scatter(v.reshape(8, 6), "i", tiled=True),
        "all_to_all": lambda v: jax.lax.all_to_all(v, "i", 1, 0, tiled=True),
        "axis_index": lambda v: v + jax.lax.axis_index("i"),
        "loop": lambda v: jax.lax.fori_loop(0, 5, lambda _, c: jnp.sin(c) + jax.lax.pmean(c, "i"), v),
        "groups": lambda v: jax.lax.psum(v, "i", axis_index_groups=[[0, 3, 5, 6], [1, 2, 4, 7]]),
    }
    for name, case in cases.items():
        run = jax.jit(jax.shard_map(case, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False))
        yield name, whole(mesh, run(given))


def training(mesh):
    """A step of SGD, the batch and a width cut eight ways."""
    rng = np.random.default_rng(1)
    params = {"a": rng.normal(size=(24, 64)) / 5, "b": rng.normal(size=(64, 8)) / 8}
    specs = {"a": P(None, "i"), "b": P("i", None)}
    x, y = rng.normal(size=(32, 24)), rng.normal(size=(32, 8))

    def loss(p, x, y):
        return jnp.mean((jax.nn.gelu(x @ p["a"]) @ p["b"] - y) ** 2)

    @jax.jit
    def step(p, x, y):
        value, grads = jax.value_and_grad(loss)(p, x, y)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, p, grads)

    p = {k: spread(mesh, v.astype(np.float32), specs[k]) for k, v in params.items()}
    x, y = (spread(mesh, v.astype(np.float32), P("i")) for v in (x, y))
    for _ in range(3):
        value, p = step(p, x, y)
    yield "loss", np.asarray(value)
    for k, v in p.items():
        yield k, whole(mesh, v)


def dying(mesh, how):
    """The last process ends, or stops, between two programs."""
    x = spread(mesh, np.ones(CORES, np.float32), P("i"))
    total = jax.jit(lambda v: v.sum())
    assert float(total(x)) == CORES
    if jax.process_index() == jax.process_count() - 1:
        os.kill(os.getpid(), signal.SIGKILL if how == "die" else signal.SIGSTOP)
    start = time.monotonic()
    try:
        float(total(x))
    except Exception as e:
        return {"error": str(e), "seconds": time.monotonic() - start}
    return {}


def main():
    process, count, coordinator, what = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    if count > 1:
        jax.distributed.initialize(coordinator, num_processes=count, process_id=process)
    devices = jax.devices()
    out = {"devices": len(devices), "here": [d.id for d in jax.local_devices()], "index": jax.process_index()}
    mesh = Mesh(np.array(devices[:CORES]), "i")
    if what == "values":
        out["values"] = {k: v.tolist() for k, v in (*collectives(mesh), *training(mesh))}
    elif what != "devices":
        out |= dying(mesh, what)
    print(json.dumps(out), flush=True)
    if what in ("die", "stop"):
        os._exit(0)  # jax would wait for the peer


if __name__ == "__main__":
    main()
