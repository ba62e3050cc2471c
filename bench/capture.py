"""What `trine profile capture` costs: a command alone and captured, one after the other; minima of wall and processor time of the whole.

Of the command itself, as its processes see it (recording alone), and of capture with what comes after it: compiling for the
chip, timing, writing. The compile cache is warm for both, as it is the second time on.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPEATS = 5
JAX = """
import time, jax, jax.numpy as jnp
step = jax.jit(lambda w, x: w - 1e-3 * jax.grad(lambda w: jnp.tanh(x @ w).sum())(w))
w, x = jnp.ones((256, 256)), jnp.ones((128, 256))
for _ in range(3000):
    w = step(w, x)
w.block_until_ready()
"""


def used():
    r = resource.getrusage(resource.RUSAGE_CHILDREN)
    return r.ru_utime + r.ru_stime


def once(words, env):
    """(wall, processor) seconds of a command with its children."""
    wall, cpu = time.perf_counter(), used()
    subprocess.run(words, env=env, check=True, capture_output=True)
    return time.perf_counter() - wall, used() - cpu


def measure(name, command, folder):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TRINE_", "NEURON_"))}
    env |= {"TRINE_CACHE_DIR": f"{folder}/cache", "OMP_NUM_THREADS": "1", "VIRTUAL_ENV": sys.prefix, "PYTHONPATH": str(ROOT / "python")}
    trine = os.environ.get("TRINE", str(ROOT / "build/trine"))
    variants = {"alone": (command, env), "recorded": (command, env | {"TRINE_PROFILE_RECORD": f"{folder}/record"}),
            "captured": ([trine, "profile", "capture", "-o", f"{folder}/p.ntff", "--", *command], env)}  # fmt: skip
    for words, its in variants.values():
        once(words, its)  # caches
    rows = {variant: [] for variant in variants}
    for _ in range(REPEATS):
        for variant, (words, its) in variants.items():
            subprocess.run(["rm", "-rf", f"{folder}/record"], check=True)
            rows[variant].append(once(words, its))
    least = {variant: [min(column) for column in zip(*found)] for variant, found in rows.items()}
    for variant in ("recorded", "captured"):
        wall, cpu = (a / b for a, b in zip(least[variant], least["alone"]))
        print(f"{name}, {variant}: {wall:.2f} times the wall time ({least[variant][0]:.2f} s against {least['alone'][0]:.2f} s), {cpu:.2f} times the processor time")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "loop.py").write_text(JAX)
        measure("examples/torch/bert_training.py, 12 steps", [sys.executable, str(ROOT / "examples/torch/bert_training.py"), "--steps", "12"], folder)
        measure("a JAX loop of 3,000 steps", [sys.executable, f"{folder}/loop.py"], folder)
