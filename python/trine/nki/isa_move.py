"""nki.isa on the tensor engine, GpSimd, the DMA queues and between cores."""

from trine.nki import isa_enums as e
from trine.nki import ops, psum, registers
from trine.nki.emit import emit, engine_name, member, needs, tensor
from trine.nki.trace import current, error

_unknown = e.engine.unknown


# --- tensor engine ---


def nc_matmul(dst, stationary, moving, is_stationary_onezero=False, is_moving_onezero=False, is_transpose=False,
              accumulate=None, tile_position=(), tile_size=(), perf_mode=e.matmul_perf_mode.none, name=None):  # fmt: skip
    tensor(dst, "dst")
    if dst.storage.space != "psum":
        raise _not_psum(dst, "nc_matmul")
    attrs = {"accumulate": psum.mode(dst, accumulate, len(current().loops))}
    if is_stationary_onezero:
        attrs["is_stationary_onezero"] = True
    if is_moving_onezero:
        attrs["is_moving_onezero"] = True
    if is_transpose:
        attrs["is_transpose"] = True
    if tile_position or tile_size:
        attrs["tile_position"], attrs["tile_size"] = list(tile_position or (0, 0)), list(tile_size or (128, 128))
    if perf_mode is not e.matmul_perf_mode.none and perf_mode is not None:
        attrs["perf_mode"] = member(perf_mode, e.matmul_perf_mode, "perf_mode")
    return emit("nc_matmul", {"dst": dst, "stationary": stationary, "moving": moving}, attrs, "tensor", name)


def _not_psum(dst, what):
    return error("NKI016", f"dst of {what} is {dst!r}", "a tile in PSUM; the tensor engine writes nowhere else",
                 "allocate it with buffer=nl.psum and copy it out with nisa.tensor_copy")


def nc_matmul_mx(dst, stationary, moving, stationary_scale, moving_scale, tile_position=None, tile_size=None,
                 accumulate=None, name=None):  # fmt: skip
    needs("mx", "nc_matmul_mx")
    tensor(dst, "dst")
    if dst.storage.space != "psum":
        raise _not_psum(dst, "nc_matmul_mx")
    attrs = {"accumulate": psum.mode(dst, accumulate, len(current().loops))}
    if tile_position or tile_size:
        attrs["tile_position"], attrs["tile_size"] = list(tile_position or (0, 0)), list(tile_size or (128, 128))
    operands = {"dst": dst, "stationary": stationary, "moving": moving, "stationary_scale": stationary_scale,
                "moving_scale": moving_scale}  # fmt: skip
    return emit("nc_matmul_mx", operands, attrs, "tensor", name)


def nc_transpose(dst, data, engine=_unknown, name=None):
    tensor(dst, "dst"), tensor(data, "data")
    chosen = engine_name(engine, ("tensor", "vector"), "nc_transpose")
    if chosen is None:
        chosen = "tensor" if dst.storage.space == "psum" and data.storage.space == "sbuf" else "vector"
    if dst.storage.space == "psum":
        psum.note_write(dst)
    return emit("nc_transpose", {"dst": dst, "data": data}, {}, chosen, name)


# --- GpSimd ---


def _flat(pattern):
    """[[step, count], …] as the row's flat list."""
    return [int(v) for pair in pattern for v in pair]


def iota(dst, pattern, offset=0, channel_multiplier=0, name=None):
    attrs = {"pattern": _flat(pattern), "offset": int(offset), "channel_multiplier": int(channel_multiplier)}
    return emit("iota", {"dst": dst}, attrs, "gpsimd", name)


def affine_select(dst, pattern, channel_multiplier, on_true_tile, on_false_value, cmp_op="equal", offset=0, name=None):
    attrs = {"pattern": _flat(pattern), "channel_multiplier": int(channel_multiplier), "offset": int(offset),
             "on_false_value": float(on_false_value), "cmp_op": ops.alu(cmp_op, "cmp_op")}  # fmt: skip
    return emit("affine_select", {"dst": dst, "on_true_tile": on_true_tile}, attrs, "gpsimd", name)


def local_gather(dst, src_buffer, index, num_elem_per_idx=1, num_valid_indices=None, name=None):
    attrs = {"num_elem_per_idx": int(num_elem_per_idx), "num_valid_indices": int(num_valid_indices or 0)}
    return emit("local_gather", {"dst": dst, "src_buffer": src_buffer, "index": index}, attrs, "gpsimd", name)


# --- DMA ---


def _transfer(priority, oob_mode, dge_mode, indirect=False):
    attrs = {}
    dge = member(dge_mode, e.dge_mode, "dge_mode")
    if dge != "unknown":
        attrs["dge"] = dge
    elif indirect:
        attrs["dge"] = "swdge"  # the only mode that gathers
    if member(oob_mode, e.oob_mode, "oob_mode") != "error":
        attrs["oob"] = "skip"
    if priority is not None:
        if not 0 <= int(priority) <= 3:
            raise error("NKI003", f"priority={priority}", "0 (highest) to 3")
        needs("dma_qos", "DMA priority")
        attrs["priority"] = int(priority)
    return attrs


def _gathers(*tensors):
    return any(t.dynamic is not None and t.dynamic.kind == "rows" for t in tensors)


_ISSUERS = {"swdge": "gpsimd"}


def dma_copy(dst, src, priority=None, oob_mode=e.oob_mode.error, dge_mode=e.dge_mode.unknown, engine=_unknown, name=None,
             dst_rmw_op=None, unique_indices=True):  # fmt: skip
    """dst_rmw_op and unique_indices are how NKI 0.2 spells dma_compute(dst, [src, dst], …)."""
    tensor(dst, "dst"), tensor(src, "src")
    if dst_rmw_op is not None:
        return dma_compute(dst, [src, dst], dst_rmw_op, unique_indices=unique_indices, oob_mode=oob_mode, name=name)
    attrs = _transfer(priority, oob_mode, dge_mode, _gathers(dst, src))
    chosen = engine_name(engine)
    if chosen is not None and attrs.get("dge") != "hwdge":
        raise error("NKI025", f"engine.{chosen} for a DMA that is not hwdge", "dge_mode=nisa.dge_mode.hwdge, or no engine")
    if chosen is not None and chosen not in ("sync", "scalar"):
        raise error("NKI022", f"hwdge from engine.{chosen}", "engine.sync or engine.scalar")
    if attrs.get("dge") == "hwdge" and dst.dtype is not src.dtype:
        raise error("NKI025", f"hwdge from {src.dtype} to {dst.dtype}", "one dtype; hardware descriptors never cast",
                    "leave dge_mode to the compiler, or cast on an engine")
    return emit("dma_copy", {"dst": dst, "src": src}, attrs, chosen or _ISSUERS.get(attrs.get("dge")), name)


def dma_transpose(dst, src, axes=None, priority=None, dge_mode=e.dge_mode.unknown, oob_mode=e.oob_mode.error, name=None):
    tensor(dst, "dst"), tensor(src, "src")
    attrs = _transfer(priority, oob_mode, dge_mode, _gathers(src))
    default = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}.get(src.ndim)
    axes = tuple(axes) if axes is not None else default
    if axes is None or axes != default:
        raise error("NKI025", f"axes {axes} for {src.ndim} dimensions", "(1, 0), (2, 1, 0) or (3, 1, 2, 0)")
    attrs["axes"] = list(axes)
    return emit("dma_transpose", {"dst": dst, "src": src}, attrs, _ISSUERS.get(attrs.get("dge")), name)


def dma_compute(dst, srcs, reduce_op, scales=None, unique_indices=True, oob_mode=e.oob_mode.error, name=None):
    if ops.alu(reduce_op, "reduce_op") != "add":
        raise error("NKI018", f"reduce_op={reduce_op!r}", "nl.add")
    if scales is not None and any(float(s) != 1.0 for s in scales):
        raise error("NKI025", f"scales {list(scales)}", "all 1.0, or None")
    if not 1 <= len(srcs) <= 16:
        raise error("NKI025", f"{len(srcs)} sources", "1 to 16")
    indirect = _gathers(dst, *srcs)
    if indirect and (len(srcs) != 2 or not unique_indices):
        raise error("NKI025", f"{len(srcs)} sources, unique_indices={unique_indices} with vector_offset",
                    "2 sources and unique indices")
    attrs = _transfer(None, oob_mode, e.dge_mode.unknown, indirect)
    attrs.pop("dge", None)
    operands = {"dst": dst} | {f"src{i}": s for i, s in enumerate(srcs)}
    return emit("dma_compute", operands, attrs | {"op": "add"}, "gpsimd" if indirect else None, name)


# --- registers and cores ---

register_alloc = registers.alloc
register_move = registers.move
register_load = registers.load
register_store = registers.store


def core_barrier(data, cores, engine=e.engine.gpsimd, name=None):
    needs("core_pair", "core_barrier")
    if current().cores < 2:
        raise error("NKI007", "core_barrier in a launch on one core", "kernel[2](…)")
    if tuple(cores) != (0, 1):
        raise error("NKI026", f"cores={tuple(cores)}", "(0, 1)")
    if not data.buffer.value == "shared_hbm":
        raise error("NKI016", f"core_barrier on {data!r}", "a tensor in shared_hbm")
    return emit("core_barrier", {}, {"cores": list(cores)}, engine_name(engine) or "gpsimd", name)


def sendrecv(src, dst, send_to_rank, recv_from_rank, pipe_id, dma_engine=e.dma_engine.dma, name=None):
    needs("core_pair", "sendrecv")
    if current().cores < 2:
        raise error("NKI007", "sendrecv in a launch on one core", "kernel[2](…)")
    own = member(dma_engine, e.dma_engine, "dma_engine") == "gpsimd_dma"
    attrs = {"send_to_rank": int(send_to_rank), "recv_from_rank": int(recv_from_rank), "pipe_id": int(pipe_id),
             "gpsimd_dma": own}  # fmt: skip
    return emit("sendrecv", {"dst": dst, "src": src}, attrs, "gpsimd", name)
