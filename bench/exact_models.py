"""Exact execution beside native: tiny models instruction by instruction on chips, and BERT-base whole.

    python bench/exact_models.py [--chips trn1,trn2,trn3] [--bert]

`first` is a program's first run, with verification and every check; `ready` a later one, as trine.Exact has it. Both run
on one thread and are given in its processor time, which others on the machine do not lengthen; native is wall time.
"""

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "jax"))

import jax  # noqa: E402
import numpy as np  # noqa: E402

from trine import _core, models  # noqa: E402
from trine.estimate import stablehlo  # noqa: E402


def best(runs, rounds=5, seconds=0.1):
    """The least time of a call of each: alternating, and in each round as many as so long holds, so that its data is near."""
    least = [float("inf")] * len(runs)
    for _ in range(rounds):
        for i, run in enumerate(runs):
            run()
            clock = time.thread_time if i else time.perf_counter  # native comes first
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                begin = clock()
                run()
                least[i] = min(least[i], clock() - begin)
    return least


def filled(shape):
    rng = np.random.default_rng(0)
    if shape.dtype == bool:
        return np.ones(shape.shape, bool)
    if np.issubdtype(shape.dtype, np.integer):
        return rng.integers(0, 5, shape.shape).astype(shape.dtype)
    return np.abs(0.1 * rng.standard_normal(shape.shape)).astype(shape.dtype)


def native(artifact, args):
    program = _core.Executable.compile(artifact)
    out = [np.zeros(shape, np.dtype({"f32": "f4", "s32": "i4"}[dtype])) for dtype, shape in program.outputs]
    return lambda: program.launch([a.ctypes.data for a in args], [o.ctypes.data for o in out])


def exact(artifact, args, chip, weights=()):
    """(first, ready). Weights are laid out once, as a loaded model has them."""
    compiled = _core.compile_device(artifact, chip, "none", "bf16", list(weights))
    given = {t["name"]: int(t["name"][3:]) for t in compiled.program.tensors if t["kind"] == "input"}
    laid = {n: compiled.prepare(i, args[i]) for n, i in given.items()}
    program, prepared = compiled.program, {given[n]: laid[n] for n in laid if given[n] in weights}
    return lambda: program.ready(chip).run(laid), lambda: compiled.run(args, chip, prepared)


def row(name, function, shapes, chip, weights=()):
    args = [np.asarray(filled(s)) for s in jax.tree.leaves(shapes)]
    artifact = stablehlo(function, *shapes)
    host, first, ready = best([native(artifact, args), *exact(artifact, args, chip, weights)])
    print(f"{name:16} {chip:5} native {host * 1e3:9.3f} ms   first {first * 1e3:9.2f} ms {first / host:6.1f}×   ready {ready * 1e3:9.2f} ms {ready / host:6.1f}×", flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--chips", default="trn2")
    options.add_argument("--bert", action="store_true", help="BERT-base, batch 1, 128 tokens, too")
    given = options.parse_args()
    from test_device_models import CONFIGS, PHASES

    for chip in given.chips.split(","):
        for name, phase in PHASES:
            work = models.phase(models.build(CONFIGS[name]), phase, 1, 32 if name == "resnet" else 8)
            row(f"{name} {phase}", work.function, work.shapes, chip)
        if given.bert:
            work = models.phase(models.build(models.load_config("bert-base"), "float32"), "forward", 1, 128)
            row("bert-base", work.function, work.shapes, chip, range(len(jax.tree.leaves(work.shapes[0]))))


if __name__ == "__main__":
    main()
