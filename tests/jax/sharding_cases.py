"""Programs over many devices: each takes a mesh with axes x (4) and y (2), and arrays that lie on it.

`python sharding_cases.py [name ...]` runs each on eight NeuronCores and on eight of JAX's CPU devices, and prints a
line of JSON per program: its name and what went wrong, or null. A program of its own, because the number of devices is
fixed when a process starts (TRINE_INSTANCE, XLA_FLAGS=--xla_force_host_platform_device_count=8).
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, shard_map
from jax.experimental.custom_partitioning import custom_partitioning
from jax.experimental.shard_alike import shard_alike
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

CASES = {}
INT = np.int32
XY = ((16, 32), ("x", "y"))


def case(*arguments, out=None, axes=AxisType.Auto, shape=(4, 2), first=0, reverse=False):
    """Arguments as (shape, spec[, dtype]); `out` is the sharding wanted of every result. The mesh may be of devices
    that do not begin with the first, or are in reverse order."""

    def keep(f):
        CASES[f.__name__] = (f, arguments, out, axes, shape, first, reverse)
        return f

    return keep


@case(((16, 32), ("x", None)), ((32, 8), (None, "y")))
def matmul(mesh, a, b):
    return jnp.tanh(a @ b)


@case(((16, 32), (None, "x")), ((32, 8), ("x", None)))
def matmul_contracted(mesh, a, b):
    return a @ b


@case(((16, 32), (None, "x")), ((32, 8), ("x", None)), out=P("x", None))
def matmul_scattered(mesh, a, b):
    return a @ b


@case(((16, 32), (None, ("x", "y"))), ((32, 8), ("x", None)))
def matmul_half_contracted(mesh, a, b):
    return a @ b


@case(((16, 32), ("x", None)), ((32, 64), ("x", None)))
def matmul_same_axis_twice(mesh, a, b):
    return a @ b


@case(((8, 16, 12), ("x", None, "y")), ((8, 12, 6), (None, "y", None)))
def matmul_batched(mesh, a, b):
    return jnp.einsum("bij,bjk->bik", a, b)


@case(((16, 32), ("x", None)), ((32, 8), (None, "y")), first=16)
def other_devices(mesh, a, b):
    return a @ b, lax.with_sharding_constraint(a, NamedSharding(mesh, P("y", "x")))


@case(((16, 32), ("x", None)), ((32, 8), ("x", "y")), reverse=True)
def reverse_devices(mesh, a, b):
    return a @ b, a.sum(0), jnp.cumsum(a, 0)


@case(((12, 30), ("x", "y")), ((30, 9), ("y", "x")), shape=(3, 2))
def odd_mesh(mesh, a, b):
    return a @ b, a.T, a.reshape(6, 60), jnp.arange(12) + a.sum(1)


@case(((10, 7), (None, None)), ((7, 6), (None, "y")))
def odd_sizes(mesh, a, b):
    return a @ b, (a @ b).reshape(20, 3), a[1:] * 2, jnp.concatenate([a, a], 0)


@case(XY)
def softmax(mesh, a):
    return jax.nn.softmax(a, -1), jax.nn.logsumexp(a, 0)


@case(XY)
def sums(mesh, a):
    return a.sum(), a.sum(0), a.max(1), a.min(), a.prod(1), (a > 0).all(0), a.mean((0, 1)), (a > 2).any()


@case(XY)
def argmax(mesh, a):
    return jnp.argmax(a, -1), jnp.argmin(a, 0)


@case(XY)
def sort(mesh, a):
    return jnp.sort(a, -1), jnp.argsort(a, 0)


@case(XY)
def cumsum(mesh, a):
    return jnp.cumsum(a, -1), jnp.cumsum(a, 0)


@case(((64, 32), ("x", "y")), ((10,), (), INT))
def gather(mesh, a, i):
    return a[i], a[:, i[0]], jnp.take_along_axis(a, i[None, :] % 32, 1)


@case(((64, 32), ("x", None)), ((8, 4), ("y", None), INT))
def embed(mesh, table, i):
    return jnp.take(table, i, axis=0), jax.grad(lambda t: (t[i] ** 2).sum())(table)


@case(((64, 32), ("x", "y")), ((10,), (), INT), ((10, 32), (None, "y")))
def scatter(mesh, a, i, u):
    return a.at[i].add(u), a.at[i % 8].max(u), a.at[:, i[0]].multiply(2)


@case(((8, 4, 16, 16), ("x", None, "y", None)), ((8, 4, 3, 3), ()))
def convolution(mesh, a, k):
    pooled = lax.reduce_window(a, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return lax.conv(a, k, (1, 1), "SAME"), pooled


@case(((8, 4, 8, 8), ("x", "y", None, None)), ((8, 4, 3, 3), (None, "y", None, None)))
def convolution_grad(mesh, a, k):
    return jax.grad(lambda k: lax.conv(a, k, (1, 1), "SAME").sum())(k)


@case(XY)
def moves(mesh, a):
    return a.T, a.reshape(8, 2, 32), a.reshape(512), a.reshape(2, 8, 4, 8), a[::-1], a[3:9, 1:], a[:, ::2]


@case(XY, XY)
def joins(mesh, a, b):
    return jnp.concatenate([a, b], 0), jnp.stack([a, b], 1), jnp.pad(a, ((1, 1), (0, 2))), jnp.roll(a, 3, 0)


@case(XY, ((), (), INT))
def dynamic_slice(mesh, a, i):
    return lax.dynamic_slice(a, (i, 0), (4, 32)), lax.dynamic_update_slice(a, jnp.ones((4, 32)), (i, 0))


@case(XY)
def scan(mesh, a):
    return lax.scan(lambda c, x: (c + x, c.sum()), jnp.zeros(32), a)


@case(((6, 16, 16), (None, "x", "y")), ((8, 16), (None, "x")))
def scan_layers(mesh, ws, x):
    def loss(ws):
        y, means = lax.scan(jax.checkpoint(lambda h, w: (jnp.tanh(h @ w / 4), h.mean())), x, ws)
        return (y * y).sum() + means.sum()

    return jax.value_and_grad(loss)(ws)


@case(XY)
def while_loop(mesh, a):
    return lax.while_loop(lambda v: v.sum() < 1000, lambda v: v * 1.5 + 1, a)


@case(XY)
def cond(mesh, a):
    return lax.cond(a.sum() > 0, lambda v: v * 2, lambda v: v @ v.T @ v, a)


@case(XY, ((), (), INT))
def switch(mesh, a, i):
    return lax.switch(i % 3, [lambda v: v.sum(0), lambda v: jnp.sort(v, 0)[1], lambda v: v[3] * 2], a)


@case(((2,), (), np.uint32), out=P("x", "y"))
def random(mesh, key):
    return jax.random.normal(key, (16, 32)), jax.random.bits(key, (8, 4))


@case(out=P("x", "y"))
def iotas(mesh):
    return jnp.arange(64.0).reshape(16, 4), jnp.eye(16), jnp.ones((8, 8)), lax.broadcasted_iota(INT, (8, 4), 1)


@case(XY)
def top_k(mesh, a):
    return lax.top_k(a, 3)


@case(((16, 32), ("x", "y"), jnp.bfloat16), ((16, 32), ("y", "x"), np.int8))
def dtypes(mesh, a, b):
    return a * 2, a.sum(0), b.sum(), (b > 1).sum(1), a.astype(np.float32) @ b.astype(np.float32).T, a.max(), b.min(0)


@case(((16, 32), ("x", "y"), np.complex64))
def complex_numbers(mesh, a):
    return a.sum(0), a @ a.T, jnp.abs(jnp.fft.fft(a))


@case(XY)
def constraint(mesh, a):
    b = lax.with_sharding_constraint(a * 2, NamedSharding(mesh, P("y", "x")))
    return b + a, lax.with_sharding_constraint(b, NamedSharding(mesh, P(("x", "y"), None)))


@case(XY)
def own_partitioning(mesh, a):
    @custom_partitioning
    def f(a):
        return jnp.sin(a) * 2

    f.def_partition(
        partition=lambda mesh, args, result: (mesh, lambda a: jnp.sin(a) * 2, result.sharding, (args[0].sharding,)),
        infer_sharding_from_operands=lambda mesh, args, result: args[0].sharding,
        sharding_rule="i j -> i j",
    )
    return f(a) @ a.T


@case(XY)
def two_meshes(mesh, a):
    other = jax.sharding.Mesh(mesh.devices.reshape(2, 4), ("p", "q"), axis_types=(AxisType.Auto,) * 2)
    return lax.with_sharding_constraint(a + 1, NamedSharding(other, P("q", "p"))) * 2


@case(*[((8, 16, 4, 8), ("x", None, "y", None))] * 3)
def attention(mesh, q, k, v):
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


@case(((32, 64), (None, "y")), ((64, 8), ("y", None)), ((16, 32), ("x", None)), ((16, 8), ("x", None)))
def train_tensor_parallel(mesh, w1, w2, x, y):
    loss, grads = jax.value_and_grad(lambda w: ((jnp.tanh(x @ w[0]) @ w[1] - y) ** 2).mean())((w1, w2))
    return loss, w1 - 0.1 * grads[0], w2 - 0.1 * grads[1]


@case(((32, 64), ("x", None)), ((64, 8), ("x", None)), ((16, 32), ("x", None)), ((16, 8), ("x", None)))
def train_fully_sharded(mesh, w1, w2, x, y):
    return train_tensor_parallel(mesh, w1, w2, x, y)


@case(((16, 16), ("x", "y")))
def linalg(mesh, a):
    s = a @ a.T + 16 * jnp.eye(16)
    return jnp.linalg.cholesky(s), jnp.linalg.inv(s), jnp.linalg.eigvalsh(s)


@case(((8, 6, 4), ("x", None, None)), ((8, 4, 5), ("x", None, None)))
def vmapped(mesh, a, b):
    return jax.vmap(lambda u, v: jnp.linalg.norm(jnp.sin(u) @ v, axis=0), spmd_axis_name="x")(a, b)


@case(((16, 32), ("x", "y")), ((32, 8), ("y", None)), axes=AxisType.Explicit)
def explicit(mesh, a, b):
    c = jnp.einsum("ij,jk->ik", a, b, out_sharding=P("x", None))
    return jnp.sin(a).T, c, jax.sharding.reshard(a, P("y", "x")), a.sum(0), a * jnp.arange(32.0)


@case(((16, 32), ("x", "y")), ((32, 8), ("y", None)), axes=AxisType.Explicit)
def explicit_train(mesh, a, w):
    def loss(w):
        y = jnp.einsum("ij,jk->ik", a, w, out_sharding=P("x", None))
        return (jnp.tanh(y) ** 2).mean()

    value, grad = jax.value_and_grad(loss)(w)
    return value, w - 0.5 * grad


@case(((16, 32), ("x", "y")), ((32, 8), ("y", None)), axes=AxisType.Explicit)
def explicit_unreduced(mesh, a, b):
    parts = jnp.einsum("ij,jk->ik", a, b, out_sharding=P("x", None, unreduced={"y"}))
    return jax.sharding.reshard(parts, P("x", None))


@case(((16, 32), ("x", None)), axes=(AxisType.Explicit, AxisType.Auto))
def mixed_axes(mesh, a):
    return jnp.cos(a) * 2, a @ jnp.ones((32, 4))


def on(mesh, in_specs, out_specs, **more):
    return lambda f: shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **more)


@case(XY)
def manual_inside(mesh, a):
    inner = on(mesh, P("x", "y"), P(None, "y"))(lambda v: lax.psum(v, "x") + lax.axis_index("y"))
    return jnp.sin(inner(a * 2)).sum()


@case(XY)
def partly_manual(mesh, a):
    inner = on(mesh, P("x"), P(), axis_names={"x"})(lambda v: lax.psum(v, "x") * 2)
    return jax.jit(inner)(a + 1) @ jnp.ones((32, 3))


@case(((16, 32), ("x", "y")), ((32, 16), ("y", None)))
def partly_manual_auto_matmul(mesh, a, w):
    def f(v, w):
        h = jnp.tanh(v @ w)
        return lax.pmean((h * h).sum(0), "x"), h

    return jax.jit(on(mesh, (P("x"), P()), (P(), P("x")), axis_names={"x"})(f))(a, w)


@case(((16, 32), ("x", "y")), ((32, 16), ("y", None)))
def partly_manual_grad(mesh, a, w):
    f = on(mesh, (P("x"), P()), P(), axis_names={"x"})(lambda v, w: lax.pmean((jnp.tanh(v @ w) ** 2).sum(), "x"))
    return jax.jit(jax.value_and_grad(lambda w: f(a, w)))(w)


@case(((8, 16, 12), ("x", None, "y")))
def partly_manual_collectives(mesh, a):
    def f(v):
        ring = lax.ppermute(v, "x", [(i, (i + 1) % 4) for i in range(4)])
        return (
            lax.psum(jnp.sin(v), "x"),
            lax.all_gather(v, "x", axis=1, tiled=True) + lax.axis_index("x"),
            lax.psum_scatter(v, "x", scatter_dimension=1, tiled=True),
            lax.all_to_all(v, "x", 1, 0, tiled=True),
            ring @ jnp.ones((12, 3)),
            lax.pmax(v.max(2), "x"),
            jnp.zeros((2, 16)) + jnp.arange(16.0),
        )

    out = (P(), P("x"), P("x"), P("x"), P("x"), P(), P("x"))
    return on(mesh, P("x"), out, axis_names={"x"}, check_vma=False)(f)(a)


@case(XY)
def partly_manual_ways(mesh, a):
    """Devices along x turn and branch as they like; those along y go with them."""

    def f(v):
        def turn(t):
            i, c = t
            return i + 1, jnp.tanh(c @ c.T) @ c + 1

        i = lax.axis_index("x")
        c = lax.while_loop(lambda t: t[0] < i, turn, (0 * i, v))[1]
        return lax.cond(i > 1, lambda u: u * u.sum(1, keepdims=True), lambda u: jnp.cumsum(u, 1), c)

    return on(mesh, P("x"), P("x"), axis_names={"x"})(f)(a / 8)


@case(XY)
def partly_manual_along_the_minor_axis(mesh, a):
    def f(v):
        v = lax.with_sharding_constraint(v @ v.T, P("x"))
        return lax.psum(v, "y"), lax.scan(lambda c, r: (c + r, c * 2), jnp.zeros(16), lax.psum(v, "y"))[1]

    return on(mesh, P(None, "y"), (P(), P()), axis_names={"y"})(f)(a)


@case(XY, axes=(AxisType.Auto, AxisType.Explicit))
def partly_manual_beside_explicit(mesh, a):
    return on(mesh, P("x"), P("x"), axis_names={"x"})(lambda v: v * 2)(a)


@case(((8, 12), ("x", "y")))
def manual_collectives(mesh, a):
    def f(v):
        return (
            lax.all_gather(v, "x", tiled=True),
            lax.psum_scatter(jnp.tile(v, (4, 1)), "x", tiled=True),
            lax.ppermute(v, "y", [(0, 1), (1, 0)]),
            lax.all_to_all(v, "y", 0, 1, tiled=True),
            lax.pmax(v, ("x", "y")),
            lax.pmean(v, "x"),
        )

    specs = (P(None, "y"), P("x", "y"), P("x", "y"), P(("x", "y"), None), P(), P(None, "y"))
    return on(mesh, P("x", "y"), specs, check_vma=False)(f)(a)


@case(((8, 12), ("x", "y")))
def manual_grad(mesh, a):
    f = on(mesh, P("x", "y"), P())(lambda v: lax.psum((jnp.sin(v) * lax.axis_index("x")).sum(), ("x", "y")))
    return jax.value_and_grad(f)(a)


@case(((8, 12), ("x", None)))
def manual_in_scan(mesh, a):
    ring = on(mesh, P("x"), P("x"))(lambda v: lax.ppermute(v, "x", [(i, (i + 1) % 4) for i in range(4)]))
    return lax.scan(lambda c, _: (ring(c) * 1.1, c.sum()), a, None, length=5)


@case(((16, 8), ("x", None)), ((16, 8), ("x", None)))
def manual_ring(mesh, q, k):
    def f(q, k):
        def turn(carry, _):
            total, k = carry
            return (total + q @ k.T @ k, lax.ppermute(k, "x", [(i, (i + 1) % 4) for i in range(4)])), None

        return lax.scan(turn, (lax.pcast(jnp.zeros_like(q), (), to="varying"), k), None, length=4)[0][0]

    return on(mesh, P("x"), P("x"))(f)(q, k)


@case(((8, 12), ("x", None)))
def manual_loop(mesh, a):
    f = on(mesh, P("x"), P("x"))(lambda v: lax.while_loop(lambda u: lax.pmax(u.sum(), "x") < 90, lambda u: u * 2 + 1, v))
    return f(a)


@case(((8, 16), ("x", "y")))
def carried(mesh, a):
    """Ops that need a dim whole, whose results lie as their inputs do all the same."""
    return (
        jnp.sort(a, 0), lax.cumsum(a, 1), jnp.concatenate([a, a], 1), a[::-1], jnp.pad(a, 4), a[:, 4:12], a[::2],
        a.at[3].set(0.0), lax.dynamic_update_slice(a, a[:4] * 2, (1, 0)), jnp.fft.fft(a).real, a @ a.T @ a,
        lax.reduce_window(a, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID"), lax.cond(a[0, 0] > 0, jnp.sin, jnp.cos, a),
    )  # fmt: skip


@case(XY)
def left_open(mesh, a):
    def to(*spec):
        return lax.with_sharding_constraint(a * 2, NamedSharding(mesh, P(*spec)))

    free = P.UNCONSTRAINED
    return to(), to(None, free), to(free, "y"), to("y", free), to(free, free), to("y"), a


@case(XY)
def alike(mesh, a):
    zeros = jnp.zeros(a.shape)
    turns = lax.scan(lambda c, _: (shard_alike(a, c)[1] + 1, None), zeros, None, length=2)[0]
    return shard_alike(a * 2, zeros), shard_alike(zeros, a)[0], turns


def within(f, mesh, spec):
    """The axis y is manual inside of a part where x is."""
    inner = shard_map(f, in_specs=spec, out_specs=spec, axis_names={"y"})
    return shard_map(inner, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})


@case(((8, 12), ("x", None)))
def manual_in_manual(mesh, a):
    turned = within(lambda v: lax.ppermute(v, "y", [(0, 1), (1, 0)]), mesh, P(None, "y"))
    return turned(a), within(lambda v: v * lax.axis_index(("x", "y")) + lax.psum(v, "y"), mesh, P("y"))(a)


@case(((8, 12), ("x", None)))
def manual_in_manual_loop(mesh, a):
    f = within(lambda v: jnp.sin(v) + lax.axis_index("y"), mesh, P("y"))
    return lax.scan(lambda c, _: (f(c), c.sum()), a, None, length=3)


# XLA chooses otherwise.
LIES_OTHERWISE = {"convolution", "joins", "dynamic_slice", "scan_layers", "constraint", "two_meshes", "linalg",
                  "manual_in_manual", "manual_in_manual_loop"}  # fmt: skip


def values_of(arguments):
    for i, (shape, spec, *dtype) in enumerate(arguments):
        dtype = np.dtype(dtype[0] if dtype else np.float32)
        rng = np.random.default_rng(i)
        value = rng.integers(0, 7, shape) if dtype.kind in "iu" else rng.standard_normal(shape)
        yield np.asarray(value, dtype), spec


def run(name, devices):
    f, arguments, out, axes, shape, first, reverse = CASES[name]
    count = int(np.prod(shape))
    devices = np.array(devices[first : first + count] if len(devices) > first else devices[:count])
    if reverse:
        devices = devices[::-1]
    types = axes if isinstance(axes, tuple) else (axes,) * len(shape)
    mesh = jax.sharding.Mesh(devices.reshape(shape), ("x", "y"), axis_types=types)
    placed = [jax.device_put(v, NamedSharding(mesh, P(*s))) for v, s in values_of(arguments)]
    wanted = None if out is None else NamedSharding(mesh, out)
    with jax.set_mesh(mesh):
        return jax.tree.leaves(jax.jit(lambda *a: f(mesh, *a), out_shardings=wanted)(*placed))


def check(name):
    got, want = run(name, jax.devices()), run(name, jax.devices("cpu"))
    assert len(got) == len(want), f"{len(got)} results, {len(want)} on the CPU"
    for g, w in zip(got, want, strict=True):
        whole = np.asarray(g)
        scale = 2e-2 if w.dtype == jnp.bfloat16 else 3e-5
        as_wide = np.complex128 if np.iscomplexobj(whole) else np.float64
        np.testing.assert_allclose(whole.astype(as_wide), np.asarray(w).astype(as_wide), rtol=scale, atol=scale)
        if name not in LIES_OTHERWISE:
            assert g.sharding.spec == w.sharding.spec, f"lies as {g.sharding.spec}, on the CPU as {w.sharding.spec}"
        for shard in g.addressable_shards:
            np.testing.assert_array_equal(np.asarray(shard.data), whole[shard.index])


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        try:
            check(name)
            print(json.dumps([name, None]), flush=True)
        except Exception as e:
            print(json.dumps([name, f"{type(e).__name__}: {str(e)[:900]}"]), flush=True)
