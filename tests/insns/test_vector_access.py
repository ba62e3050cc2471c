"""Addresses that move: loops, registers, free gathers, and what a masked copy leaves alone."""

import numpy as np
from trine import _core


def run(body: str, chip: str = "trn2", **inputs):
    """Programs over x (hbm in), y (hbm out) and on-chip tiles a, b; loads a, runs the vector stream, stores b."""
    x = next(iter(inputs.values()))
    shape = f"f32[{x.shape[0]},{x.shape[1]}]"
    text = f"""program access
tensor x hbm {shape} input
tensor y hbm {shape} output
tensor a sbuf {shape}
tensor b sbuf {shape}
tensor k sbuf u8[{x.shape[0]},{x.shape[1]}]
stream sync
  dma_copy dst=a src=x queue=0 then s0+=16
  dma_copy dst=y src=b queue=0 wait s1>=1
stream vector
  semaphore_wait wait s0>=16
{body}
  memset dst=k value=0 then s1+=1
"""
    return _core.assemble(text).run(inputs, chip=chip)


def test_a_loop_steps_both_operands():
    x = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)
    r = run("  loop 4\n    tensor_scalar dst=b[0:128, 48-16*i0, 16@1] data=a[0:128, 16*i0, 16@1] op0=add operand0=1\n  end_loop", x=x)
    assert not r.findings, r.findings
    want = np.concatenate([x[:, 16 * (3 - i) : 16 * (4 - i)] for i in range(4)], axis=1) + 1
    np.testing.assert_array_equal(r.outputs["y"], want)


def test_a_register_moves_the_source():
    x = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)
    body = "  register_move dst=r3 src=5\n  tensor_copy dst=b src=a\n  tensor_copy dst=b[0:128, 0, 8@1] src=a[0:128, 2+r3*4, 8@1]"
    r = run(body, x=x)
    assert not r.findings, r.findings
    want = x.copy()
    want[:, :8] = x[:, 22:30]
    np.testing.assert_array_equal(r.outputs["y"], want)


def test_a_register_past_the_tensor_is_a_finding():
    x = np.zeros((128, 64), np.float32)
    body = "  register_move dst=r3 src=60\n  tensor_copy dst=b src=a\n  tensor_copy dst=b[0:128, 0, 8@1] src=a[0:128, r3*1, 8@1]"
    r = run(body, x=x)
    assert [f.kind for f in r.findings] == ["out-of-bounds"]
    assert r.findings[0].operand == "src"


def test_a_masked_copy_writes_nothing_else():
    """b is written where the predicate is true only, so storing all of it reads what nobody wrote."""
    x = np.ones((128, 64), np.float32)
    body = "  memset dst=k value=1\n  memset dst=k[0:128, 9, 3@1] value=0\n  tensor_copy_predicated dst=b src=a predicate=k"
    r = run(body, x=x)
    assert [f.kind for f in r.findings] == ["uninitialized-read"]
    whole = run(body.replace("  memset dst=k[0:128, 9, 3@1] value=0\n", ""), x=x)
    assert not whole.findings
    np.testing.assert_array_equal(whole.outputs["y"], x)


def test_an_index_tile_gathers_along_the_free_dimension():
    """v4: group i of a row starts at index[i mod 16, i div 16]."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(128, 64)).astype(np.float32)
    index = rng.integers(0, 60, (16, 1)).astype(np.uint32)
    text = """program gather
tensor x hbm f32[128,64] input
tensor i hbm u32[16,1] input
tensor y hbm f32[128,64] output
tensor a sbuf f32[128,64]
tensor b sbuf f32[128,64]
tensor j sbuf u32[16,1]
stream sync
  dma_copy dst=a src=x queue=0 then s0+=16
  dma_copy dst=j src=i queue=0 then s0+=16
  dma_copy dst=y src=b queue=0 wait s1>=1
stream vector
  tensor_scalar dst=b data=a[0:128, 0, 64@1, free j[0:16, 0, 1@1]*1] op0=multiply operand0=2 wait s0>=32 then s1+=1
"""
    r = _core.assemble(text).run({"x": x, "i": index}, chip="trn3")
    assert not r.findings, r.findings
    want = np.concatenate([x[:, at : at + 4] for at in index[:, 0]], axis=1) * 2
    np.testing.assert_array_equal(r.outputs["y"], want)
