"""Weights so deep that a panel of them has few columns: how they lie in memory. Values are those of a simulated chip."""

import ml_dtypes
import numpy as np
import pytest

from trine import _core
from trine.exact import Exact


def numbers(*shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("columns", [416, 300, 512])
def test_narrow_panels_lie_one_after_the_other(columns):
    """Of 16,384 rows a panel has room for fewer than 256 columns, which came in as many short rows of the whole weight's."""
    x, w, v = numbers(1, 16384, seed=1), numbers(16384, columns, seed=2), numbers(columns, 64, seed=3)

    def f(w, v, x):
        return (x @ w) @ v

    made = Exact(f, w, v, x, chip="trn2", weights=(0, 1))
    between = (x.astype(np.float32) @ w.astype(np.float32)).astype(ml_dtypes.bfloat16)
    want = between.astype(np.float32) @ v.astype(np.float32)
    assert np.abs(np.asarray(made(w, v, x), np.float32) - want).max() < 0.02 * np.abs(want).max()
    report = _core.time(made.program, "trn2.3xlarge").report()
    assert report["engines"]["dma"]["busy_ns"] < 1.3 * w.nbytes / 360  # bytes a ns of 16 engines; 1.5 times in short rows

