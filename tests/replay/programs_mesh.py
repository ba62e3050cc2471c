"""Programs over many devices, lowered for the corpus: those of tests/jax/sharding_cases.py, with their shardings."""

import importlib.util
from pathlib import Path

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from replay.programs_jax import lowered


def sharding_cases():
    path = Path(__file__).resolve().parents[1] / "jax/sharding_cases.py"
    spec = importlib.util.spec_from_file_location("sharding_cases", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def programs():
    cases = sharding_cases()
    out = {}
    for name, (f, arguments, wanted, axes, shape, first, reverse) in sorted(cases.CASES.items()):
        count = int(np.prod(shape))
        devices = np.array(jax.devices("cpu")[first : first + count])
        if reverse:
            devices = devices[::-1]
        types = axes if isinstance(axes, tuple) else (axes,) * len(shape)
        mesh = jax.sharding.Mesh(devices.reshape(shape), ("x", "y"), axis_types=types)
        placed = [jax.ShapeDtypeStruct(v.shape, v.dtype, sharding=NamedSharding(mesh, P(*s))) for v, s in cases.values_of(arguments)]
        result = None if wanted is None else NamedSharding(mesh, wanted)
        try:
            with jax.set_mesh(mesh):
                text = lowered(jax.jit(lambda *a, f=f, mesh=mesh: f(mesh, *a), out_shardings=result), placed)
        except Exception as e:  # a case that only a live device can lower
            print(f"{name}: left out: {type(e).__name__}: {str(e)[:200]}")
            continue
        out[name] = text, {"jax": True, "partitions": count, "chips": ["trn2"]}
    return out
