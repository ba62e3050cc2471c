"""nki.isa of the functional dialect: each call returns its result tile; masks cut the region it works on.

Signatures as SDK 2.26 documents them; the instructions are those of trine.nki.isa.
"""

import numpy as np

from neuronxcc.nki.affine import Index, Mask
from neuronxcc.nki.tile import Tile, allocate, masked
from trine.nki import create, dtypes, elementwise, isa_compute, isa_move
from trine.nki.isa_compute import FP32_MIN, get_nc_version
from trine.nki.isa_enums import dge_mode, engine, nc_version, oob_mode, reduce_cmd
from trine.nki.tensor import PSUM, SBUF, NkiTensor, as_dtype
from trine.nki.trace import error, missing

tensor_engine, vector_engine, scalar_engine = engine.tensor, engine.vector, engine.scalar
gpsimd_engine, unknown_engine, dma_engine = engine.gpsimd, engine.unknown, engine.dma
F32 = elementwise.F32


class fp32:
    min = FP32_MIN
    max = -FP32_MIN


def new(shape, dtype, otherwise, buffer=SBUF):
    """A fresh result tile; dtype None is what the call has by default."""
    return Tile.of(create.ndarray(shape, as_dtype(dtype) if dtype is not None else otherwise, buffer))


def run(f, dst, mask, operands, **rest):
    """f(dst=…, operands…, rest…) on the part of the tiles that the mask leaves; returns the whole dst."""
    names = list(operands)
    cut = masked(dst.shape, mask, dst, *(operands[n] for n in names))
    if cut is not None:
        f(dst=cut[0], **dict(zip(names, cut[1:])), **rest)
    return dst


def fit(*tiles):
    """Tiles of one shape: what has 1 in a dimension is repeated there, partitions included."""
    shape = tuple(max(sizes) for sizes in zip(*(t.shape for t in tiles)))
    out = []
    for t in tiles:
        if t.shape[0] == 1 and shape[0] > 1:
            t = t.broadcast_to((shape[0],) + t.shape[1:])
        for d in range(1, t.ndim):
            if t.shape[d] == 1 and shape[d] > 1:
                t = t.broadcast(d, shape[d])
        out.append(t)
    return out


def column(operand, data):
    """A scalar operand as an engine takes it: a number, or one f32 value per partition."""
    if not isinstance(operand, NkiTensor):
        return operand
    if operand.shape[0] == 1 and data.shape[0] > 1:
        operand = operand.broadcast_to((data.shape[0],) + operand.shape[1:])
    return operand if operand.dtype is F32 else Tile.of(elementwise.copy(operand, F32))


def activation(op, data, *, bias=None, scale=1.0, reduce_op=None, reduce_res=None, reduce_cmd=reduce_cmd.idle, mask=None,
               dtype=None, **_):  # fmt: skip
    dst = new(data.shape, dtype, data.dtype)
    operands = {"data": data, "bias": bias, "scale": column(scale, data), "reduce_res": reduce_res}
    return run(isa_compute.activation, dst, mask, operands, op=op, reduce_op=reduce_op, reduce_cmd=reduce_cmd)


def activation_reduce(op, data, *, reduce_op, reduce_res, bias=None, scale=1.0, mask=None, dtype=None, **_):
    dst = new(data.shape, dtype, data.dtype)
    operands = {"data": data, "bias": bias, "scale": column(scale, data), "reduce_res": reduce_res}
    return run(isa_compute.activation_reduce, dst, mask, operands, op=op, reduce_op=reduce_op)


def affine_pattern(index, shape):
    """(pattern, offset, channel_multiplier) of an index expression over a tile."""
    index = index.padded(len(shape))
    pattern = [[c, n] for c, n in zip(index.coefs[1:], shape[1:])] or [[0, 1]]
    return pattern, index.const, index.coefs[0]


def affine_select(pred, on_true_tile, on_false_value, *, mask=None, dtype=None, **_):
    if not isinstance(pred, Mask) or len(pred.parts) > 2:
        raise error("NKI003", f"pred={pred!r}", "one comparison of index expressions")
    dst = new(on_true_tile.shape, dtype, on_true_tile.dtype)
    pattern, offset, channel = affine_pattern(pred.parts[0], on_true_tile.shape)
    compare = "equal" if len(pred.parts) == 2 else "greater_equal"
    source = Tile.of(elementwise.to_sbuf(on_true_tile))
    return run(isa_move.affine_select, dst, mask, {"on_true_tile": source}, pattern=pattern, channel_multiplier=channel,
               on_false_value=on_false_value, cmp_op=compare, offset=offset)  # fmt: skip


def iota(expr, dtype, *, mask=None, **_):
    if not isinstance(expr, Index):
        raise error("NKI003", f"expr={expr!r}", "an index expression of nl.arange")
    shape = expr.shape if expr.ndim > 1 else (1,) + expr.shape
    dst = new(shape, dtype, None)
    pattern, offset, channel = affine_pattern(expr, shape)
    isa_move.iota(dst, pattern, offset, channel)
    return dst


def bn_stats(data, *, mask=None, dtype=None, **_):
    (data,) = masked(data.shape, mask, data)
    dst = new((data.shape[0], 6), dtype, F32)
    isa_compute.bn_stats(dst, data)
    return dst


def bn_aggr(data, *, mask=None, dtype=None, **_):
    (data,) = masked(data.shape, mask, data)
    dst = new((data.shape[0], 2), dtype, F32)
    isa_compute.bn_aggr(dst, data)
    return dst


def dma_copy(*, dst, src, mask=None, dst_rmw_op=None, oob_mode=oob_mode.error, dge_mode=dge_mode.unknown, **_):
    cut = masked(dst.shape, mask, dst, src)
    if cut is None:
        return
    dst, src = cut
    if dst_rmw_op is None:
        isa_move.dma_copy(dst, src, oob_mode=oob_mode, dge_mode=dge_mode)
    else:
        isa_move.dma_compute(dst, [dst, src], dst_rmw_op, oob_mode=oob_mode)


def dma_transpose(src, *, axes=None, mask=None, dtype=None, dge_mode=dge_mode.unknown, **_):
    order = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}[src.ndim]
    dst = new([src.shape[a] for a in order], dtype, src.dtype)
    isa_move.dma_transpose(dst, src, axes=axes, dge_mode=dge_mode)
    return dst


def dropout(data, prob, *, mask=None, dtype=None, **_):
    return run(isa_compute.dropout, new(data.shape, dtype, data.dtype), mask, {"data": data, "prob": prob})


def local_gather(src_buffer, index, num_elem_per_idx=1, num_valid_indices=None, *, mask=None, **_):
    count = num_valid_indices or 16 * (index.size // index.shape[0])
    shape = (src_buffer.shape[0], count) + ((num_elem_per_idx,) if num_elem_per_idx > 1 else ())
    dst = new(shape, None, src_buffer.dtype)
    isa_move.local_gather(dst, src_buffer, index, num_elem_per_idx, num_valid_indices)
    return dst


def max8(*, src, mask=None, dtype=None, **_):
    (src,) = masked(src.shape, mask, src)
    dst = new((src.shape[0], 8), dtype, src.dtype)
    isa_compute.max8(dst, src)
    return dst


def memset(shape, value, dtype, *, mask=None, engine=engine.unknown, **_):
    dst = allocate(shape, dtype)
    return run(isa_compute.memset, dst, mask, {}, value=value, engine=engine)


def nc_find_index8(*, data, vals, mask=None, dtype=None, **_):
    (data,) = masked(data.shape, mask, data)
    dst = new((data.shape[0], 8), dtype, dtypes.by_trine["u32"])
    isa_compute.nc_find_index8(dst, data, vals)
    return dst


def nc_match_replace8(*, data, vals, imm, dst_idx=None, mask=None, dtype=None, **_):
    dst = new(data.shape, dtype, data.dtype)
    return run(isa_compute.nc_match_replace8, dst, mask, {"data": data}, vals=vals, imm=imm, dst_idx=dst_idx)


def nc_matmul(stationary, moving, *, is_stationary_onezero=False, is_moving_onezero=False, is_transpose=False,
              tile_position=(), tile_size=(), mask=None, perf_mode=None, **_):  # fmt: skip
    if mask is not None:
        (stationary,) = masked(stationary.shape, mask, stationary) or (stationary,)
    rows, columns = stationary.size // stationary.shape[0], moving.size // moving.shape[0]
    perf_mode = "double_row" if perf_mode in ("double_row_gen3", "double_row") else perf_mode
    deep = 2 if perf_mode else 1
    dst = new((rows // deep, columns // deep), None, F32, PSUM)
    rest = {"perf_mode": perf_mode} if perf_mode else {}
    isa_move.nc_matmul(dst, stationary, moving, is_stationary_onezero, is_moving_onezero, is_transpose,
                       tile_position=tile_position, tile_size=tile_size, **rest)  # fmt: skip
    return dst


def nc_stream_shuffle(src, dst, shuffle_mask, *, dtype=None, mask=None, **_):
    cut = masked(dst.shape, mask, dst, src)
    if cut is not None:
        isa_compute.nc_stream_shuffle(cut[0], cut[1], shuffle_mask)


def nc_transpose(data, *, mask=None, dtype=None, engine=engine.unknown, **_):
    rows, columns = data.size // data.shape[0], data.shape[0]
    small = rows <= 32 and columns <= 32
    on_vector = engine is vector_engine or (engine is not tensor_engine and (small or data.storage.space == "psum"))
    dst = new((rows, columns), None, data.dtype, SBUF if on_vector else PSUM)
    isa_move.nc_transpose(dst, data, engine=vector_engine if on_vector else tensor_engine)
    return dst if dtype is None or as_dtype(dtype) is data.dtype else Tile.of(elementwise.copy(dst, dtype))


def range_select(*, on_true_tile, comp_op0, comp_op1, bound0, bound1, reduce_cmd=reduce_cmd.idle, reduce_res=None,
                 reduce_op=np.amax, range_start=0, on_false_value=FP32_MIN, mask=None, dtype=None, **_):  # fmt: skip
    dst = new(on_true_tile.shape, dtype, on_true_tile.dtype)
    operands = {"on_true_tile": on_true_tile, "bound0": bound0, "bound1": bound1, "reduce_res": reduce_res}
    return run(isa_compute.range_select, dst, mask, operands, comp_op0=comp_op0, comp_op1=comp_op1, reduce_cmd=reduce_cmd,
               reduce_op=reduce_op, range_start=range_start, on_false_value=on_false_value)  # fmt: skip


def reciprocal(data, *, dtype=None, mask=None, **_):
    return run(isa_compute.reciprocal, new(data.shape, dtype, data.dtype), mask, {"data": data})


def scalar_tensor_tensor(*, data, op0, operand0, op1, operand1, reverse0=False, reverse1=False, dtype=None, mask=None, **_):
    data, operand1 = fit(data, operand1)
    dst = new(data.shape, dtype, dtypes.promote(data.dtype, operand1.dtype))
    operands = {"data": data, "operand0": column(operand0, data), "operand1": operand1}
    return run(isa_compute.scalar_tensor_tensor, dst, mask, operands, op0=op0, op1=op1, reverse0=reverse0, reverse1=reverse1)


def select_reduce(*, dst, predicate, on_true, on_false, reduce_res=None, reduce_cmd=reduce_cmd.idle, reduce_op=np.amax,
                  reverse_pred=False, mask=None, dtype=None, **_):  # fmt: skip
    operands = {"predicate": predicate, "on_true": on_true, "on_false": on_false, "reduce_res": reduce_res}
    return run(isa_compute.select_reduce, dst, mask, operands, reduce_cmd=reduce_cmd, reduce_op=reduce_op,
               reverse_pred=reverse_pred)  # fmt: skip


def sequence_bounds(*, segment_ids, dtype=None, **_):
    dst = new((1, 2, segment_ids.size), dtype, segment_ids.dtype)
    isa_move.sequence_bounds(dst, segment_ids)
    return dst


def tensor_copy(src, *, mask=None, dtype=None, engine=engine.unknown, **_):
    return run(isa_compute.tensor_copy, new(src.shape, dtype, src.dtype), mask, {"src": src}, engine=engine)


tensor_copy_dynamic_src = tensor_copy


def tensor_copy_dynamic_dst(*, dst, src, mask=None, dtype=None, engine=engine.unknown, **_):
    run(isa_compute.tensor_copy, dst, mask, {"src": src}, engine=engine)


def tensor_copy_predicated(*, src, dst, predicate, reverse_pred=False, mask=None, dtype=None, **_):
    operands = {"src": src, "predicate": predicate}
    return run(isa_compute.tensor_copy_predicated, dst, mask, operands, reverse_pred=reverse_pred)


def tensor_partition_reduce(op, data, *, mask=None, dtype=None, **_):
    (data,) = masked(data.shape, mask, data)
    dst = new((1,) + data.shape[1:], dtype, data.dtype)
    isa_compute.tensor_partition_reduce(dst, op, data)
    return dst


def trailing(data, axis):
    """The data with the reduced axes moved last, how many there are, and the shape that is left."""
    axes = sorted(a + data.ndim if a < 0 else a for a in ([axis] if isinstance(axis, int) else list(axis)))
    if not axes or axes[0] == 0:
        raise error("NKI015", f"a reduction over axis {axis}", "free axes only",
                    "across partitions use nc_transpose or a matmul with ones")
    kept = [d for d in range(data.ndim) if d not in axes]
    return data.permute(kept + axes), axes, [data.shape[d] for d in kept]


def tensor_reduce(op, data, axis, *, mask=None, dtype=None, negate=False, keepdims=False, **_):
    cut = masked(data.shape, mask, data)
    moved, axes, kept = trailing(cut[0], axis)
    shape = [1 if d in axes else n for d, n in enumerate(cut[0].shape)] if keepdims else kept
    dst = new(shape if len(shape) > 1 else list(shape) + [1], dtype, data.dtype)
    isa_compute.tensor_reduce(dst, op, moved, list(range(len(kept), moved.ndim)), negate)
    return dst


def tensor_scalar(data, op0, operand0, reverse0=False, op1=None, operand1=None, reverse1=False, *, dtype=None, mask=None,
                  engine=engine.unknown, **_):  # fmt: skip
    dst = new(data.shape, dtype, data.dtype)
    operands = {"data": data, "operand0": column(operand0, data), "operand1": column(operand1, data)}
    return run(isa_compute.tensor_scalar, dst, mask, operands, op0=op0, reverse0=reverse0, op1=op1, reverse1=reverse1,
               engine=engine)  # fmt: skip


def tensor_scalar_reduce(*, data, op0, operand0, reduce_op, reduce_res, reverse0=False, dtype=None, mask=None, **_):
    dst = new(data.shape, dtype, data.dtype)
    operands = {"data": data, "operand0": column(operand0, data), "reduce_res": reduce_res}
    return run(isa_compute.tensor_scalar_reduce, dst, mask, operands, op0=op0, reduce_op=reduce_op, reverse0=reverse0)


def tensor_scalar_cumulative(*, src, op0, op1, imm0, imm1=None, reduce_cmd=reduce_cmd.reset_reduce, dst=None, dtype=None,
                             mask=None, **_):  # fmt: skip
    dst = new(src.shape, dtype, src.dtype) if dst is None else dst
    operands = {"src": src, "imm0": imm0, "imm1": imm1}
    return run(isa_compute.tensor_scalar_cumulative, dst, mask, operands, op0=op0, op1=op1, reduce_cmd=reduce_cmd)


def tensor_tensor(data1, data2, op, *, dtype=None, mask=None, engine=engine.unknown, **_):
    data1, data2 = fit(data1, data2)
    dst = new(data1.shape, dtype, dtypes.promote(data1.dtype, data2.dtype))
    return run(isa_compute.tensor_tensor, dst, mask, {"data1": data1, "data2": data2}, op=op, engine=engine)


def tensor_tensor_scan(data0, data1, initial, op0, op1, reverse0=False, reverse1=False, *, dtype=None, mask=None, **_):
    data0, data1 = fit(data0, data1)
    dst = new(data0.shape, dtype, dtypes.promote(data0.dtype, data1.dtype))
    operands = {"data0": data0, "data1": data1, "initial": initial}
    return run(isa_compute.tensor_tensor_scan, dst, mask, operands, op0=op0, op1=op1, reverse0=reverse0, reverse1=reverse1)


def __getattr__(name):
    raise missing("neuronxcc.nki.isa", name)


