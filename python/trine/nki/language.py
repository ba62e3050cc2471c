"""nki.language (`nl`): names as NKI has them. The functions live in create, elementwise, reduce and movement."""

import contextlib
from builtins import range as _range

from trine.nki import dtypes as _dtypes
from trine.nki import machine as _machine
from trine.nki.create import (
    empty_like,
    full,
    ndarray,
    ones,
    rand,
    random_seed,
    shared_constant,
    shared_identity_matrix,
    zeros,
    zeros_like,
)
from trine.nki.elementwise import ceil, divide, floor, fmod, mod, tan, trunc, where
from trine.nki.movement import (
    broadcast_to,
    device_print,
    expand_dims,
    gather_flattened,
    load,
    load_transpose2d,
    matmul,
    store,
    transpose,
)
from trine.nki.ops import registry as _operators
from trine.nki.reduce import all, dropout, mean, rms_norm, softmax, var
from trine.nki.registers import dynamic_range, fori_loop, while_loop
from trine.nki.tensor import PRIVATE_HBM, PSUM, SBUF, SHARED_HBM, DynamicSlice, MemoryRegion, NKIObject, NkiTensor
from trine.nki.trace import current, error, missing, tracing

sbuf, psum, hbm, private_hbm, shared_hbm = SBUF, PSUM, PRIVATE_HBM, PRIVATE_HBM, SHARED_HBM
DType = _dtypes.DType
globals().update(_dtypes.by_name)
globals().update(_operators)  # add, exp, sum, …: functions that also serve as op=


class _TileSize(NKIObject):
    """Limits of a tile, by the chip the kernel is traced for."""

    def _fact(self, path):
        chip = current().chip if tracing() else _machine.chip(_machine.target_chip(None))
        return chip[path]

    pmax = property(lambda self: self._fact("partitions"))
    psum_bank_fmax_bytes = property(lambda self: self._fact("psum.bank_bytes"))
    psum_bank_fmax = property(lambda self: self._fact("psum.bank_bytes") // 4)
    psum_fmax = psum_bank_fmax
    psum_num_banks = property(lambda self: self._fact("psum.banks"))
    gemm_stationary_fmax = property(lambda self: self._fact("tensor.stationary_max"))
    gemm_moving_fmax = property(lambda self: 512)  # NKI's own constant: a PSUM bank of f32, on every generation
    bn_stats_fmax = property(lambda self: 512)
    psum_min_align = property(lambda self: 4)
    sbuf_min_align = property(lambda self: 1)
    sbuf_size_bytes = property(lambda self: self._fact("sbuf.bytes_per_partition") * self.pmax)
    sbuf_fmax_bytes = property(
        lambda self: self._fact("sbuf.bytes_per_partition") - self._fact("sbuf.reserved_bytes_per_partition")
    )
    sbuf_fmax = property(lambda self: self.sbuf_fmax_bytes // 4)
    total_available_sbuf_size = sbuf_fmax_bytes


tile_size = _TileSize()


def ds(start, size):
    """start : start + size, where start may be a register."""
    return DynamicSlice(start, size)


def affine_range(start, stop=None, step=1):
    """range(); every Python loop of a kernel is unrolled."""
    return _range(start) if stop is None else _range(start, stop, step)


sequential_range = static_range = affine_range
range = affine_range


def program_id(axis=0):
    """Index of this program along an axis of the launch grid."""
    program = current().program
    if axis == 0 and not program.ids:
        return 0
    if not 0 <= axis < len(program.ids):
        raise error("NKI007", f"program_id({axis})", f"an axis of the launch grid, which has {len(program.ids)}")
    return program.ids[axis]


def num_programs(axes=0):
    """Programs along an axis of the launch grid; along all of them when axes is None."""
    grid = current().grid
    if axes is None:
        axes = _range(len(grid))
    total = 1
    for axis in [axes] if isinstance(axes, int) else axes:
        if axis < len(grid):
            total *= grid[axis]
        elif axis:
            raise error("NKI007", f"num_programs({axis})", f"an axis of the launch grid, which has {len(grid)}")
    return total


def program_ndim():
    """Dimensions of the launch grid."""
    return len(current().grid)


@contextlib.contextmanager
def no_reorder():
    """Instructions recorded inside keep their order."""
    tracer = current()
    tracer.ordered += 1
    try:
        yield
    finally:
        tracer.ordered -= 1


def is_hbm(buffer):
    return buffer in (PRIVATE_HBM, SHARED_HBM)


def is_sbuf(buffer):
    return buffer is SBUF


def is_psum(buffer):
    return buffer is PSUM


def is_on_chip(buffer):
    return buffer in (SBUF, PSUM)


def __getattr__(name):
    raise missing("nl", name, globals())
