"""Ops reach a JAX program by name: a composite `chlo.NAME` is the op of that name, whatever its body says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trine import _core

UNARY = [op["name"] for op in _core.ops_abroad() if op["inputs"] == 1 and op["torch"]]


@pytest.mark.parametrize("name", UNARY)
def test_a_composite_is_the_op_of_its_name(name):
    x = np.linspace(0.05, 0.95, 24, dtype=np.float32).reshape(4, 6)
    f = jax.jit(jax.lax.composite(lambda x: x * 0 - 7, name=f"chlo.{name}"))
    got = np.asarray(f(jax.device_put(jnp.asarray(x), jax.devices("neuron")[0])))
    graph = f'graph "g" (%0: f32[4,6]) {{\n  %1 = {name} %0 : f32[4,6]\n  return %1\n}}'
    [(_, _, raw)] = _core.evaluate(graph, [x.reshape(-1).view(np.uint8)])
    np.testing.assert_allclose(got, np.frombuffer(raw, np.float32).reshape(4, 6), rtol=2e-6, atol=1e-7)
