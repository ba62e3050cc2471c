"""Programs over many devices: partitioned by us and run on NeuronCores, held against JAX's CPU devices."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")

HERE = Path(__file__).parent
NAMES = re.findall(r"^@case.*\ndef (\w+)", (HERE / "sharding_cases.py").read_text(), re.MULTILINE)


def run(arguments, **env):
    done = subprocess.run([sys.executable, *arguments], env=os.environ | env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def outcomes():
    """All programs in one process: the number of devices is fixed when it starts."""
    flags = "--xla_force_host_platform_device_count=8"
    return dict(run([str(HERE / "sharding_cases.py")], TRINE_INSTANCE="trn1.32xlarge", XLA_FLAGS=flags))


@pytest.mark.parametrize("name", NAMES)
def test_as_on_the_cpu(outcomes, name):
    assert outcomes[name] is None, outcomes[name]


ALL_DEVICES = """
import json, jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(16, 8), ("x", "y"))
a = np.arange(256 * 64, dtype=np.float32).reshape(256, 64) / 1000
b = np.arange(64 * 32, dtype=np.float32).reshape(64, 32) / 1000
f = jax.jit(lambda a, b: (jnp.tanh(a @ b), a.sum()), out_shardings=NamedSharding(mesh, P()))
got, total = f(jax.device_put(a, NamedSharding(mesh, P("x", "y"))), jax.device_put(b, NamedSharding(mesh, P("y"))))
np.testing.assert_allclose(got, np.tanh(a @ b), rtol=1e-4)
np.testing.assert_allclose(total, a.sum(dtype=np.float64), rtol=1e-5)
rows = jax.shard_map(lambda v: jax.lax.psum(v, ("x", "y")), mesh=mesh, in_specs=P(("x", "y")), out_specs=P())
np.testing.assert_allclose(jax.jit(rows)(a), a.reshape(128, 2, 64).sum(0), rtol=1e-4)
assert "all-reduce(" in jax.jit(jnp.sum).lower(jax.device_put(a, NamedSharding(mesh, P("x")))).compile().as_text()
print(json.dumps([len(jax.devices()), len(got.sharding.device_set)]))
"""


def test_all_128_devices_of_an_instance():
    made = run(["-c", ALL_DEVICES], TRINE_INSTANCE="trn2.48xlarge", NEURON_LOGICAL_NC_CONFIG="1")
    assert made[-1] == [128, 128]


# A sum left to its devices goes from one program to the next.
UNREDUCED = """
import json, jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, PartitionSpec as P, reshard
mesh = jax.sharding.Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
a, b = np.arange(64, dtype=np.float32).reshape(8, 8), np.ones((8, 8), np.float32)
left = P("x", None, unreduced={"y"})
with jax.set_mesh(mesh):
    x, y = jax.device_put(a, P("x", "y")), jax.device_put(b, P("y"))
    p = jax.jit(lambda x, y: jnp.einsum("ij,jk->ik", x, y, out_sharding=left))(x, y)
    parts = [np.asarray(s.data).tolist() for s in p.addressable_shards[:2]]
    twice = jax.jit(lambda p: p + p)(p)
    whole = [np.asarray(reshard(v, P("x"))).tolist() for v in (p, twice)]
    f = jax.shard_map(lambda v: v.sum(0), in_specs=P(("x", "y")), out_specs=P(None, unreduced={"x", "y"}))
    rows = jax.jit(f)(reshard(x, P(("x", "y"))))
    grad = jax.jit(jax.grad(lambda w: (reshard(x, P("x")) @ w).sum()))(jax.device_put(b, P(reduced={"x"})))
    sums = [np.asarray(reshard(v, P())).tolist() for v in (rows, grad)]
print(json.dumps([parts, whole, [str(v.sharding.spec) for v in (p, twice, rows, grad)], sums]))
"""


def test_sums_left_to_their_devices():
    parts, whole, specs, (rows, grad) = run(["-c", UNREDUCED], TRINE_INSTANCE="trn1.32xlarge")[-1]
    a, b = np.arange(64.0).reshape(8, 8), np.ones((8, 8))
    assert np.array_equal(parts, [a[:2, :4] @ b[:4], a[:2, 4:] @ b[4:]])
    assert np.array_equal(whole, [a @ b, 2 * a @ b])
    assert all("unreduced=" in s for s in specs)
    assert np.array_equal(rows, a.sum(0)) and np.array_equal(grad, np.repeat(a.sum(0)[:, None], 8, 1))


# Annotations of GSPMD, which JAX wrote before Shardy's: constraints, several orders of devices, parts that are manual.
OF_GSPMD = ("matmul", "matmul_scattered", "odd_mesh", "other_devices", "embed", "constraint", "two_meshes", "scan",
            "explicit_train", "manual_inside", "manual_collectives", "manual_grad", "manual_ring", "left_open")  # fmt: skip


def test_annotations_of_gspmd():
    flags = "--xla_force_host_platform_device_count=8"
    outcomes = dict(run([str(HERE / "sharding_cases.py"), *OF_GSPMD, "alike"], TRINE_INSTANCE="trn1.32xlarge",
                        XLA_FLAGS=flags, JAX_USE_SHARDY_PARTITIONER="false"))  # fmt: skip
    assert "the sharding {unknown shard_as 0} of GSPMD; tiles over all devices were expected" in outcomes.pop("alike")
    assert outcomes == dict.fromkeys(OF_GSPMD)


# The example in JAX's documentation, and its gradient; two groups side by side; slices of one device alone.
RAGGED = """
import json, jax, jax.numpy as jnp, numpy as np
from jax.sharding import PartitionSpec as P
def run(devices, operand, output, *sizes, groups=None, wanted=lambda f, x, *rest: f(x, *rest)):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:devices]), ("x",))
    def each(*args):
        return jax.lax.ragged_all_to_all(*[v[0] for v in args], axis_name="x", axis_index_groups=groups)[None]
    f = jax.jit(jax.shard_map(each, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=groups is None))
    given = [np.array(v, np.float32) for v in (operand, output)] + [np.array(v, np.int32) for v in sizes]
    return np.asarray(wanted(f, *given)).tolist()
rows = [[[1, 9], [2, 9], [2, 8]], [[3, 9], [4, 9], [0, 0]]], [[[0, 0]] * 4] * 2
sizes = [[0, 1], [0, 1]], [[1, 2], [1, 1]], [[0, 0], [1, 2]], [[1, 1], [2, 1]]
grad = lambda f, x, *rest: jax.grad(lambda x: (f(x, *rest) ** 2).sum())(x)
print(json.dumps([
    run(2, *rows, *sizes), run(2, *rows, *sizes, wanted=grad),
    run(4, *[2 * v for v in (*rows, *sizes)], groups=[[0, 1], [2, 3]]),
    run(1, [[1, 2, 3]], [[0, 0, 0, 9]], [[0, 2]], [[1, 1]], [[2, 0]], [[1, 1]])]))
"""


def test_ragged_all_to_all():
    plain, grad, groups, alone = run(["-c", RAGGED], TRINE_INSTANCE="trn1.32xlarge")[-1]
    assert plain == [[[1, 9], [3, 9], [0, 0], [0, 0]], [[2, 9], [2, 8], [4, 9], [0, 0]]]
    assert grad == [[[2, 18], [4, 18], [4, 16]], [[6, 18], [8, 18], [0, 0]]]
    assert groups == plain * 2 and alone == [[3, 0, 1, 9]]


# Within a shard_map over x alone, y still cuts the products: each device multiplies its part.
CUT_WITHIN = """
import json, re, jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.sharding.Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("x", "y"))
x = jax.ShapeDtypeStruct((16, 32), np.float32, sharding=NamedSharding(mesh, P("x")))
f = jax.shard_map(lambda x, w: x @ w, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"), axis_names={"x"})
w = jax.ShapeDtypeStruct((32, 64), np.float32, sharding=NamedSharding(mesh, P(None, "y")))
compiled = jax.jit(f).lower(x, w).compile()
print(json.dumps([re.findall(r"= (f32\\[[0-9,]*\\])\\S* dot\\(", compiled.as_text()), str(compiled.output_shardings.spec)]))
"""


def test_other_axes_cut_within_a_shard_map():
    assert run(["-c", CUT_WITHIN], TRINE_INSTANCE="trn1.32xlarge")[-1] == [["f32[4,32]"], "P('x', 'y')"]


INSPECTED = """
import json, jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.sharding.Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("x", "y"))
a = jax.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh, P("x", "y")))
seen = []
def look(v):
    jax.debug.inspect_array_sharding(v, callback=lambda s: seen.append(str(s.spec)))
    return v
f = jax.jit(lambda a: look(look(jnp.sin(a)) @ a.T) + look(jax.lax.with_sharding_constraint(a, NamedSharding(mesh, P()))))
f(a), f(a)
print(json.dumps(seen))
"""


def test_how_a_value_lies_in_a_program():
    said = run(["-c", INSPECTED], TRINE_INSTANCE="trn1.32xlarge")[-1]
    assert said == ["P('x', 'y')", "P('x',)", "P()"], said


# An array goes between meshes of the same devices in other orders, and to another sharding on the way. A donated array
# is taken over where its parts are as large as those of the result, cut along the same dim or not.
MOVED = """
import json, itertools, jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
a = np.arange(64, dtype=np.float32).reshape(8, 8)
def mesh(order):
    return jax.sharding.Mesh(np.array(jax.devices())[list(order)].reshape(4, 2), ("x", "y"))
first, specs = mesh(range(8)), [P(), P("x"), P("x", "y"), P("y", "x"), P(("y", "x"))]
for order in ((3, 1, 7, 0, 2, 4, 5, 6), (0, 2, 4, 6, 1, 3, 5, 7)):
    for s, t in itertools.product(specs, specs):
        x = jax.device_put(jax.device_put(a, NamedSharding(first, s)), NamedSharding(mesh(order), t))
        back = jax.device_put(x, NamedSharding(first, s))
        for v in (x, back):
            assert all((np.asarray(p.data) == a[p.index]).all() for p in v.addressable_shards), (order, s, t)
        assert [d.id for d in x.sharding.mesh.devices.flat] == list(order) and back.sharding == NamedSharding(first, s)
taken = []
for t in (P("x"), P(None, "x"), P("y"), P("x", "y"), P()):
    x = jax.device_put(a, NamedSharding(first, P("x")))
    y = jax.jit(lambda v: v + 1, donate_argnums=0, out_shardings=NamedSharding(first, t))(x)
    assert (np.asarray(y) == a + 1).all()
    taken.append(x.is_deleted())
print(json.dumps(taken))
"""


def test_moved_between_orders_of_devices_and_given_away():
    said = run(["-W", "ignore", "-c", MOVED], TRINE_INSTANCE="trn1.32xlarge", NEURON_RT_NUM_CORES="8")
    assert said[-1] == [True, True, False, False, False]


# Batches of matrices and of keys stay cut; so do counts that are left unsummed.
STAY_CUT = """
import json, jax, jax.numpy as jnp, numpy as np, re
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((4,), ("x",), (AxisType.Auto,), devices=jax.devices()[:4])
over = NamedSharding(mesh, P("x"))
def look(f, x):
    done = jax.jit(f).lower(x).compile()
    cut = {str(s.spec) for s in jax.tree.leaves(done.output_shardings)}
    return sorted(cut), re.findall("all-gather|all-reduce|all-to-all|dynamic-slice", done.as_text())
a = jax.device_put(np.eye(6, dtype=np.float32) * np.arange(1, 5, dtype=np.float32)[:, None, None], over)
rules = dict(
    eigh=jnp.linalg.eigh, qr=jnp.linalg.qr, hessenberg=lax.linalg.hessenberg, svd=jnp.linalg.svd, lu=lax.linalg.lu,
    eig=jnp.linalg.eigvals, schur=lax.linalg.schur, tridiagonal=lax.linalg.tridiagonal,
    solve=lambda x: lax.linalg.tridiagonal_solve(x[..., 0], x[..., 0] + 2, x[..., 0], x))
seen = {name: look(f, a) for name, f in rules.items()}
seeds = jax.device_put(np.arange(8), over)
seen["key"] = look(jax.vmap(jax.random.key), seeds)
mesh = jax.make_mesh((4,), ("x",), (AxisType.Explicit,), devices=jax.devices()[:4])
with jax.set_mesh(mesh):
    count = jax.jit(lambda v: jnp.bincount(v, length=3, out_sharding=P(unreduced={"x"})))
    counts = count(jax.device_put(np.arange(8) % 3, P("x")))
    parts = [np.asarray(s.data).tolist() for s in counts.addressable_shards]
print(json.dumps([seen, parts]))
"""


def test_batches_stay_cut():
    seen, parts = run(["-c", STAY_CUT], TRINE_INSTANCE="trn1.32xlarge")[-1]
    assert seen == {name: [["P('x',)"], []] for name in seen}
    assert parts == [[1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 0]]


# A rule of the user's own whose body gives other shapes than it says.
CONTRADICTED = """
import json, jax, jax.numpy as jnp, numpy as np
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((4,), ("x",), devices=jax.devices()[:4])
def twice(body):
    f = custom_partitioning(lambda a: a * 2)
    f.def_partition(
        partition=lambda mesh, args, result: (mesh, body, result.sharding, (args[0].sharding,)), sharding_rule="i j -> i j")
    return jax.jit(lambda a: f(a) + 1)
a = jax.device_put(np.ones((8, 4), np.float32), NamedSharding(mesh, P("x")))
with jax.set_mesh(mesh):
    fine = twice(lambda a: a * 2)
    try:
        said = str(twice(lambda a: a[:1] * 2)(a))
    except ValueError as e:
        said = str(e)
print(json.dumps([float(fine(a).sum()), str(fine(a).sharding.spec), said]))
"""


def test_a_rule_that_contradicts_itself():
    total, spec, said = run(["-W", "ignore", "-c", CONTRADICTED], TRINE_INSTANCE="trn1.32xlarge")[-1]
    assert (total, spec) == (96, "P('x', None)")
    assert "Mismatch in result shapes. [ShapedArray(float32[1,4])] vs [ShapedArray(float32[2,4])]" in said
