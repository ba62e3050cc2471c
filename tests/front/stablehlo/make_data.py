"""Writes data/*.artifact, *.bytecode, what jaxlib reads in them, and *.values: inputs and what JAX's CPU backend makes
of them, as bytes one after the other. So the tests need no jax; this does.

  PYTHONPATH=tests python tests/front/stablehlo/make_data.py
"""

from pathlib import Path

import jax
import numpy as np

from front.stablehlo import corpus, oracle

DATA = Path(__file__).parent / "data"
SHARDED = ["pjit", "shard_map"]
NAMES = ["loops", "sorting", "scatters", "gathers", "conv", "dot", "booleans", "complex_complex64", "small_float8_e4m3fn",
         "integers_int4", "threefry", "branches", "reduce", "reduce_window", "shapes", "fft", "transformed"]  # fmt: skip


def values(shape, seed):
    """Of the same sign and size everywhere: each program is defined on them, and no sum cancels."""
    rng, dtype = np.random.default_rng(seed), shape.dtype
    if dtype == bool or jax.numpy.issubdtype(dtype, np.integer):
        top = {"bool": 2, "int2": 2, "uint32": 2**31}.get(str(dtype), 4)
        return rng.integers(0, top, shape.shape).astype(dtype)
    real = rng.uniform(0.2, 0.9, shape.shape)
    is_complex = jax.numpy.issubdtype(dtype, np.complexfloating)
    return (real + 1j * rng.uniform(0.2, 0.9, shape.shape) if is_complex else real).astype(dtype)


def write_values(name):
    function, shapes = corpus.PROGRAMS[name]
    inputs = [values(shape, i) for i, shape in enumerate(shapes)]
    outputs = jax.tree.leaves(function(*inputs))
    arrays = [np.ascontiguousarray(a).tobytes() for a in [*inputs, *outputs]]
    (DATA / f"{name}.values").write_bytes(b"".join(arrays))


def main():
    modules = {name: corpus.lower(name).compiler_ir("stablehlo") for name in [*NAMES, *SHARDED, "ffi_call"]}
    for name in NAMES:
        write_values(name)
    for path in DATA.glob("*.mlir"):
        modules[path.stem] = oracle.parse(path.read_text())
    for name, module in modules.items():
        files = {"bytecode": (oracle.bytecode(module), module)}
        if name != "collectives":
            artifact = oracle.portable(module)
            files["artifact"] = (artifact, oracle.from_portable(artifact))
        for kind, (data, read) in files.items():
            (DATA / f"{name}.{kind}").write_bytes(data)
            (DATA / f"{name}.{kind}.txt").write_text(oracle.generic(read))


if __name__ == "__main__":
    main()
