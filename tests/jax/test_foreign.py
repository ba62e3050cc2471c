"""jax.ffi on this platform: what is registered for the host runs there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.lib import lapack

A = np.array([[4, 1], [1, 3]], np.float32)


def cholesky(x):
    """LAPACK's, which jaxlib registers for the host as any library registers its own."""
    name = lapack.prepare_lapack_call("potrf_ffi", x.dtype)
    results = (jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((), jnp.int32))
    # LAPACK's columns are our rows.
    out, _ = jax.ffi.ffi_call(name, results, vmap_method="sequential")(x, uplo=np.uint8(ord("U")))
    return jnp.tril(out)


@pytest.mark.parametrize("wrapped", [cholesky, jax.jit(cholesky), jax.jit(lambda x: jax.vmap(cholesky)(x[None])[0])])
def test_a_handler_of_the_host(wrapped):
    np.testing.assert_allclose(wrapped(jnp.asarray(A)), np.linalg.cholesky(A), rtol=1e-6)


def test_a_handler_that_nobody_registered():
    with pytest.raises(jax.errors.JaxRuntimeError, match="nobody_has_this"):
        jax.block_until_ready(jax.jit(jax.ffi.ffi_call("nobody_has_this", jax.ShapeDtypeStruct((), jnp.int32)))())
