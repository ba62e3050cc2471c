"""Every op's own cases, on the device and natively: they agree, or the op stays on the host and says why."""

import re

import pytest

from ops import device
from trine import _core

# Formats that a chip lacks are refused by name, as Neuron's compiler does, where no op of their own stands for them.
LACKS = re.compile("error NCC_E(VRF00[45]|VRF051|SPP0|SFH002)")


def failures(chip, every):
    outcomes = [o for op in _core.op_names() for o in device.sweep(op, chip, every)]
    agreed = sum(o.kind == "agrees" for o in outcomes)
    return agreed, [o for o in outcomes if o.kind == "differs" or (o.kind == "refused" and not LACKS.search(o.why))]


@pytest.mark.parametrize("chip", ["trn1", pytest.param("trn2", marks=pytest.mark.slow), pytest.param("trn3", marks=pytest.mark.slow), "small"])
def test_ops_agree_or_stay_on_the_host(chip):
    agreed, bad = failures(chip, False)
    assert not bad
    assert agreed >= 550


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["trn2", "small"])
def test_ops_of_every_dtype_agree_or_stay_on_the_host(chip):
    agreed, bad = failures(chip, True)
    assert not bad
    assert agreed >= 1200
