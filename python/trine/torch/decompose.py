"""Which ATen ops are taken apart before the emitter sees them: those of torch's core table without a row."""

import functools

import torch

from trine.torch import fused
from trine.torch.emit import overload_name
from trine.torch.rows import ROWS

# core's table keeps these; torch's own decompositions for them are what we want
EXTRA = (
    "aten.addcmul_ aten.native_batch_norm aten.batch_norm_backward aten._native_batch_norm_legit "
    "aten.elu_backward aten.std aten.std_mean aten.logsumexp aten.xlogy aten.logit aten.linalg_cross "
    "aten.index_reduce aten.upsample_bilinear2d aten.upsample_linear1d aten.upsample_bicubic2d aten.nansum "
    "aten.grid_sampler_2d aten._fused_rms_norm_backward"
).split()


TAKEN_APART = {}  # the user's own ops made of NKI kernels -> their functions; see kernels.nki_op


@functools.lru_cache(maxsize=None)
def table():
    """For AOTAutograd and make_fx: overload -> decomposition."""
    from torch._decomp import core_aten_decompositions, decomposition_table

    out = {}
    for op, function in core_aten_decompositions().items():
        if not isinstance(op, torch._ops.OpOverload) or overload_name(op) not in ROWS:
            out[op] = function
    for op, function in decomposition_table.items():
        if isinstance(op, torch._ops.OpOverload) and op not in out and overload_name(op) not in ROWS:
            if f"{op._schema.name.replace('::', '.')}" in EXTRA:
                out[op] = function
    return {**out, **fused.TABLE, **TAKEN_APART}
