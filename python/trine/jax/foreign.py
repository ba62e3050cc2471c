"""jax.ffi: handlers that were registered for the host run there, on copies; none can be registered for this platform."""

import jax
import numpy as np
from jax._src import ffi
from jax._src.interpreters import mlir

from trine.jax import callbacks


def lower(ctx, *operands, **params):
    @jax.jit
    def call(*args):
        return ffi.ffi_call_p.bind(*args, **params)

    def on_host(*args):
        with jax.default_device(jax.devices("cpu")[0]):
            return [np.asarray(r) for r in call(*args)]

    function = callbacks.Function(on_host, ctx.avals_out, False)
    results, _ = callbacks.emit(ctx, function, None, list(operands), ctx.avals_out,
                                has_side_effect=params["has_side_effect"])  # fmt: skip
    return results


def register(platform: str) -> None:
    mlir.register_lowering(ffi.ffi_call_p, lower, platform=platform, cacheable=False)
