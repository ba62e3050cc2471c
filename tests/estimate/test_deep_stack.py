"""A program traced deep in a caller's stack: JAX keeps a hundred frames for each op, and all of them are read."""

import pytest

jax = pytest.importorskip("jax")


def test_all_frames_of_an_op_are_read():
    from trine import _core, models
    from trine.estimate.lowering import stablehlo

    model = models.build("bert-base")
    shapes = jax.eval_shape(model.init, jax.random.key(0)), {"tokens": jax.ShapeDtypeStruct((1, 8), jax.numpy.int32)}

    def called(times):
        return called(times - 1) if times else stablehlo(model.forward, *shapes, lines=True)

    assert _core.compile_device(called(150), "trn1", "none", "bf16", [])
