"""One process of a JAX job that Slurm starts: jax.distributed finds the others by Slurm's variables.

    jax_worker.py sum           what all devices sum, as its bits
    jax_worker.py steps FILE    sums for ever; FILE gets the count of those done
"""

import sys
from pathlib import Path

import jax
import numpy as np

jax.distributed.initialize()
devices = jax.devices()
mesh = jax.make_mesh((len(devices),), ("x",))
cut = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
x = jax.make_array_from_callback((len(devices) * 4,), cut, lambda i: np.sin(np.arange(len(devices) * 4, dtype=np.float32))[i])
total = jax.jit(lambda x: (x * x).sum())
if sys.argv[1] == "sum":
    here = jax.local_devices()
    print(jax.process_index(), len(devices), len(here), here[0].id, here[0].coords[-1], float(total(x)).hex(), flush=True)
else:
    for step in range(10**9):
        float(total(x))
        if jax.process_index() == 0:
            Path(sys.argv[2]).write_text(str(step))
