"""The matmul programs: the stored full-size ones are what the example writes, and small ones give the right values."""

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))
import matmul  # noqa: E402

from trine import _core  # noqa: E402

FULL = (4096, 8192, 8192)


@pytest.mark.parametrize("variant", matmul.VARIANTS)
def test_stored_program_is_what_the_example_writes(variant):
    how = {"issuer": "gpsimd", "dge": "swdge"} if variant == "tiled" else {}
    stored = ROOT / f"src/run/accuracy/matmul_{variant}.tasm"
    assert stored.read_text() == matmul.VARIANTS[variant](*FULL, **how)


@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("variant", matmul.VARIANTS)
def test_values(variant, dtype, chip):
    m, n, k = 512, 2048, 4096
    rng = np.random.default_rng(1)
    kind = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}[dtype]
    lhsT = rng.standard_normal((k, m)).astype(kind)
    rhs = rng.standard_normal((k, n)).astype(kind)
    program = _core.assemble(matmul.VARIANTS[variant](m, n, k, dtype=dtype))
    result = program.run({"lhsT": lhsT, "rhs": rhs}, chip=chip)
    assert result.findings == []
    expected = lhsT.astype(np.float64).T @ rhs.astype(np.float64)
    # f32 sums of k products: the error grows like the root of k times an ulp of the terms
    np.testing.assert_allclose(result.outputs["out"], expected, atol=2e-3)
