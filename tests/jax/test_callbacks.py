"""Functions of the host inside a program: they are called in their place, in order, and their errors reach the caller."""

import gc
import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def twice(v):
    return np.asarray(v) * 2


@pytest.mark.parametrize("dtype", [np.float32, np.int32, jnp.bfloat16, np.bool_, np.complex64, np.uint8])
def test_pure_callback(dtype):
    x = np.asarray(X, dtype)
    f = jax.jit(lambda v: jax.pure_callback(lambda u: np.asarray(u)[::-1], v, v)[0])
    np.testing.assert_array_equal(f(x), x[1])


def test_several_results_and_none_of_size():
    shapes = (jax.ShapeDtypeStruct((3,), np.float32), jax.ShapeDtypeStruct((0,), np.int32), jax.ShapeDtypeStruct((), bool))
    f = jax.jit(lambda v: jax.pure_callback(lambda u: (np.asarray(u).sum(0), np.zeros(0, np.int32), np.True_), shapes, v))
    sums, none, yes = f(X)
    np.testing.assert_array_equal(sums, X.sum(0))
    assert none.shape == (0,) and bool(yes)


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_vmap(method):
    f = jax.vmap(lambda v: jax.pure_callback(twice, v, v, vmap_method=method))
    np.testing.assert_array_equal(f(X), X * 2)


def test_custom_gradient():
    @jax.custom_vjp
    def sine(v):
        return jax.pure_callback(np.sin, v, v)

    sine.defvjp(lambda v: (sine(v), v), lambda v, g: (g * jax.pure_callback(np.cos, v, v),))
    np.testing.assert_allclose(jax.jit(jax.grad(lambda v: sine(v).sum()))(X), np.cos(X), rtol=1e-6)


@pytest.mark.parametrize("many", ["branch", "loop"])
def test_a_function_of_constants_is_called_where_it_stands(many):
    def raises(v):
        raise ValueError("not asked for")

    def asked(v):
        return jax.pure_callback(raises, jax.ShapeDtypeStruct((), np.float32), jnp.float32(1))

    f = {
        "branch": lambda x: jax.lax.cond(x > 0, asked, lambda v: v, x),
        "loop": lambda x: jax.lax.while_loop(lambda v: v > 0, asked, x),
    }[many]
    assert jax.jit(f)(-1.0) == -1
    with pytest.raises(Exception, match="not asked for"):
        jax.block_until_ready(jax.jit(f)(1.0))


def test_ordered_effects_in_loops_and_branches():
    seen = []

    def turn(carry, i):
        io_callback(lambda i: seen.append(int(i)), None, i, ordered=True)
        jax.lax.cond(i % 2 == 0, lambda: io_callback(lambda: seen.append(-1), None, ordered=True), lambda: None)
        return carry + io_callback(lambda i: np.float32(i) ** 2, jax.ShapeDtypeStruct((), np.float32), i), None

    total, _ = jax.jit(lambda n: jax.lax.scan(turn, n, jnp.arange(4)))(jnp.float32(0))
    jax.effects_barrier()
    assert total == 14 and seen == [0, -1, 1, 2, -1, 3]


def test_ordered_effects_with_results():
    seen = []

    def next_of(i):
        seen.append(int(i))
        return np.int32(i + 1), np.float32(i) / 2

    kinds = jax.ShapeDtypeStruct((), np.int32), jax.ShapeDtypeStruct((), np.float32)

    def twice(i):
        i, _ = io_callback(next_of, kinds, i, ordered=True)
        return io_callback(next_of, kinds, i, ordered=True)

    assert jax.jit(twice)(3) == (5, 2) and seen == [3, 4]


def test_unordered_effect_in_a_branch():
    seen = []
    f = jax.jit(lambda v: jax.lax.cond(v.sum() > 0, lambda: jax.debug.callback(lambda: seen.append(1)), lambda: None))
    f(X), f(-X)
    jax.effects_barrier()
    assert seen == [1]


def test_debug_print(capsys):
    @jax.jit
    def f(v):
        jax.debug.print("first {}", v[0], ordered=True)
        jax.debug.print("sum {s:.1f}", s=v.sum(), ordered=True)
        return v

    f(X)
    jax.effects_barrier()
    assert capsys.readouterr().out == "first [0. 1. 2.]\nsum 15.0\n"


def test_debug_print_is_captured_where_it_is_printed(capfd):
    """One line each, at once where nobody waits but for the result, from loops, vmap and eager calls."""
    f = jax.jit(lambda v: (jax.debug.print("jit {}", v), v)[1])
    f(1).block_until_ready()
    jax.vmap(f)(np.arange(2))
    jax.jit(lambda v: jax.lax.scan(lambda c, _: (jax.debug.print("turn {}", c), (c + 1, None))[1], v, None, 2)[0])(0)
    jax.debug.print("eager {}", jnp.arange(2))
    jax.effects_barrier()
    assert capfd.readouterr().out.split("\n") == ["jit 1", "jit 0", "jit 1", "turn 0", "turn 1", "eager [0 1]", ""]


@pytest.mark.parametrize("function,said", [
    (lambda v: 1 / 0, "ZeroDivisionError: division by zero"),
    (lambda v: 1 / 0, r"(?s)Traceback \(most recent call last\).*test_callbacks.py"),
    (lambda v: np.asarray(v)[0], r"output shape for return value #0: Expected: \(2, 3\), Actual: \(3,\)"),
    (lambda v: np.asarray(v, np.int32), "output dtype for return value #0: Expected: float32, Actual: int32"),
    (lambda v: (v, v), "Mismatched number of outputs from callback. Expected: 1, Actual: 2"),
])  # fmt: skip
def test_errors_reach_the_caller(function, said):
    with pytest.raises(Exception, match=said):
        jax.block_until_ready(jax.jit(lambda v: jax.pure_callback(function, v, v) + 1)(X))
    np.testing.assert_array_equal(jax.jit(lambda v: v + 1)(X), X + 1)


def test_jax_inside_a_callback():
    f = jax.jit(lambda v: jax.pure_callback(lambda u: np.asarray(jnp.sort(u, 1)[:, ::-1]), v, v))
    np.testing.assert_array_equal(f(X), X[:, ::-1])


def test_functions_go_with_their_programs():
    callbacks = pytest.importorskip("trine.jax.callbacks")
    for i in range(20):
        jax.block_until_ready(jax.jit(lambda v, i=i: jax.pure_callback(lambda u: np.asarray(u) + i, v, v))(X))
    gc.collect()
    jax.jit(lambda v: jax.pure_callback(twice, v, v)).lower(X)
    assert len(callbacks.functions.by_number) < 15


def in_fresh_process(code, **env):
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_is_under_way_at_the_end_is_still_printed():
    code = "import jax; jax.jit(lambda v: (jax.debug.print('at last {}', v), v * 2)[1])(3)"
    assert in_fresh_process(code) == "at last 3\n"


MESH = """
import json, jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.sharding.Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("x", "y"))
x = np.arange(32, dtype=np.float32).reshape(8, 4)
a = jax.device_put(x, NamedSharding(mesh, P("x", "y")))
calls = []
def host(v):
    calls.append(list(v.shape))
    return np.asarray(v) * 2
np.testing.assert_array_equal(jax.jit(lambda a: jax.pure_callback(host, a, a + 1).sum(0))(a), (x + 1).sum(0) * 2)
def each(v):
    jax.debug.callback(lambda i, v: calls.append([int(i), *v.shape]), jax.lax.axis_index("x"), v)
    return v
jax.jit(jax.shard_map(each, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y")))(a)
jax.effects_barrier()
parts = []
jax.jit(lambda a: jax.debug.callback(lambda v: parts.append([*v.shape, float(v.sum())]), a, partitioned=True))(a)
jax.effects_barrier()
assert sorted(parts) == sorted([2, 2, float(s.data.sum())] for s in a.addressable_shards)
print(json.dumps(calls[:1] + sorted(calls[1:])))
"""


def test_once_for_the_whole_and_once_on_each_device_of_a_shard_map():
    seen = json.loads(in_fresh_process(MESH, TRINE_INSTANCE="trn1.32xlarge"))
    assert seen == [[8, 4]] + [[i, 2, 2] for i in range(4) for _ in range(2)]


ENDS = """
import atexit, time
import jax, jax.numpy as jnp
log = []
atexit.register(lambda: print(*log))  # between ours, of the plugin, and JAX's own, of its import

def slow(x):
    log.append("in")
    time.sleep(0.3)
    log.append("out")
    return x

y = jax.jit(lambda x: jax.pure_callback(slow, x, x @ x))(jnp.ones((900, 900)))  # too long for the caller's thread
while not log:
    time.sleep(0.001)
"""


def test_a_call_ends_before_python_does():
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "in out\n"), done.stderr


def test_a_buffer_callback_writes_in_place():
    from jax.experimental.buffer_callback import buffer_callback

    def f(context, out, x, *, by):
        assert out.writeable and not x.writeable and (x.shape, x.dtype) == ((3,), np.float32)
        np.asarray(out)[...] = np.asarray(x) * np.from_dlpack(by)

    kind = jax.ShapeDtypeStruct((3,), np.float32)
    g = buffer_callback(f, kind, vmap_method="sequential")
    np.testing.assert_array_equal(jax.jit(g)(X[0], by=X[1]), X[0] * X[1])
    np.testing.assert_array_equal(jax.vmap(lambda v: g(v, by=v))(X), X * X)

    def add_one(context, out, x):
        np.asarray(out)[...] += 1

    np.testing.assert_array_equal(buffer_callback(add_one, kind, input_output_aliases={0: 0})(X[0]), X[0] + 1)
    with pytest.raises(Exception, match="must not return any values"):
        jax.block_until_ready(buffer_callback(lambda context, out, x: 1, kind)(X[0]))


CACHED = """
import os, sys, jax, numpy as np
f = jax.jit(lambda v: jax.pure_callback(lambda u: np.asarray(u) + 1, v, v))
assert float(f(np.float32(1))) == 2 and float(jax.jit(lambda v: v * 3)(np.float32(1))) == 3
print(sum("-cache" in name for name in os.listdir(sys.argv[1])))
"""


def test_a_program_with_a_host_function_is_not_kept(tmp_path):
    env = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}  # fmt: skip
    done = subprocess.run([sys.executable, "-c", CACHED, str(tmp_path)], env=env, capture_output=True, text=True,
                          timeout=120)  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
