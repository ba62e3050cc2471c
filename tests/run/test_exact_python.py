"""Programs from Python: arrays in and out, errors about arguments, what a finding tells."""

import ml_dtypes
import numpy as np
import pytest
from trine import _core

COPY = """program copy
chip trn2
tensor a   hbm  {dtype}[128,64] input
tensor out hbm  {dtype}[128,64] output
tensor t   sbuf {dtype}[128,64] at 0:0
stream sync
  dma_copy dst=t src=a queue=0 then s0+=16 at kernel.py:3
  dma_copy dst=out src=t queue=1 {wait} at kernel.py:4
"""


def copy_program(dtype="f32", wait="wait s0>=16"):
    return _core.assemble(COPY.format(dtype=dtype, wait=wait))


@pytest.mark.parametrize(
    "ours, numpy",
    [("f32", np.float32), ("bf16", ml_dtypes.bfloat16), ("f8e5m2", ml_dtypes.float8_e5m2), ("s16", np.int16)],
)
def test_arrays_keep_dtype_and_shape(ours, numpy):
    a = np.arange(128 * 64).reshape(128, 64).astype(numpy)
    r = copy_program(ours).run({"a": a})
    assert r.finished and not r.findings
    assert r.outputs["out"].dtype == np.dtype(numpy) and r.outputs["out"].shape == (128, 64)
    assert r.outputs["out"].tobytes() == a.tobytes()


def test_a_ready_program_runs_again_and_again():
    a = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)
    ready = copy_program().ready("trn2")
    for turn in range(3):
        assert ready.run({"a": a + turn}).outputs["out"].tobytes() == (a + turn).tobytes()
        assert ready.settled
    racing = copy_program(wait="").ready("trn2")
    for turn in range(3):
        assert [f.kind for f in racing.run({"a": a}).findings] == [f.kind for f in copy_program(wait="").run({"a": a}).findings] != []


def test_raw_bytes_pass_for_any_dtype():
    raw = np.arange(128 * 64 * 2, dtype=np.uint8)
    assert copy_program("bf16").run({"a": raw}).outputs["out"].tobytes() == raw.tobytes()
    assert copy_program("bf16").run({"a": raw.tobytes()}).outputs["out"].tobytes() == raw.tobytes()


@pytest.mark.parametrize("of", [lambda a: a.T.copy().T, lambda a: np.repeat(a, 2, 1)[:, ::2], memoryview])
def test_arrays_that_lie_otherwise_are_taken_by_value(of):
    a = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)
    assert copy_program().run({"a": of(a)}).outputs["out"].tobytes() == a.tobytes()


def test_a_program_keeps_what_was_made_ready():
    program, a = copy_program(), np.ones((128, 64), np.float32)
    for turn in range(3):
        assert program.run({"a": a * turn}).outputs["out"][5, 5] == turn
    with pytest.raises(ValueError, match="trn9"):
        program.run({"a": a}, chip="trn9")
    assert program.run({"a": a}, chip="trn3").outputs["out"][0, 0] == 1


def test_arguments_are_checked():
    a = np.zeros((128, 64), np.float64)
    with pytest.raises(ValueError, match=r"input a is float64 of 8192 elements; expected f32\[128,64\]"):
        copy_program().run({"a": a})
    with pytest.raises(ValueError, match="input a is missing"):
        copy_program().run({})
    with pytest.raises(ValueError, match="trn9"):
        copy_program().run({"a": a.astype(np.float32)}, chip="trn9")


def test_a_finding_names_instruction_and_source():
    (f,) = copy_program(wait="").run({"a": np.zeros((128, 64), np.float32)}).findings
    assert (f.kind, f.stream, f.index, f.operand) == ("race", "sync", 1, "src")
    assert (f.file, f.line) == ("kernel.py", 4)
    assert "dma_copy dst=out src=t" in f.instruction
    assert "sync's dma_copy #0 (kernel.py:3) may still be writing it" in f.message
    assert "  found  " in str(f) and "  try  " in str(f)
