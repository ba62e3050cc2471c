"""-0 is below 0 where the larger or smaller of two tensors is taken, as on XLA's CPU; NaN is both. Reductions keep the
first of two zeros."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax


def window(x, first, op):
    return lax.reduce_window(x, jnp.asarray(first, x.dtype), op, (2, 1), (1, 1), "VALID")


FUNCTIONS = {
    "max": lambda a, b: lax.max(a, b),
    "min": lambda a, b: lax.min(a, b),
    "relu": lambda a, b: (jnp.maximum(a, 0), jnp.maximum(0, b)),
    "limits": lambda a, b: (jnp.minimum(a, 0), jnp.maximum(a, -0.0), jnp.minimum(b, -0.0)),
    "clamp": lambda a, b: (lax.clamp(b, a, jnp.zeros_like(a)), lax.clamp(-jnp.ones_like(a), a, b), jnp.clip(a, 0, 1)),
    "windows": lambda a, b: (window(a, -jnp.inf, lax.max), window(b, jnp.inf, lax.min)),
    "running": lambda a, b: (lax.cummax(a, 1), lax.cummin(b, 0)),
    "scatter": lambda a, b: (a.at[jnp.arange(4)].max(b), a.at[jnp.arange(4)].min(b)),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_on_the_cpu(name, dtype):
    with jax.enable_x64(dtype == "float64"):
        for columns in (1, 5, 8, 33, 260):
            g = np.random.default_rng(columns)
            a, b = (np.float32([0.0, -0.0, 0.0, -0.0, np.nan, 1])[g.integers(0, 4 + i, (4, columns))].astype(dtype) for i in (0, 2))
            got, want = (jax.tree.leaves(jax.jit(FUNCTIONS[name])(*jax.device_put((a, b), jax.devices(d)[0]))) for d in ("neuron", "cpu"))
            for x, y in zip(got, want, strict=True):
                x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
                np.testing.assert_array_equal(x, y)
                same = np.isnan(y) | (np.signbit(x) == np.signbit(y))
                assert same.all(), f"{columns} columns, at {np.argwhere(~same)[0]}"
