"""The kinds of memory a device has: its own, and the host's, which is not counted against HBM."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

HOST = np.arange(12.0, dtype=np.float32).reshape(3, 4)


def on(kind):
    return SingleDeviceSharding(jax.devices()[0], memory_kind=kind)


def in_use():
    return jax.devices()[0].memory_stats()["bytes_in_use"]


def same(a, b):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-5)


def test_kinds_of_a_device():
    device = jax.devices()[0]
    assert [m.kind for m in device.addressable_memories()] == ["device", "pinned_host", "unpinned_host"]
    assert device.default_memory().kind == "device"
    assert device.memory("pinned_host").addressable_by_devices() == [device]
    with pytest.raises(ValueError, match="pinned_host, unpinned_host"):
        jax.device_put(HOST, on("sram"))


@pytest.mark.parametrize("kind", ["pinned_host", "unpinned_host"])
def test_the_host_is_not_counted(kind):
    before = in_use()
    x = jax.device_put(HOST, on(kind))
    assert (x.sharding.memory_kind, in_use()) == (kind, before)
    y = jax.device_put(x, on("device"))
    assert in_use() == before + HOST.nbytes
    z = jax.device_put(y, y.sharding.with_memory_kind(kind))
    for a in (x, y, z):
        same(a, HOST)


def test_programs_between_memories():
    before = in_use()
    f = jax.jit(lambda v: v * 2, out_shardings=on("pinned_host"))
    y = f(HOST)
    same(y, HOST * 2)
    stats = f.lower(HOST).compile().memory_analysis()
    assert (stats.host_output_size_in_bytes, stats.output_size_in_bytes) == (HOST.nbytes, 0)
    inside = jax.jit(lambda v: jax.device_put(v * 2, jax.memory.Space.Host))(HOST)
    assert inside.sharding.memory_kind == y.sharding.memory_kind == "pinned_host"
    assert in_use() == before
    back = jax.jit(lambda v: jax.device_put(v, jax.memory.Space.Device) + 1, in_shardings=on("pinned_host"))(y)
    assert back.sharding.memory_kind == "device"
    same(back, HOST * 2 + 1)
    g = jax.jit(lambda v: jax.device_put(v, jax.memory.Space.Device) - 1, in_shardings=on("pinned_host"),
                out_shardings=on("pinned_host"), donate_argnums=0)  # fmt: skip
    same(g(y), HOST * 2 - 1)
    assert y.is_deleted()


def test_activations_wait_on_the_host():
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[], names_which_can_be_offloaded=["a"], offload_src="device", offload_dst="pinned_host"
    )

    def block(x, w):
        return jnp.tanh(checkpoint_name(jnp.sin(x @ w), "a") @ w.T)

    def loss(x, w, block):
        return jax.lax.scan(lambda c, _: (block(c, w), None), x, None, length=4)[0].sum()

    w = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    offloaded = jax.jit(jax.grad(lambda x, w: loss(x, w, jax.checkpoint(block, policy=policy)), argnums=1))
    same(offloaded(HOST, w), jax.jit(jax.grad(lambda x, w: loss(x, w, block), argnums=1))(HOST, w))


def test_over_a_mesh():
    mesh = jax.make_mesh((2,), ("x",))
    near, far = (NamedSharding(mesh, PartitionSpec("x"), memory_kind=k) for k in ("device", "pinned_host"))
    host = np.arange(32.0, dtype=np.float32).reshape(8, 4)
    x = jax.device_put(host, far)
    y = jax.jit(lambda v: jax.device_put(v, near) * 2, out_shardings=far)(x)
    assert x.sharding.memory_kind == y.sharding.memory_kind == "pinned_host"
    same(y, host * 2)
