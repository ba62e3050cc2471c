"""Peak memory and compile time of the rows of jax_peers.py: on virtual NeuronCores and on XLA's CPU backend.

Each side runs in a process of its own that makes the arguments, compiles and runs the row four times. `peak` is the
process's, from its start; `run` the peak after the arguments are there. Ratios are ours over XLA's (below 1: less).
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax_peers

RUNS = 4
SIDES = {"ours": "neuron,cpu", "XLA": "cpu"}


def _peak_mb():
    line = next(s for s in Path("/proc/self/status").read_text().splitlines() if s.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def _child(name):
    """One row on the default device; prints what it took."""
    function, args = jax_peers.rows()[name]()
    args = jax.block_until_ready(args)
    lowered = jax.jit(function).lower(*args)
    before = _peak_mb()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    start = time.perf_counter()
    compiled = lowered.compile()
    compile_s = time.perf_counter() - start
    for _ in range(RUNS):
        jax.block_until_ready(compiled(*args))
    run = _peak_mb()
    print(json.dumps({"peak": max(before, run), "run": run, "compile_s": compile_s}))


def _side(name, platforms):
    env = {**os.environ, "JAX_PLATFORMS": platforms}
    done = subprocess.run([sys.executable, __file__, "--child", name], env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name} with JAX_PLATFORMS={platforms} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(name, repeat):
    """Of several processes the least of each number: what else runs on the machine only adds."""
    took = {side: [] for side in SIDES}
    for _ in range(repeat):
        for side, platforms in SIDES.items():
            took[side].append(_side(name, platforms))
    return {side: {k: min(r[k] for r in results) for k in results[0]} for side, results in took.items()}


def main():
    names = list(jax_peers.rows())
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("rows", nargs="*", help=f"of {', '.join(names)}")
    options.add_argument("--child", help=argparse.SUPPRESS)
    options.add_argument("--repeat", type=int, default=2, help="processes for each side and row")
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    if given.child:
        return _child(given.child)
    if unknown := set(given.rows) - set(names):
        raise SystemExit(f"no row is named {', '.join(unknown)}; there are {', '.join(names)}")
    if not given.json:
        print(f"{'row':20} {'peak MB':>8} {'XLA':>6} {'ratio':>6} {'run MB':>8} {'XLA':>6} {'ratio':>6} "
              f"{'compile s':>10} {'XLA':>6} {'ratio':>6}", flush=True)  # fmt: skip
    results = {}
    for name in given.rows or names:
        results[name] = r = measure(name, given.repeat)
        ours, xla = r["ours"], r["XLA"]
        if not given.json:
            print(f"{name:20} {ours['peak']:8.0f} {xla['peak']:6.0f} {ours['peak'] / xla['peak']:6.2f} "
                  f"{ours['run']:8.0f} {xla['run']:6.0f} {ours['run'] / xla['run']:6.2f} {ours['compile_s']:10.3f} "
                  f"{xla['compile_s']:6.3f} {ours['compile_s'] / xla['compile_s']:6.2f}", flush=True)  # fmt: skip
    if given.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
