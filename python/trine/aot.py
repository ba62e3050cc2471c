"""`trine compile module:function`: a Python function lowered by JAX, then compiled like any StableHLO file.

The function may be jitted or plain; --shape NAME=1x128[:dtype] gives its arguments. A function that takes none and returns
(function, arguments) is asked for both: arguments that are arrays are weights, jax.ShapeDtypeStruct are inputs.
"""

import importlib
import importlib.util
import inspect
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from trine.command import USAGE, Stop

NAMES = {"bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32", "int32": "I32", "uint64": "U64",
         "int64": "I64", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64"}  # fmt: skip


def find(target):
    """The function that module:name or file.py:name means."""
    where, _, name = target.rpartition(":")
    sys.path.insert(0, os.getcwd())
    try:
        if where.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(where).stem, where)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(where)
    except (ModuleNotFoundError, FileNotFoundError) as e:
        raise Stop(USAGE, f"{target}: {e}") from None
    found = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise Stop(USAGE, f"{where} has no function {name}")
    return found


def shape(text):
    """1x128:int32 as a ShapeDtypeStruct; float32 where no dtype is given."""
    import jax

    sizes, _, dtype = text.partition(":")
    try:
        return jax.ShapeDtypeStruct(tuple(int(n) for n in sizes.split("x") if n), dtype or "float32")
    except (ValueError, TypeError):
        raise Stop(USAGE, f"--shape {text}: expected sizes joined by x, with :dtype where it is not float32") from None


def arguments(function, shapes):
    """(function, arguments) from --shape, or from the function itself where it takes none."""
    names = list(inspect.signature(function).parameters)
    given = dict(s.partition("=")[::2] for s in shapes)
    if not names and not given:
        made = function()
        if not (isinstance(made, tuple) and len(made) == 2 and callable(made[0])):
            raise Stop(USAGE, "a function without arguments is asked for (function, arguments); it gave something else")
        return made[0], tuple(made[1])
    missing = [n for n in names if n not in given]
    if missing or set(given) - set(names):
        raise Stop(USAGE, f"arguments are {', '.join(names)}; --shape is missing for {', '.join(missing) or 'none'}, unknown for {', '.join(set(given) - set(names)) or 'none'}")
    return function, tuple(shape(given[n]) for n in names)


def write_weights(path, leaves):
    """safetensors of the leaves that have values, named as the program's inputs."""
    import numpy as np

    header, chunks, at = {}, [], 0
    for i, leaf in enumerate(leaves):
        if not hasattr(leaf, "__array__"):
            continue
        array = np.asarray(leaf)
        header[f"arg{i}"] = {"dtype": NAMES[array.dtype.name], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        chunks.append(np.ascontiguousarray(array))
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % 64)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for chunk in chunks:
            out.write(chunk.reshape(-1).view(np.uint8))
    return bool(header)


def run(asked):
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax
    import numpy as np

    from trine.estimate.lowering import stablehlo

    target = asked.words[0]
    function, args = arguments(find(target), asked.shape)
    rest = [o for o in asked.typed if not o.startswith("--shape=")]
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), a.dtype), args)
    with tempfile.TemporaryDirectory() as folder:
        name = target.rpartition(":")[2].rpartition(".")[2]
        model, weights = os.path.join(folder, f"{name}.stablehlo"), os.path.join(folder, "weights.safetensors")
        def program(*a):
            return function(*a)

        program.__name__ = name
        Path(model).write_bytes(stablehlo(program, *shapes, lines=True))
        if write_weights(weights, jax.tree.leaves(args)):
            rest.append(f"--params={weights}")
        if not asked.output:
            rest.append(f"--output={name}.trn")
        rest.append(f"--name={target}")
        return subprocess.run([asked.trine, "compile", model, *rest]).returncode
