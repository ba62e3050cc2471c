"""Whole jitted programs of many kinds, small and middling: on virtual NeuronCores and on XLA's CPU, by turns.

Prints processor milliseconds of the quickest turn of each on one core, and how many times XLA's time ours takes, then how
many programs take no longer. `jax_programs.py fft sort` runs some; `--check` compares values instead.
"""

import argparse
import os
import time

os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # before threads are made: each side has one

import jax
import numpy as np
from programs import DOUBLE, ROWS

ROUND_S = 0.004  # shorter than a time slice, so that some turn has the core to itself


def compiled(function, args, device):
    args = jax.device_put(args, device)
    run = jax.jit(function)
    jax.block_until_ready(run(*args))
    return lambda: jax.block_until_ready(run(*args))


def timed(run, many):
    """Processor seconds of a run, of all threads."""
    start = time.process_time()
    for _ in range(many):
        run()
    return (time.process_time() - start) / many


def sides(make):
    with jax.default_device(jax.devices("cpu")[0]):
        function, args = make()
    return [compiled(function, args, platform) for platform in (jax.devices()[0], jax.devices("cpu")[0])]


def measure(make, seconds):
    """Milliseconds of ours and of XLA's."""
    runs = sides(make)
    best, many = [], []
    for run in runs:
        timed(run, 2)
        best.append(timed(run, 2))
        many.append(max(1, min(1000, int(ROUND_S / max(1e-6, best[-1])))))
    end = time.process_time() + seconds
    while time.process_time() < end:
        for side, run in enumerate(runs):
            run()  # after the other side's turn the caches are its own
            best[side] = min(best[side], timed(run, many[side]))
    return [s * 1e3 for s in best]


def differs(make):
    """Whether values of ours and of XLA's are further apart than a long computation in f32 makes them."""
    got, want = ([np.asarray(x) for x in jax.tree.leaves(run())] for run in sides(make))
    for a, b in zip(got, want, strict=True):
        if b.dtype.kind not in "fciu":
            a, b = a.astype(np.float32), b.astype(np.float32)
        scale = np.abs(b[np.isfinite(b)]).max(initial=0) if b.dtype.kind in "fc" else 0
        if not np.allclose(a, b, rtol=2e-3, atol=2e-3 * scale, equal_nan=True):
            return True
    return False


def print_summary(ratios):
    slow = sorted(((r, name) for name, r in ratios.items() if r > 1), reverse=True)
    listed = ", ".join(f"{n} {r:.2f}" for r, n in slow) or "none"
    late = sum(r > 1.2 for r, _ in slow)
    print(f"{len(ratios) - len(slow)} of {len(ratios)} take no longer, {late} more than 1.2 times as long: {listed}")


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("rows", nargs="*", help=f"of {', '.join(ROWS)}")
    options.add_argument("--seconds", type=float, default=1, help="of processor time per row")
    options.add_argument("--check", action="store_true", help="compare values, time nothing")
    given = options.parse_args()
    if unknown := set(given.rows) - set(ROWS):
        raise SystemExit(f"no row is named {', '.join(unknown)}; there are {', '.join(ROWS)}")
    ratios = {}
    for name in given.rows or ROWS:
        with jax.enable_x64(name in DOUBLE):
            if given.check:
                if differs(ROWS[name]):
                    print(f"{name}: values differ from XLA's", flush=True)
                continue
            ours, xla = measure(ROWS[name], given.seconds)
        ratios[name] = ours / xla
        print(f"{name:26} {ours:10.4f} {xla:10.4f} {ratios[name]:7.2f}", flush=True)
    if not given.check:
        print_summary(ratios)


if __name__ == "__main__":
    main()
