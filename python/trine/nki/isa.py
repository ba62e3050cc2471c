"""nki.isa (`nisa`): one function per instruction, as NKI 0.6 documents them."""

from trine.nki import isa_enums as constants
from trine.nki import isa_rows
from trine.nki.emit import NkiInstruction
from trine.nki.errors import NkiError as NkiValidationError
from trine.nki.isa_compute import (
    activate2, activation, activation_reduce, exponential, get_nc_sub_version, get_nc_version, memset, range_select,
    scalar_tensor_tensor, select_reduce, tensor_copy, tensor_copy_predicated, tensor_reduce, tensor_scalar,
    tensor_scalar_cumulative, tensor_scalar_reduce, tensor_tensor, tensor_tensor_scan,
)  # fmt: skip
from trine.nki.isa_enums import dge_mode, dma_engine, engine, matmul_perf_mode, nc_version, oob_mode, reduce_cmd
from trine.nki.isa_move import (
    affine_select, core_barrier, dma_compute, dma_copy, dma_transpose, iota, local_gather, nc_matmul, nc_matmul_mx,
    nc_transpose, register_alloc, register_load, register_move, register_store, sendrecv,
)  # fmt: skip
from trine.nki.registers import VirtualRegister
from trine.nki.tensor import NKIObject
from trine.nki.trace import missing

globals().update({name: getattr(isa_rows, name) for name in isa_rows.CALLS})

tensor_engine, vector_engine, scalar_engine = engine.tensor, engine.vector, engine.scalar
gpsimd_engine, unknown_engine = engine.gpsimd, engine.unknown
tensor_copy_dynamic_src = tensor_copy_dynamic_dst = tensor_copy  # of NKI 0.2; a view says what is dynamic


def __getattr__(name):
    raise missing("nisa", name, globals())
