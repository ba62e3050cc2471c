"""jax.experimental.buffer_callback: a host function that writes its results where they lie.

The memory of a virtual NeuronCore is the host's, so a buffer is an array of NumPy's as on JAX's CPU.
"""

import numpy as np
from jax._src import buffer_callback, tree_util
from jax._src.interpreters import mlir
from jax._src.lib import ffi

from trine.jax import callbacks


class Context:
    """What JAX's ExecutionContext says, of a device without streams."""

    stage = ffi.ExecutionStage.EXECUTE

    @property
    def stream(self):
        raise RuntimeError("a virtual NeuronCore has no stream")


class Buffer:
    def __init__(self, array, writeable):
        self._array, self.writeable = array, writeable
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim
        array.flags.writeable = writeable

    def __array__(self, dtype=None, copy=None):
        if dtype is not None and np.dtype(dtype) != self.dtype:
            if copy is False:
                raise ValueError("a buffer of another dtype is a copy")
            return self._array.astype(dtype)
        return self._array.copy() if copy else self._array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def lower(ctx, *args, callback, in_tree, out_tree, has_side_effect, input_output_aliases, **_):
    def function(inputs, outputs):
        given = [t.array() for t in inputs]
        wanted = [t.array() for t in outputs[: out_tree.num_leaves]]
        for i, o in input_output_aliases:
            wanted[o][...] = given[i]
        args_in, options = tree_util.tree_unflatten(in_tree, [Buffer(a, False) for a in given])
        out = tree_util.tree_unflatten(out_tree, [Buffer(a, True) for a in wanted])
        if callback(Context(), out, *args_in, **options) is not None:
            raise ValueError("buffer_callback callback must not return any values.")

    results, _ = callbacks.emit(ctx, function, None, list(args), ctx.avals_out, has_side_effect=has_side_effect)
    return results


def register(platform: str) -> None:
    mlir.register_lowering(buffer_callback.buffer_callback_p, lower, platform=platform, cacheable=False)
