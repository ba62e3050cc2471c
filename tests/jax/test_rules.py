"""What JAX has for platforms it knows by name: sparse solves, checks left in a program, what a lowered program costs."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify, sparse
from jax.experimental.sparse.linalg import spsolve

A = np.array([[4, 1, 0], [1, 4, 1], [0, 1, 3]], np.float32)
B = np.array([1, 2, 3], np.float32)


def test_sparse_solve_and_its_gradient():
    m = sparse.BCSR.fromdense(A)

    def solve(data, b):
        return spsolve(data, m.indices, m.indptr, b)

    np.testing.assert_allclose(jax.jit(solve)(m.data, B), np.linalg.solve(A, B), rtol=1e-5)
    got = jax.grad(lambda b: solve(m.data, b).sum())(B)
    np.testing.assert_allclose(got, np.linalg.solve(A.T, np.ones(3)), rtol=1e-5)


@pytest.mark.parametrize("lower,unit_diagonal", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_a_triangular_solve_told_by_numbers(lower, unit_diagonal):
    triangle = np.tril(A) if lower else np.triu(A)
    if unit_diagonal:
        triangle = triangle - np.diag(np.diag(A)) + np.eye(3)
    got = jax.scipy.linalg.solve_triangular(A, B, lower=lower, unit_diagonal=unit_diagonal)
    np.testing.assert_allclose(got, np.linalg.solve(triangle, B), rtol=1e-5)


def test_erf_of_f8():
    x = jnp.asarray([-3, -0.5, 0, 0.25, 2], jnp.float8_e4m3fn)
    np.testing.assert_array_equal(jax.lax.erf(x), jax.lax.erf(x.astype(jnp.float32)).astype(x.dtype))


def test_a_debug_check_that_nobody_collects():
    def f(x):
        checkify.debug_check(x > 0, "not above zero")
        return x * 2

    assert jax.jit(f)(-1.0) == -2


def test_a_check_that_nobody_collects_is_an_error():
    def f(x):
        checkify.check(x > 0, "not above zero")
        return x * 2

    with pytest.raises(ValueError, match="not functionalized"):
        jax.jit(f)(-1.0)
    jax.config.update("jax_experimental_unsafe_xla_runtime_errors", True)
    try:
        assert jax.jit(f)(1.0) == 2
        with pytest.raises(Exception, match="not above zero"):
            jax.block_until_ready(jax.jit(f)(-1.0))
    finally:
        jax.config.update("jax_experimental_unsafe_xla_runtime_errors", False)


def test_cost_of_a_lowered_program():
    lowered = jax.jit(jnp.matmul).lower(jnp.ones((8, 16)), jnp.ones((16, 4)))
    assert lowered.cost_analysis()["flops"] == 2 * 8 * 16 * 4


@pytest.mark.parametrize("options,said", [
    ({"xla_embed_ir_in_executable": True}, None),
    ({"xla_gpu_auto_spmd_partitioning_memory_budget_ratio": 0.5, "auto-cast": "none"}, None),
    ({"xla_embed_ir_in_executable": "perhaps"}, "'perhaps' is not a valid bool value"),
    ({"xla_no_such_thing": 1}, "No such compile option: 'xla_no_such_thing'"),
    ({"no_such_thing": 1}, "No such compile option: 'no_such_thing'; there are auto-cast"),
])  # fmt: skip
def test_compiler_options_of_xla(options, said):
    lowered = jax.jit(lambda v: v + 1).lower(1.0)
    if said is None:
        assert lowered.compile(options)(1.0) == 2
    else:
        with pytest.raises(jax.errors.JaxRuntimeError, match=said):
            lowered.compile(options)


def test_a_compiled_program_shows_its_ops():
    def f(x, y):
        with jax.named_scope("there"):
            x = jnp.sin(x)
        return jax.lax.fori_loop(0, 3, lambda i, c: jnp.cos(c), x), x @ y

    text = jax.jit(f, donate_argnums=0).lower(jnp.ones((2, 2)), jnp.ones((2, 2))).compile().as_text()
    assert text.startswith("HloModule jit_f, input_output_alias={ {0}: (0, {}, may-alias) }, entry_computation_layout=")
    for line in (r"%sine.* = f32\[2,2\].* sine\(%parameter.*op_name=\"jit\(f\)/there/sin\" source_file=\".*test_rules",
                 r"= f32\[2,2\].* dot\(%sine", r" while\(", r" cosine\(", r"ENTRY %main"):  # fmt: skip
        assert re.search(line, text), text


def test_some_eigenvalues_and_some_singular_values():
    values, vectors = np.linalg.eigh(A)
    v, w = jax.lax.linalg.eigh(A, subset_by_index=(1, 3))
    np.testing.assert_allclose(w, values[1:], rtol=1e-5)
    np.testing.assert_allclose(A @ v, v * w, rtol=1e-4, atol=1e-5)
    u, s, vh = jax.lax.linalg.svd(A[:, :2], full_matrices=False, subset_by_index=(0, 1))
    np.testing.assert_allclose(s, np.linalg.svd(A[:, :2])[1][:1], rtol=1e-5)
    np.testing.assert_allclose(A[:, :2] @ vh.T, u * s, rtol=1e-4)
    assert vectors.shape[1] == 3 and v.shape == (3, 2) and u.shape == (3, 1) and vh.shape == (1, 2)


def test_what_is_not_a_number_has_no_eigenvalues():
    nan = np.full((2, 2), np.nan, np.float32)
    w, v = jnp.linalg.eig(nan)
    assert np.isnan(w.real).all() and np.isnan(w.imag).all() and np.isnan(v).all()
    assert np.isnan(jax.scipy.linalg.schur(nan)[1]).all()
