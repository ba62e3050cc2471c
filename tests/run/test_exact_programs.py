"""Whole programs on the exact driver, each held to a NumPy statement of what it computes, on every chip that runs it."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from trine import _core

HERE = Path(__file__).parent
CHIPS = ["trn1", "inf2", "trn2", "trn3", "trn4"]


def values(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def run(name, chip, inputs):
    program = _core.Program.load(str(HERE / f"{name}.tasm"))
    problems = program.verify(chip)
    if any("needs `" in p or "joins at most" in p for p in problems):
        pytest.skip(problems[0])
    assert not problems
    result = program.run(inputs, chip=chip)
    assert result.finished and [str(f) for f in result.findings] == []
    return result.outputs["out"]


@pytest.mark.parametrize("chip", CHIPS)
def test_tile_add(chip):
    a, b = values((128, 512)), values((128, 512), seed=1)
    np.testing.assert_array_equal(run("tile_add", chip, {"a": a, "b": b}), a + b)


@pytest.mark.parametrize("chip", CHIPS)
def test_tiled_matmul(chip):
    a, b = values((384, 256), ml_dtypes.bfloat16), values((384, 1024), ml_dtypes.bfloat16, 1)
    expected = a.astype(np.float64).T @ b.astype(np.float64)
    np.testing.assert_allclose(run("tiled_matmul", chip, {"aT": a, "b": b}), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("chip", CHIPS)
def test_double_buffer(chip):
    a = values((8, 128, 256))
    np.testing.assert_array_equal(run("double_buffer", chip, {"a": a}), a * np.float32(3) + np.float32(1))


@pytest.mark.parametrize("chip", CHIPS)
def test_gather(chip):
    table = values((1000, 64), ml_dtypes.bfloat16)
    index = np.random.default_rng(2).integers(0, 1000, (256, 1)).astype(np.int32)
    np.testing.assert_array_equal(run("gather", chip, {"table": table, "index": index}), table[index[:, 0]])


@pytest.mark.parametrize("chip", CHIPS)
def test_two_cores(chip):
    a, b = values((128, 512)), values((128, 512), seed=1)
    np.testing.assert_array_equal(run("two_cores", chip, {"a": a, "b": b}), a + b)


@pytest.mark.parametrize("name", ["tiled_matmul", "double_buffer", "gather", "two_cores"])
def test_every_wait_is_needed(name):
    """Taking any one wait away makes a finding: none of these programs waits for nothing, and no race goes unseen."""
    text = (HERE / f"{name}.tasm").read_text()
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if " wait " not in line:
            continue
        before, clause = line.split(" wait ")
        after = clause[clause.index(" then ") :] if " then " in clause else ""
        program = _core.assemble("\n".join(lines[:i] + [before + after] + lines[i + 1 :]))
        result = program.run({t["name"]: zeros(t) for t in program.tensors if t["kind"] == "input"})
        assert any(f.kind in ("race", "uninitialized-read") for f in result.findings), line


def zeros(tensor):
    dtype = {"bf16": ml_dtypes.bfloat16, "f32": np.float32, "s32": np.int32}[tensor["dtype"]]
    return np.zeros(tensor["shape"], dtype)
