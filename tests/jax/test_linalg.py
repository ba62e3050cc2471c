"""Linear algebra whose values hang on how it is computed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from jax import lax
from jax.scipy.linalg import eigh_tridiagonal


def test_tridiagonal_systems_are_solved_with_pivots():
    diagonals = [np.array(v, np.float32) for v in ([0, 1, 1], [1e-8, 1, 1], [1, 1, 0])]
    x = jax.jit(lax.linalg.tridiagonal_solve)(*diagonals, np.array([[1], [2], [3]], np.float32))
    np.testing.assert_allclose(x, [[-1], [1], [2]], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_many_tridiagonal_systems(dtype):
    rng = np.random.default_rng(0)
    dl, d, du = rng.normal(size=(3, 4, 9)).astype(dtype)
    b = rng.normal(size=(4, 9, 2)).astype(dtype)
    got = jax.vmap(jax.jit(lax.linalg.tridiagonal_solve))(dl, d, du, b)
    for i in range(4):
        bands = np.stack([np.roll(du[i], 1), d[i], np.roll(dl[i], -1)])
        np.testing.assert_allclose(got[i], scipy.linalg.solve_banded((1, 1), bands, b[i]), rtol=1e-3, atol=1e-4)


def test_a_singular_tridiagonal_system():
    zero, one = jnp.zeros(2), jnp.ones(2)
    assert np.isnan(lax.linalg.tridiagonal_solve(zero, zero, zero, one[:, None])).all()
    assert np.isfinite(lax.linalg.tridiagonal_solve(zero, zero, zero, one[:, None], perturb_singular=True)).all()


def test_eigenvectors_of_a_tridiagonal_matrix():
    d, e = np.arange(6, dtype=np.float32) % 4, np.linspace(1, 2, 5, dtype=np.float32)
    w, v = jax.jit(eigh_tridiagonal)(d, e)
    a = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
    np.testing.assert_allclose(w, np.linalg.eigvalsh(a), atol=1e-5)
    np.testing.assert_allclose(a @ v, v * w, atol=1e-4)
