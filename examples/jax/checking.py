"""Runs a function on the default device and on JAX's CPU backend, and says how far apart the results are."""

import time

import jax
import numpy as np


def compare(function, *args, repeats=1):
    """(result on the device, largest error relative to the largest value, seconds of the fastest run there)."""
    cpu = jax.devices("cpu")[0]
    device = jax.devices()[0]
    here = jax.device_put(args, device)
    compiled = jax.jit(function)
    result = jax.block_until_ready(compiled(*here))
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = jax.block_until_ready(compiled(*here))
        seconds.append(time.perf_counter() - start)
    with jax.default_device(cpu):
        want = jax.jit(function)(*jax.device_put(args, cpu))
    error = max(
        float(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)).max() / max(1e-9, np.abs(np.asarray(b)).max()))
        for a, b in zip(jax.tree.leaves(result), jax.tree.leaves(want), strict=True)
    )
    return result, error, min(seconds)


def report(name, error, seconds, limit):
    device = jax.devices()[0]
    print(f"{name} on {device.device_kind} ({device.platform}): {seconds * 1e3:.1f} ms on this machine, "
          f"largest error against the CPU backend {error:.1e} (limit {limit:.0e})")  # fmt: skip
    if not error <= limit:
        raise SystemExit(f"{name}: values differ from JAX's CPU backend by {error:.1e}; expected at most {limit:.0e}")
