"""nki.isa of the functional dialect: each call returns its result tile; masks cut the part it works on.

Signatures as SDK 2.26 documents them; the instructions are those of trine.nki.isa.
"""

from enum import IntEnum

import numpy as np

from trine.nki import dtypes, elementwise, isa_compute, isa_move, isa_rows
from trine.nki.isa_compute import FP32_MIN, get_nc_version
from trine.nki.isa_enums import engine, nc_version, oob_mode, reduce_cmd
from trine.nki.old.blocks import allocate
from trine.nki.old.calls import F32, column, fit, multiplied, need, new, on_part, run, skip
from trine.nki.old.index import Index, Mask
from trine.nki.old.record import cut
from trine.nki.old.tile import Tile
from trine.nki.tensor import PSUM, SBUF, as_dtype
from trine.nki.trace import current, error, missing

tensor_engine, vector_engine, scalar_engine = engine.tensor, engine.vector, engine.scalar
gpsimd_engine, unknown_engine, dma_engine = engine.gpsimd, engine.unknown, engine.dma


class dge_mode(IntEnum):
    """Numbered as this dialect numbered them; trine.nki.isa has the current order."""

    none = 0
    swdge = 1
    hwdge = 2
    unknown = 3


def _dge(mode):
    """Its name, from a member or its number here."""
    return mode.name if hasattr(mode, "name") else _MODES(mode).name


_MODES = dge_mode


class fp32:
    """Limits of float32."""

    min = FP32_MIN
    max = -FP32_MIN


# --- elementwise ---


def activation(op, data, *, bias=None, scale=1.0, reduce_op=None, reduce_res=None, reduce_cmd=reduce_cmd.idle, mask=None,
               dtype=None, **_):  # fmt: skip
    data, bias, scale = need(data, "data"), column(bias, data), column(scale, data)
    return run(isa_compute.activation, new(data.shape, dtype, data.dtype), mask, data=data, bias=bias, scale=scale, op=op,
               reduce_op=reduce_op, reduce_res=reduce_res, reduce_cmd=reduce_cmd)  # fmt: skip


def activation_reduce(op, data, *, reduce_op, reduce_res, bias=None, scale=1.0, mask=None, dtype=None, **_):
    data, bias, scale = need(data, "data"), column(bias, data), column(scale, data)
    return run(isa_compute.activation_reduce, new(data.shape, dtype, data.dtype), mask, data=data, bias=bias, scale=scale,
               op=op, reduce_op=reduce_op, reduce_res=reduce_res)  # fmt: skip


def memset(shape, value, dtype, *, mask=None, engine=engine.unknown, **_):
    return run(isa_compute.memset, allocate(shape, dtype), mask, value=value, engine=engine)


def scalar_tensor_tensor(*, data, op0, operand0, op1, operand1, reverse0=False, reverse1=False, dtype=None, mask=None, **_):
    data, operand1 = fit(need(data, "data"), need(operand1, "operand1"))
    operand0 = column(operand0, data)
    dst = new(data.shape, dtype, dtypes.promote(data.dtype, operand1.dtype))
    return run(isa_compute.scalar_tensor_tensor, dst, mask, data=data, operand0=operand0, operand1=operand1, op0=op0,
               op1=op1, reverse0=reverse0, reverse1=reverse1)  # fmt: skip


def tensor_copy(src, *, mask=None, dtype=None, engine=engine.unknown, **_):
    src = need(src, "src")
    return run(isa_compute.tensor_copy, new(src.shape, dtype, src.dtype), mask, src=src, engine=engine)


tensor_copy_dynamic_src = tensor_copy


def tensor_copy_dynamic_dst(*, dst, src, mask=None, dtype=None, engine=engine.unknown, **_):
    run(isa_compute.tensor_copy, need(dst, "dst"), mask, src=need(src, "src"), engine=engine)


def tensor_copy_predicated(*, src, dst, predicate, reverse_pred=False, mask=None, dtype=None, **_):
    dst, predicate = need(dst, "dst"), need(predicate, "predicate")
    return run(isa_compute.tensor_copy_predicated, dst, mask, src=src, predicate=predicate, reverse_pred=reverse_pred)


def tensor_scalar(data, op0, operand0, reverse0=False, op1=None, operand1=None, reverse1=False, *, dtype=None, mask=None,
                  engine=engine.unknown, **_):  # fmt: skip
    data = need(data, "data")
    operand0, operand1 = column(operand0, data), column(operand1, data)
    return run(isa_compute.tensor_scalar, new(data.shape, dtype, data.dtype), mask, data=data, op0=op0, operand0=operand0,
               reverse0=reverse0, op1=op1, operand1=operand1, reverse1=reverse1, engine=engine)  # fmt: skip


def tensor_scalar_reduce(*, data, op0, operand0, reduce_op, reduce_res, reverse0=False, dtype=None, mask=None, **_):
    data = need(data, "data")
    operand0 = column(operand0, data)
    return run(isa_compute.tensor_scalar_reduce, new(data.shape, dtype, data.dtype), mask, data=data, op0=op0,
               operand0=operand0, reduce_op=reduce_op, reduce_res=reduce_res, reverse0=reverse0)  # fmt: skip


def tensor_scalar_cumulative(*, src, op0, op1, imm0, imm1=None, reduce_cmd=reduce_cmd.reset_reduce, dst=None, dtype=None,
                             mask=None, **_):  # fmt: skip
    src = need(src, "src")
    dst = new(src.shape, dtype, src.dtype) if dst is None else dst
    return run(isa_compute.tensor_scalar_cumulative, dst, mask, src=src, imm0=imm0, imm1=imm1, op0=op0, op1=op1,
               reduce_cmd=reduce_cmd)  # fmt: skip


def tensor_tensor(data1, data2, op, *, dtype=None, mask=None, engine=engine.unknown, **_):
    data1, data2 = fit(need(data1, "data1"), need(data2, "data2"))
    if data1.storage.space == data2.storage.space == "psum":
        data2 = Tile.of(elementwise.to_sbuf(data2))
    dst = new(data1.shape, dtype, dtypes.promote(data1.dtype, data2.dtype))
    return run(isa_compute.tensor_tensor, dst, mask, data1=data1, data2=data2, op=op, engine=engine)


def tensor_tensor_scan(data0, data1, initial, op0, op1, reverse0=False, reverse1=False, *, dtype=None, mask=None, **_):
    data0, data1 = fit(need(data0, "data0"), need(data1, "data1"))
    initial = column(initial, data0)
    dst = new(data0.shape, dtype, dtypes.promote(data0.dtype, data1.dtype))
    return run(isa_compute.tensor_tensor_scan, dst, mask, data0=data0, data1=data1, initial=initial, op0=op0, op1=op1,
               reverse0=reverse0, reverse1=reverse1)  # fmt: skip


# --- selection ---


def _affine_pattern(index, shape):
    """(pattern, offset, channel_multiplier) of an index expression over a tile."""
    index = index.padded(len(shape))
    pattern = [[c, n] for c, n in zip(index.coefs[1:], shape[1:])] or [[0, 1]]
    return pattern, index.const, index.coefs[0]


def affine_select(pred, on_true_tile, on_false_value, *, mask=None, dtype=None, **_):
    if not isinstance(pred, Mask) or len(pred.parts) > 2:
        raise error("NKI003", f"pred={pred!r}", "one comparison of index expressions")
    source = Tile.of(elementwise.to_sbuf(need(on_true_tile, "on_true_tile")))
    compare = "equal" if len(pred.parts) == 2 else "greater_equal"

    def f(dst, data, box):
        pattern, offset, channel = _affine_pattern(pred.parts[0].padded(data.ndim).within(box), data.shape)
        isa_move.affine_select(dst, pattern, channel, data, on_false_value, compare, offset)

    return on_part(f, new(source.shape, dtype, on_true_tile.dtype), mask, source)


def iota(expr, dtype, *, mask=None, **_):
    if not isinstance(expr, Index):
        raise error("NKI003", f"expr={expr!r}", "an index expression of nl.arange")
    shape = expr.grid if expr.ndim > 1 else (1,) + expr.shape
    dst = new(shape, dtype, None)
    region = mask.region(shape) if isinstance(mask, Mask) else [(0, n) for n in shape]
    if region is not None and mask is not False:
        pattern, offset, channel = _affine_pattern(expr.padded(len(shape)).within(region), [b - a for a, b in region])
        isa_move.iota(cut(dst, region), pattern, offset, channel)
        current().dialect.was_cut(dst, region)
    return dst


def range_select(*, on_true_tile, comp_op0, comp_op1, bound0, bound1, reduce_cmd=reduce_cmd.idle, reduce_res=None,
                 reduce_op=np.amax, range_start=0, on_false_value=FP32_MIN, mask=None, dtype=None, **_):  # fmt: skip
    data = need(on_true_tile, "on_true_tile")
    return run(isa_compute.range_select, new(data.shape, dtype, data.dtype), mask, on_true_tile=data, bound0=bound0,
               bound1=bound1, reduce_res=reduce_res, comp_op0=comp_op0, comp_op1=comp_op1, reduce_cmd=reduce_cmd,
               reduce_op=reduce_op, range_start=range_start, on_false_value=on_false_value)  # fmt: skip


def select_reduce(*, dst, predicate, on_true, on_false, reduce_res=None, reduce_cmd=reduce_cmd.idle, reduce_op=np.amax,
                  reverse_pred=False, mask=None, dtype=None, **_):  # fmt: skip
    return run(isa_compute.select_reduce, need(dst, "dst"), mask, predicate=need(predicate, "predicate"), on_true=on_true,
               on_false=on_false, reduce_res=reduce_res, reduce_cmd=reduce_cmd, reduce_op=reduce_op,
               reverse_pred=reverse_pred)  # fmt: skip


def local_gather(src_buffer, index, num_elem_per_idx=1, num_valid_indices=None, *, mask=None, **_):
    count = num_valid_indices or 16 * (index.size // index.shape[0])
    shape = (src_buffer.shape[0], count) + ((num_elem_per_idx,) if num_elem_per_idx > 1 else ())
    dst = new(shape, None, src_buffer.dtype)
    isa_move.local_gather(dst, src_buffer, index, num_elem_per_idx, num_valid_indices)
    return dst


def sequence_bounds(*, segment_ids, dtype=None, **_):
    dst = new((1, 2, segment_ids.size), dtype, segment_ids.dtype)
    isa_rows.sequence_bounds(dst, segment_ids)
    return dst


# --- reductions and statistics ---


def _ordered_axes(axis, ndim):
    """(kept dimensions, reduced ones) of a reduction over free axes."""
    axes = sorted(a + ndim if a < 0 else a for a in ([axis] if isinstance(axis, int) else list(axis)))
    if not axes or axes[0] <= 0 or axes[-1] >= ndim:
        raise error("NKI015", f"a reduction over axis {axis} of {ndim} dimensions", "free axes only",
                    "across partitions use nc_transpose or a matmul with ones")
    return [d for d in range(ndim) if d not in axes], axes


def tensor_reduce(op, data, axis, *, mask=None, dtype=None, negate=False, keepdims=False, **_):
    data = need(data, "data")
    outer, axes = _ordered_axes(axis, data.ndim)
    shape = [1 if d in axes else n for d, n in enumerate(data.shape)] if keepdims else [data.shape[d] for d in outer]
    dst = new(shape if len(shape) > 1 else shape + [1], dtype, data.dtype)
    region = mask.region(data.shape) if isinstance(mask, Mask) else None
    if mask is False or (isinstance(mask, Mask) and region is None):
        return skip(dst)
    if region is not None:
        data = cut(data, [region[d] if d in axes else (0, n) for d, n in enumerate(data.shape)])
    moved = data.permute(outer + axes)
    recorder, last = current().dialect, list(range(len(outer), data.ndim))
    saved = recorder.region
    if region is not None:
        recorder.region = [region[d] for d in outer], tuple(data.shape[d] for d in outer)
        dst_view = dst.reshape([data.shape[d] for d in outer]) if len(outer) > 1 else dst
        _reduce_part(recorder, dst, dst_view, op, moved, last, negate, [region[d] for d in outer])
    else:
        isa_compute.tensor_reduce(dst, op, moved, last, negate)
    recorder.region = saved
    return dst


def _reduce_part(recorder, dst, view, op, data, axes, negate, outer):
    """A masked reduction: the kept dimensions of data and dst are cut alike."""
    recorder.region = None
    box = outer + [(0, n) for n in data.shape[len(outer) :]]
    out = outer if len(outer) > 1 else outer + [(0, 1)]
    isa_compute.tensor_reduce(cut(view, out), op, cut(data, box), axes, negate)
    if view.shape == dst.shape:
        recorder.was_cut(dst, out)


def tensor_partition_reduce(op, data, *, mask=None, dtype=None, **_):
    data = need(data, "data")
    if isinstance(mask, Mask):
        data = cut(data, mask.region(data.shape))
    dst = new((1,) + data.shape[1:], dtype, data.dtype)
    isa_rows.tensor_partition_reduce(dst, op, data)
    return dst


# --- tensor engine ---

_PERF = {"double_row_gen3": "double_row", "double_row": "double_row"}


def nc_matmul(stationary, moving, *, is_stationary_onezero=False, is_moving_onezero=False, is_transpose=False,
              tile_position=(), tile_size=(), mask=None, perf_mode=None, **_):  # fmt: skip
    stationary, moving = multiplied(stationary, "stationary"), multiplied(moving, "moving")
    deep = 2 if perf_mode else 1
    rows, columns = stationary.size // stationary.shape[0] // deep, moving.size // moving.shape[0] // deep
    moves_bits = is_transpose and "transpose_mode" in current().features
    dst = new((rows, columns), None, stationary.dtype if moves_bits else F32, PSUM)
    if mask is False:
        return skip(dst)
    options = {"perf_mode": _PERF.get(perf_mode, perf_mode)} if perf_mode else {}
    options |= {"is_stationary_onezero": is_stationary_onezero, "is_moving_onezero": is_moving_onezero,
                "is_transpose": is_transpose, "tile_position": tile_position, "tile_size": tile_size}  # fmt: skip
    if stationary.ndim != 2 or moving.ndim != 2:
        isa_move.nc_matmul(dst, stationary, moving, **options)
        return dst
    parts = _matmul_parts(stationary, moving, mask)
    if parts is not None:
        k, m, n = parts
        if (k, m, n) == ((0, stationary.shape[0]), (0, rows), (0, columns)):
            isa_move.nc_matmul(dst, stationary, moving, **options)
            return dst
        isa_move.nc_matmul(cut(dst, [m, n]), cut(stationary, [k, m]), cut(moving, [k, n]), **options)
        if (m, n) != ((0, rows), (0, columns)):
            current().dialect.was_cut(dst, [m, n])
    else:
        skip(dst)
    return dst


def _matmul_parts(stationary, moving, mask):
    """[first, end) of K, M and N: by the mask, and by what is written of the free dimensions; None for nothing."""
    recorder = current().dialect
    (k, rows), columns = stationary.shape, moving.shape[1]
    parts = [(0, k), recorder.part(stationary), recorder.part(moving)]
    parts[1] = parts[1][1] if parts[1] else (0, rows)
    parts[2] = parts[2][1] if parts[2] else (0, columns)
    for term in mask.parts if isinstance(mask, Mask) else ():
        sizes = (k, columns) if term.ndim < 2 or term.shape[-1] in (1, columns) else (k, rows)
        box = Mask([term]).region(sizes)
        if box is None:
            return None
        free = 2 if sizes[1] == columns else 1
        parts[0] = max(parts[0][0], box[0][0]), min(parts[0][1], box[0][1])
        parts[free] = max(parts[free][0], box[1][0]), min(parts[free][1], box[1][1])
    return parts if all(a < b for a, b in parts) else None


def nc_transpose(data, *, mask=None, dtype=None, engine=engine.unknown, **_):
    data = multiplied(data, "data")
    if data.ndim != 2:
        data = data.reshape((data.shape[0], data.size // data.shape[0]))
    columns, rows = data.shape
    small = rows <= 32 and columns <= 32
    on_vector = engine is vector_engine or (engine is not tensor_engine and (small or data.storage.space == "psum"))
    if on_vector or data.dtype.bits > 8:
        dst = new((rows, columns), None, data.dtype, SBUF if on_vector else PSUM)
    else:  # the array writes 8-bit elements two bytes apart
        dst = new((rows, columns, 2), None, data.dtype, PSUM)[:, :, 0]
    chosen = vector_engine if on_vector else tensor_engine
    on_part(lambda d, s, _: isa_move.nc_transpose(d, s, engine=chosen), dst, mask, data, transposed=True)
    return dst if dtype is None or as_dtype(dtype) is data.dtype else Tile.of(elementwise.copy(dst, dtype))


def nc_stream_shuffle(src, dst, shuffle_mask, *, dtype=None, mask=None, **_):
    run(isa_rows.nc_stream_shuffle, need(dst, "dst"), mask, src=need(src, "src"), shuffle_mask=shuffle_mask)


# --- DMA ---


def dma_copy(*, dst, src, mask=None, dst_rmw_op=None, oob_mode=oob_mode.error, dge_mode=dge_mode.unknown, **_):
    dst, src = need(dst, "dst"), need(src, "src")
    if dst_rmw_op is None:
        run(isa_move.dma_copy, dst, mask, src=src, oob_mode=oob_mode, dge_mode=_dge(dge_mode))
    else:
        run(_accumulate, dst, mask, src=src, op=dst_rmw_op, oob_mode=oob_mode)


def _accumulate(dst, src, op, oob_mode):
    isa_move.dma_compute(dst, [dst, src], op, oob_mode=oob_mode)


def dma_transpose(src, *, axes=None, mask=None, dtype=None, dge_mode=dge_mode.unknown, **_):
    src = need(src, "src")
    order = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}.get(src.ndim)
    if order is None:
        raise error("NKI025", f"dma_transpose of {src.ndim} dimensions", "2 to 4")
    dst = new([src.shape[a] for a in order], None, src.dtype)
    isa_move.dma_transpose(dst, src, axes=axes, dge_mode=_dge(dge_mode))
    return dst if dtype is None or as_dtype(dtype) is src.dtype else Tile.of(elementwise.copy(dst, dtype))


# --- what the instructions' rows say whole ---

isa_rows.define("old", globals())


def __getattr__(name):
    raise missing("neuronxcc.nki.isa", name, globals())
