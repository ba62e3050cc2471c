"""Programs written out by jax.export and read again, with sizes left open: the values are those of the call itself."""

import subprocess

import jax
import jax.numpy as jnp
import jax.scipy.linalg as sl
import numpy as np
import pytest
from jax import export

A = np.stack([np.array([[4, 1, 0], [1, 5, 2], [0, 2, 6]], np.float32)] * 2)

LINALG = {
    "cholesky": jnp.linalg.cholesky,
    "qr": lambda x: jnp.linalg.qr(x)[1],
    "eigh": lambda x: jnp.linalg.eigh(x)[0],
    "eig": lambda x: jnp.abs(jnp.linalg.eig(x)[0]),
    "svd": lambda x: jnp.linalg.svd(x)[1],
    "lu": jax.lax.linalg.lu,
    "solve": lambda x: jnp.linalg.solve(x, x[..., :1]),
    "schur": lambda x: sl.schur(x)[0],
    "hessenberg": sl.hessenberg,
    "tridiagonal": lambda x: jax.lax.linalg.tridiagonal(x)[1],
    "pivoted qr": lambda x: sl.qr(x, pivoting=True)[1],
}


@pytest.mark.parametrize("dims", ["2, 3, 3", "batch, 3, 3"])
@pytest.mark.parametrize("name", LINALG)
def test_linear_algebra(name, dims):
    written = export.export(jax.jit(LINALG[name]))(*export.symbolic_args_specs((A,), [dims])).serialize()
    got = jax.tree.leaves(export.deserialize(written).call(A))
    for a, b in zip(got, jax.tree.leaves(LINALG[name](A)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_sizes_of_matrices_left_open():
    f = jax.jit(lambda x: jnp.linalg.svd(x, full_matrices=False))
    exported = export.export(f)(*export.symbolic_args_specs((A,), ["b, m, n"]))
    for shape in ((2, 3, 3), (1, 3, 2), (3, 2, 3)):
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        u, s, vh = exported.call(x)
        np.testing.assert_allclose((u * s[:, None]) @ vh, x, atol=1e-5)


def test_a_written_program_is_compiled_ahead_of_time(tmp_path):
    path, out = tmp_path / "model.stablehlo", tmp_path / "model.trn"
    path.write_bytes(export.export(jax.jit(lambda a: jnp.tanh(a @ a.T)))(jax.ShapeDtypeStruct((8, 8), jnp.float32)).serialize())
    for content, code in ((path.read_bytes(), 0), (path.read_bytes()[:-900], 3)):
        path.write_bytes(content)
        done = subprocess.run(["trine", "compile", path, "-o", out, "--instance", "trn1.2xlarge"], capture_output=True, text=True)
        assert done.returncode == code, done.stderr
    assert "NCC_" in done.stderr and "neither StableHLO text nor MLIR bytecode" in done.stderr
