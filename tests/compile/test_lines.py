"""Convolutions over lines: one that does not fit on the chip is read once, not once for each tap."""

import jax
import jax.numpy as jnp
import pytest

from trine import _core
from trine.estimate.lowering import stablehlo


@pytest.mark.parametrize("taps, stride", [(3, 1), (3, 2)])
def test_a_long_line_is_read_once(taps, stride, length=22399, channels=512):
    def convolved(w, x):
        return jax.lax.conv_general_dilated(x, w, (stride,), ((0, 0),), dimension_numbers=("NWC", "WIO", "NWC"))

    shapes = jax.ShapeDtypeStruct((taps, channels, channels), jnp.bfloat16), jax.ShapeDtypeStruct((1, length, channels), jnp.bfloat16)
    compiled = _core.compile_device(stablehlo(convolved, *shapes, donated=(), lines=False), "trn1", "none", "bf16", [0])
    report = _core.time(compiled.program, "trn1.2xlarge").report()
    given = 2 * channels * (length + taps * channels)
    assert given <= report["hbm_read_bytes"] < 1.1 * given
