"""Elements at computed places, within functions of them: values as on JAX's CPU, places out of range in every mode."""

import jax
import jax.numpy as jnp
import jax.scipy.ndimage
import numpy as np
import pytest

RANDOM = np.random.default_rng(0)
TABLE = RANDOM.standard_normal(50).astype(np.float32)
IMAGE = RANDOM.standard_normal((13, 17)).astype(np.float32)
PLACES = RANDOM.integers(-70, 70, 301).astype(np.int32)
PAIRS = RANDOM.integers(-20, 20, (2, 301)).astype(np.int32)
FINE = (RANDOM.random((2, 301)) * 20 - 2).astype(np.float32)

FUNCTIONS = {
    **{mode: lambda t, i, mode=mode: jnp.tanh(jnp.take(t, i, mode=mode)) + i for mode in ("fill", "clip", "wrap")},
    "filled": lambda t, i: t.at[i].get(mode="fill", fill_value=-1.5) * 2,
    "plain": lambda t, i: t[i] * t[0],
    "twice": lambda t, i: t[jnp.abs(i[jnp.abs(i) % 301]) % 50].cumsum(),
    "of sums": lambda t, i: (t + t[::-1])[i] - t.sum(),
    "beside": lambda t, i: (jnp.exp(t), jnp.exp(t)[i], i * 2),
    "total": lambda t, i: (t[i] * 0.5).sum(),
    "rows": lambda t, i: t.reshape(10, 5)[i] * 2,
    "columns": lambda t, i: t.reshape(10, 5)[:, i] * 2,
    "few": lambda t, i: jax.lax.fori_loop(0, 20, lambda k, s: s * 0.5 + t[i[k] + 2], jnp.float32(0)),
}


def check(function, *args):
    ours, cpu = (jax.jit(function)(*jax.device_put(args, d)) for d in (jax.devices()[0], jax.devices("cpu")[0]))
    for got, want in zip(jax.tree.leaves(ours), jax.tree.leaves(cpu)):
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_on_the_cpu(name):
    check(FUNCTIONS[name], TABLE, PLACES)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "uint32"])
def test_places_of_any_width(dtype):
    check(lambda t, i: jnp.take(t, i, mode="clip") * 2, TABLE, PLACES.astype(dtype))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "uint8", "int16", "uint16", "int32", "bool"])
def test_tables_of_any_format(dtype):
    table = jnp.asarray(TABLE * 30).astype(dtype)
    check(lambda t, i: (jnp.take(t, i, mode="clip") == t[0], t[i]), table, PLACES)


@pytest.mark.parametrize("mode", ["fill", "clip"])
def test_by_several_indices(mode):
    check(lambda x, i, j: x.at[i, j].get(mode=mode) * 2, IMAGE, *PAIRS)
    check(lambda x, i: jnp.take_along_axis(x, i, 1, mode=mode) + 1, IMAGE, PAIRS[:, :26].reshape(13, 4))
    check(jax.vmap(lambda row, i: row.at[i].get(mode=mode) * row[0]), IMAGE, PAIRS[:, :39].reshape(13, 6))


def test_functions_made_of_them():
    check(lambda q: jnp.interp(q, np.sort(TABLE), TABLE), FINE[0])
    for method in ("scan", "scan_unrolled"):
        check(lambda q, method=method: jnp.searchsorted(np.sort(TABLE), q, method=method), FINE[0] - 5)
    for mode in ("constant", "nearest", "wrap", "mirror"):
        check(lambda x, at, mode=mode: jax.scipy.ndimage.map_coordinates(x, list(at), 1, mode), IMAGE, FINE)


def test_a_result_may_not_lie_over_the_table():
    table = np.arange(301, dtype=np.float32)
    function = jax.jit(lambda t, i: t[i] + 1, donate_argnums=0)
    got = function(jax.device_put(table, jax.devices()[0]), PLACES)
    np.testing.assert_array_equal(np.asarray(got), table[np.where(PLACES < 0, PLACES + 301, PLACES)] + 1)
