"""Arrays that do not lie row-major: put, computed with, asked for, given away, moved and saved; tiles are refused."""

import itertools
import pickle

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.experimental import serialize_executable
from jax.experimental.layout import Format, Layout, with_layout_constraint
from jax.sharding import AxisType, NamedSharding, PartitionSpec, SingleDeviceSharding

SHAPE = (3, 4, 5)
ORDERS = list(itertools.permutations(range(3)))


def here(*order):
    return Format(Layout(order), SingleDeviceSharding(jax.devices()[0]))


def order(x):
    return x.format.layout.major_to_minor


def same(a, b):
    np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex64, ml_dtypes.bfloat16, ml_dtypes.int4])
@pytest.mark.parametrize("major_to_minor", ORDERS)
def test_an_array_lies_as_it_is_put(dtype, major_to_minor):
    host = np.random.default_rng(0).integers(-3, 4, SHAPE).astype(dtype)
    x = jax.device_put(host, here(*major_to_minor))
    assert order(x) == major_to_minor
    same(x, host)
    same(x[1], host[1])
    same(x + x, host + host)
    same(jax.device_put(x, jax.devices()[1]), host)
    same(jax.device_put(host.transpose(2, 0, 1), here(*major_to_minor)), host.transpose(2, 0, 1))
    same(np.from_dlpack(x) if dtype in (np.float32, np.int8) else x, host)
    same(pickle.loads(pickle.dumps(x)), host)


@pytest.mark.parametrize("wanted", ORDERS)
def test_programs_take_and_give_layouts(wanted):
    host = np.arange(60.0, dtype=np.float32).reshape(SHAPE)
    f = jax.jit(lambda v: v * 2 + v[::-1], in_shardings=here(2, 0, 1), out_shardings=here(*wanted))
    x = jax.device_put(host, here(2, 0, 1))
    for argument in (x, host):  # JAX lays a host array as the program wants it
        y = f(argument)
        assert order(y) == wanted
        same(y, host * 2 + host[::-1])
    moved = jax.device_put(x, here(*wanted))
    assert order(moved) == wanted
    same(moved, host)
    compiled = f.lower(x).compile()
    assert compiled.input_formats[0][0].layout.major_to_minor == (2, 0, 1)
    assert compiled.output_formats.layout.major_to_minor == wanted
    again = serialize_executable.deserialize_and_load(
        *serialize_executable.serialize(compiled), execution_devices=jax.devices()[:1]
    )
    same(again(x), host * 2 + host[::-1])
    assert order(again(x)) == wanted


def test_one_function_called_with_several_layouts():
    host = np.arange(16.0, dtype=np.float32).reshape(4, 4)
    f = jax.jit(lambda v: v @ v.T - v)
    x, y = jax.device_put(host, here(1, 0)), jax.device_put(host, here(0, 1))
    for _ in range(3):
        same(f(x), host @ host.T - host)
        same(f(y), host @ host.T - host)
    compiled = jax.jit(lambda v: v + 1, in_shardings=here(1, 0)).lower(x).compile()
    with pytest.raises(ValueError, match="disagree with the layouts"):
        compiled(y)


def test_the_choice_left_to_us_is_row_major():
    f = jax.jit(lambda v, w: v @ w, in_shardings=Format(Layout.AUTO), out_shardings=Format(Layout.AUTO))
    compiled = f.lower(jax.ShapeDtypeStruct((3, 4), jnp.float32), jax.ShapeDtypeStruct((4, 5), jnp.float32)).compile()
    assert [a.layout.major_to_minor for a in compiled.input_formats[0]] == [(0, 1), (0, 1)]
    assert compiled.output_formats.layout.major_to_minor == (0, 1)
    constrained = jax.jit(lambda v: with_layout_constraint(v * 2, Layout((1, 0))))(np.ones((2, 3), np.float32))
    assert order(constrained) == (1, 0)


@pytest.mark.parametrize("out", [(0, 1), (1, 0)])
def test_donated(out):
    host = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    x = jax.device_put(host, here(1, 0))
    y = jax.jit(lambda v: v * 2, donate_argnums=0, in_shardings=here(1, 0), out_shardings=here(*out))(x)
    assert x.is_deleted()
    same(y, host * 2)


def test_over_a_mesh():
    mesh = jax.make_mesh((2,), ("x",), axis_types=(AxisType.Auto,))
    rows, columns = (NamedSharding(mesh, PartitionSpec(*spec)) for spec in (("x", None), (None, "x")))
    host = np.arange(32.0, dtype=np.float32).reshape(4, 8)
    x = jax.device_put(host, Format(Layout((1, 0)), rows))
    f = jax.jit(lambda v: v @ v.T + 1, in_shardings=Format(Layout((1, 0)), rows),
                out_shardings=Format(Layout((1, 0)), columns))  # fmt: skip
    same(f(x), host @ host.T + 1)
    assert order(f(x)) == (1, 0) and f(x).sharding == columns
    assert f.lower(x).compile().input_formats[0][0].layout.major_to_minor == (1, 0)


def test_what_cannot_be_is_said():
    tiled = Format(Layout((1, 0), tiling=((8, 128),)), SingleDeviceSharding(jax.devices()[0]))
    x = np.ones((3, 4), np.float32)
    with pytest.raises(jax.errors.JaxRuntimeError, match="no tiles"):
        jax.device_put(x, tiled)
    with pytest.raises(jax.errors.JaxRuntimeError, match="no tiles"):
        jax.jit(lambda v: v, out_shardings=tiled)(x)
    with pytest.raises(jax.errors.JaxRuntimeError, match="each of 2 dims once"):
        jax.device_put(x, here(0, 0))
