"""What is to be dumped, replaced and watched, by names; set by the environment or by the blocks of this module.

TRINE_DUMP=layer.3.*          tensors whose name matches, into TRINE_DUMP_DIR (trine_dump), calls TRINE_DUMP_STEPS (0,3-5)
TRINE_REPLACE=NAME=FILE,…     a tensor's value from a safetensors file
NEURON_FAIL_ON_NAN=1          an error at the first op that makes a NaN or an infinity

A name is the modules or scopes around a value and its op, joined by dots. It matches from any dot on: layer.3.* finds
model.layers.3.mlp too.
"""

import contextlib
import dataclasses
import fnmatch
import os
import re
from pathlib import Path

import numpy as np

LAYERS = re.compile(r"(?:^|(?<=\.))(?:layers?|h|blocks?)\.(?=\d)")


@dataclasses.dataclass
class Wanted:
    """What somebody asked for. Empty: nothing."""

    dump: str = ""
    to: str = "trine_dump"
    steps: frozenset | None = None  # None: all
    replace: dict = dataclasses.field(default_factory=dict)  # name -> file
    fails: bool = False

    def __bool__(self):
        return bool(self.dump or self.replace or self.fails)


def from_environment(env=os.environ):
    replaced = dict(part.split("=", 1) for part in env.get("TRINE_REPLACE", "").split(",") if "=" in part)
    return Wanted(env.get("TRINE_DUMP", ""), env.get("TRINE_DUMP_DIR", "trine_dump"), numbers(env.get("TRINE_DUMP_STEPS", "")),
                  replaced, env.get("NEURON_FAIL_ON_NAN", "0") not in ("", "0"))  # fmt: skip


def numbers(text):
    """{0, 3, 4, 5} of 0,3-5; None of nothing."""
    if not text:
        return None
    out = set()
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if not found:
            raise ValueError(f"found steps {text!r}, expected numbers and ranges such as 0,3-5")
        out.update(range(int(found[1]), int(found[2] or found[1]) + 1))
    return frozenset(out)


wanted = from_environment()


@contextlib.contextmanager
def asking(**what):
    """For what runs inside; programs that JAX has compiled are compiled anew, with it and after it without."""
    global wanted
    before, wanted = wanted, dataclasses.replace(wanted, **what)
    _renew()
    try:
        with _torch_block():
            yield
    finally:
        wanted = before
        _renew()


def _torch_block():
    import sys

    if "torch" not in sys.modules:
        return contextlib.nullcontext()
    from trine.debug import torch_taps

    return torch_taps.block()


def _renew():
    import sys

    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
    if "torch" in sys.modules and hasattr(sys.modules["torch"], "_dynamo"):
        sys.modules["torch"]._dynamo.reset()


def dump(pattern="*", to="trine_dump", steps=None):
    """with trine.debug.dump("layer.3.*", to="here", steps=[0, 1]): …"""
    return asking(dump=pattern, to=str(to), steps=None if steps is None else frozenset(steps))


def replace(files):
    """with trine.debug.replace({"layer.3.mlp": "fixed.safetensors"}): …"""
    return asking(replace={name: str(file) for name, file in files.items()})


def fail_on_nan():
    """with trine.debug.fail_on_nan(): an error at the first op that makes a NaN or an infinity."""
    return asking(fails=True)


def dotted(name):
    """layer 3/attention and model.layers.3 as one form."""
    return re.sub(r"[/ ]+", ".", name).strip(".")


def matches(name, pattern):
    name = dotted(name)
    forms = {name, LAYERS.sub("layer.", name)}
    return any(fnmatch.fnmatchcase(f, pattern) or fnmatch.fnmatchcase(f, f"*.{pattern}") for f in forms)


def rank():
    """Of this process among those of one job."""
    return int(next((os.environ[k] for k in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK") if os.environ.get(k, "").isdigit()), 0))


def prefix():
    """Before a line that a program on a device prints: the rank, where there are several."""
    sizes = (os.environ.get(k, "") for k in ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"))
    return f"[rank {rank()}] " if any(s.isdigit() and int(s) > 1 for s in sizes) else ""


def write(name, step, array):
    """One tensor into DIR/rankR/stepN/NAME.safetensors, under its name."""
    from safetensors.numpy import save_file

    if wanted.steps is not None and step not in wanted.steps:
        return
    folder = Path(wanted.to) / f"rank{rank()}" / f"step{step}"
    folder.mkdir(parents=True, exist_ok=True)
    name = dotted(name)
    save_file({name: np.ascontiguousarray(array)}, folder / (re.sub(r"[^\w.\-]", "_", name) + ".safetensors"))


def replacement(name):
    """The file whose tensor stands in for this one; None: it stays."""
    return next((file for pattern, file in wanted.replace.items() if matches(name, pattern)), None)


def read(file, like):
    """The tensor of a file that has one, or the one of that shape."""
    from trine.models.safetensors import SafeTensors

    held = SafeTensors(file)
    fitting = [held[n] for n in held.keys() if tuple(held[n].shape) == tuple(like.shape)]
    if not fitting:
        raise ValueError(f"{file} has no tensor of shape {list(like.shape)} to stand in; it has {[list(held[n].shape) for n in held.keys()][:5]}")
    return np.asarray(fitting[0]).astype(like.dtype)


def ranges(arrays):
    """What an error says of an op's inputs."""
    out = []
    for a in arrays:
        a = np.asarray(a)
        wide = a.astype(np.float64) if a.dtype.kind not in "iub" else a
        fine = wide[np.isfinite(wide)] if wide.dtype.kind == "f" else wide
        span = f"{fine.min():.4g} to {fine.max():.4g}" if fine.size else "no number"
        bad = f", {int(a.size - fine.size)} not finite" if fine.size != a.size else ""
        out.append(f"{a.dtype.name}{list(a.shape)} {span}{bad}")
    return "; ".join(out) or "none"


def trouble(result, inputs):
    """"NaN" or "infinity" where a result has one that no input has; else empty."""
    result = np.asarray(result).astype(np.float64)
    if np.isfinite(result).all():
        return ""
    given = [np.asarray(a).astype(np.float64) for a in inputs if np.asarray(a).dtype.kind not in "iub"]
    if np.isnan(result).any():
        return "" if any(np.isnan(a).any() for a in given) else "NaN"
    return "" if any(np.isinf(a).any() for a in given) else "infinity"


def message(kind, name, line, step, result, inputs):
    bad = int((~np.isfinite(np.asarray(result).astype(np.float64))).sum())
    where = f"\n  --> {line}" if line else ""
    return (f"{kind}: {name} made {bad} of {np.size(result)} elements that are no finite numbers{where}\n  step      {step}, rank {rank()}\n"
            f"  inputs    {ranges(inputs)}\n  try       trine.debug.dump({dotted(name)!r}) around it, or trine debug compare against a baseline")  # fmt: skip
