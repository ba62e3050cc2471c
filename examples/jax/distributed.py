"""The training step of sharded.py over eight cores of several processes, which jax.distributed brings together."""

import argparse
import os
import socket
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sharded import sgd, spec_of

from trine import models

CORES = 8


def spread(value, sharding):
    """A global array of a value that every process has: each puts the parts of its own devices there."""
    value = np.asarray(value)
    return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])


def step_of(batch=8, seq=32):
    """(function, its arguments): plain JAX on whole tensors."""
    model = models.build(dict(model_type="llama", vocab_size=128, num_hidden_layers=2, hidden_size=64, intermediate_size=128,
                              num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True))  # fmt: skip
    tokens = jax.random.randint(jax.random.key(1), (batch, seq), 0, 128)
    return lambda p, x, y: sgd(model, p, x, y), (model.init(jax.random.key(0)), tokens, jnp.roll(tokens, -1, 1))


def work(process, count, coordinator):
    """One process of the job."""
    jax.distributed.initialize(coordinator, num_processes=count, process_id=process)
    devices = jax.devices()
    print(f"process {jax.process_index()} has {len(jax.local_devices())} of {len(devices)} {devices[0].device_kind}", flush=True)
    mesh = Mesh(np.array(devices[:CORES]).reshape(4, 2), ("data", "model"))
    whole, rows = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("data", None))
    function, (params, tokens, targets) = step_of()
    place = jax.tree_util.tree_map_with_path(lambda path, v: NamedSharding(mesh, spec_of(path, v)), params)
    loss, new = jax.jit(function, out_shardings=whole)(
        jax.tree.map(spread, params, place), spread(tokens, rows), spread(targets, rows))  # fmt: skip
    want_loss, want = jax.jit(function)(params, tokens, targets)  # on one device, in every process
    error = max(float(np.abs(np.asarray(a) - np.asarray(b)).max())
                for a, b in zip(jax.tree.leaves(new), jax.tree.leaves(want), strict=True))  # fmt: skip
    if process == 0:
        print(f"loss {float(loss):.6f} in {count} processes, {float(want_loss):.6f} on one device; "
              f"parameters differ by at most {error:.1e}", flush=True)  # fmt: skip
    if error > 1e-4 or abs(float(loss) - float(want_loss)) > 1e-4:
        raise SystemExit("the step in several processes differs from the step on one device")


def start(count):
    """Starts the processes, and waits for them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        coordinator = f"127.0.0.1:{free.getsockname()[1]}"
    env = {"TRINE_INSTANCE": "trn1.32xlarge", "JAX_PLATFORMS": "neuron"} | os.environ
    env["NEURON_PJRT_PROCESSES_NUM_DEVICES"] = ",".join([str(CORES // count)] * count)
    command = [sys.executable, __file__, "--processes", str(count), "--coordinator", coordinator, "--process"]
    children = [subprocess.Popen([*command, str(p)], env=env | {"NEURON_PJRT_PROCESS_INDEX": str(p)}) for p in range(count)]
    if any([child.wait() for child in children]):
        raise SystemExit("a process failed")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--processes", type=int, default=4, choices=(1, 2, 4, 8))
    options.add_argument("--process", type=int, help="be this one of them; without it, start all")
    options.add_argument("--coordinator", help="host:port of process 0")
    given = options.parse_args()
    if given.process is None:
        start(given.processes)
    else:
        work(given.process, given.processes, given.coordinator)
