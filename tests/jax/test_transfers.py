"""Arrays to a device and back: every dtype, any strides, and what becomes of deleted ones."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

NAMES = [
    *("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "float32", "complex64"),
    *("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3", "float8_e3m4", "float8_e4m3b11fnuz"),
    *("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "int4", "uint4", "int2", "uint2"),
]
WIDE = ["int64", "uint64", "float64", "complex128"]


def dtype_of(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def values(name: str, shape, seed=0) -> np.ndarray:
    whole = np.random.default_rng(seed).integers(0, 2, shape)
    return whole.astype(dtype_of(name)) if name != "bool" else whole.astype(bool)


def same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype and a.shape == b.shape
    assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(), (5,), (0,), (3, 0, 2), (4, 5), (2, 3, 4)])
def test_round_trip(name, shape):
    host = values(name, shape)
    device = jax.device_put(host, jax.devices()[1])
    assert device.devices() == {jax.devices()[1]}
    same(device, host)


@pytest.mark.parametrize("name", WIDE)
def test_round_trip_wide(name):
    with jax.enable_x64(True):
        same(jax.device_put(values(name, (3, 5))), values(name, (3, 5)))


@pytest.mark.parametrize("name", ["float32", "bfloat16", "complex64", "int4", "uint8"])
def test_strided_host_arrays(name):
    host = values(name, (6, 8, 10))
    for view in (host.T, host[::2, 1::3], host[::-1, :, ::-2], host[:, 3], np.broadcast_to(host[:1], (4, 8, 10))):
        same(jax.device_put(view), np.ascontiguousarray(view))


def test_between_devices():
    a, b = jax.devices()[:2]
    x = jax.device_put(np.arange(1000.0, dtype=np.float32), a)
    y = jax.device_put(x, b)
    assert y.devices() == {b}
    same(y, x)


def test_a_deleted_array_says_so():
    x = jax.device_put(np.ones(4, np.float32))
    x.delete()
    assert x.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(x)


@pytest.mark.parametrize("donated", [(0,), (0, 1)])
def test_a_donated_array_is_given_once(donated):
    f = jax.jit(lambda a, b: (a + 1, b[::-1]), donate_argnums=donated)
    x = jax.device_put(np.arange(4, dtype=np.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match="same array, and it is donated"):
        f(x, x)
    same(f(x, x + 0)[1], np.arange(4, dtype=np.float32)[::-1])
    g, y = jax.jit(lambda a: a + 1, donate_argnums=0), jax.device_put(np.ones(4, np.float32))
    g(y)
    with pytest.raises((RuntimeError, ValueError), match="Buffer has been deleted or donated"):
        g(y)


def test_memory_is_counted_and_given_back():
    device = jax.devices()[0]
    before = device.memory_stats()["bytes_in_use"]
    x = jax.device_put(np.zeros((1024, 1024), np.float32), device)
    assert device.memory_stats()["bytes_in_use"] == before + (4 << 20)
    del x
    assert device.memory_stats()["bytes_in_use"] == before


def test_out_of_memory_lists_the_largest():
    device = jax.devices()[0]
    kept = jax.device_put(np.zeros((3, 1 << 20), np.float32), device)
    too_large = np.broadcast_to(np.float32(0), (1 << 33,))
    with pytest.raises(RuntimeError, match=r"(?s)out of memory on neuron:0.*f32\[8589934592\] needs.*f32\[3,1048576\] input"):
        jax.device_put(too_large, device)
    same(kept, np.zeros((3, 1 << 20), np.float32))


def test_dlpack_and_numpy_share_the_bytes():
    x = jax.device_put(np.arange(16, dtype=np.float32))
    shown = np.asarray(x)
    assert not shown.flags.writeable
    assert x.unsafe_buffer_pointer() == shown.ctypes.data


def test_many_threads():
    from concurrent.futures import ThreadPoolExecutor

    def turn(seed):
        host = values("float32", (64, 64), seed)
        same(jax.device_put(jax.device_put(host, jax.devices()[seed % 2]), jax.devices()[0]), host)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(turn, range(200)))


def test_uncommitted_results_are_on_the_first_device():
    assert jnp.zeros(3).devices() == {jax.devices()[0]}


def test_a_weight_that_multiplies_alone_comes_back():
    """Programs that read it by its packed form let its own bytes go; everyone else finds them as they were."""
    rng = np.random.default_rng(0)
    plain, x = rng.normal(size=(1024, 768)).astype(np.float32), rng.normal(size=(8, 1024)).astype(np.float32)
    multiply, transposed = jax.jit(lambda x, w: jnp.tanh(x @ w)), jax.jit(lambda x, w: x @ w.T)

    def used(value, program=multiply):
        w = jax.device_put(value)
        results = [np.asarray(program(x, w)) for _ in range(4)]
        assert all((r == results[0]).all() for r in results)
        np.testing.assert_allclose(results[0], np.asarray(program(x, jax.device_put(value))), rtol=1e-5, atol=1e-5)
        return w

    assert (np.asarray(used(plain)) == plain).all()
    assert (np.asarray(used(plain.T.copy(), transposed)) == plain.T).all()
    assert (np.asarray(used(plain) + 1) == plain + 1).all()
    assert (np.asarray(jax.jit(lambda w: w + 1, donate_argnums=0)(used(plain))) == plain + 1).all()
    assert (np.asarray(jax.device_put(used(plain), jax.devices()[1])) == plain).all()
    w = used(plain)  # forms of one program and of another, at once
    np.testing.assert_allclose(jax.jit(lambda x, w: (x @ w) @ w.T)(x, w), (x @ plain) @ plain.T, rtol=1e-3, atol=1e-2)
    assert (np.asarray(w) == plain).all()


def test_a_small_part_of_a_weight_that_went_is_as_it_was():
    """Tiny products of a batch read their operands where they lie; beside them the weight multiplies by its packed form."""
    rng = np.random.default_rng(1)
    plain, x, y = (rng.normal(size=d).astype(np.float32) for d in ((1024, 1024), (8, 1024), (16, 2, 4)))

    @jax.jit
    def both(x, y, w):
        part = jnp.broadcast_to(w[:4, :8], (16, 4, 8))
        return x @ w, lax.dot_general(y, part, (((2,), (1,)), ((0,), (0,))))

    w = jax.device_put(plain)
    for _ in range(3):
        np.testing.assert_allclose(both(x, y, w)[1], y @ plain[:4, :8], rtol=1e-5, atol=1e-5)
