"""Functions of complex numbers with parts that are infinite, lost or zero: as XLA has them on the CPU."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

PARTS = [0.0, -0.0, 1.0, -1.0, 1e8, -1e8, np.inf, -np.inf, np.nan]
POINTS = np.array([complex(*parts) for parts in itertools.product(PARTS, PARTS)])


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("f", [jnp.expm1, jnp.exp, jnp.cosh, jnp.sinh, jnp.tan, jnp.tanh, jnp.sin, jnp.cos, jnp.log1p])
def test_as_on_the_cpu(f, dtype):
    with jax.enable_x64(True):
        given = [jax.device_put(POINTS.astype(dtype), jax.devices(d)[0]) for d in ("neuron", "cpu")]
        got, want = (np.asarray(jax.jit(f)(x)) for x in given)
    for a, b in ((got.real, want.real), (got.imag, want.imag)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-30)
