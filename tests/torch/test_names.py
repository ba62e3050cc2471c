"""Ops that torch has too, by the torch column of src/ops/*.cpp: the row of each overload against torch's CPU."""

import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(pathlib.Path(__file__).parent))
pytest.importorskip("expecttest")

import differ  # noqa: E402

from trine import _core  # noqa: E402

NAMED = [(op["name"], overload) for op in _core.ops_abroad() for overload in op["torch"].split()]


def data(argument, dtype, index):
    if "Tensor" not in str(argument.type):
        return 2
    shape = (5, 1, 4) if index else (3, 1)  # broadcast against each other
    values = torch.linspace(0.05, 0.95, 20 if index else 3)
    return (values if dtype.is_floating_point else values * 10 + 1).reshape(shape).to(dtype)


@pytest.mark.parametrize("op, overload", NAMED)
def test_a_name_of_torch_is_the_op(op, overload):
    base, _, form = overload.partition(".")
    target = getattr(getattr(torch.ops.aten, base), form or "default")
    taken = 0
    for dtype in (torch.float32, torch.bfloat16, torch.int32, torch.bool):
        args = [data(a, dtype, i) for i, a in enumerate(target._schema.arguments)]
        try:
            want = target(*args)
        except (RuntimeError, NotImplementedError):  # torch has it of other dtypes alone
            continue
        got = differ.run_row(f"{base}.{form or 'default'}", target, args, {}, want)[0]
        assert differ.differences(got, want) is None, (op, dtype, differ.differences(got, want))
        taken += 1
    assert taken
