"""nki.language: loading, storing, transposing, multiplying matrices, and the shape functions."""

from trine.nki import create, elementwise, isa_compute, isa_move, isa_rows
from trine.nki.elementwise import F32, like, tile
from trine.nki.tensor import PSUM, NkiTensor, as_dtype, contiguous
from trine.nki.trace import current, error


def load(src, dtype=None):
    """A new SBUF tile with what src holds; a single dimension becomes the partitions."""
    if not isinstance(src, NkiTensor) or src.on_chip:
        raise error("NKI016", f"nl.load of {src!r}", "a tensor in HBM", "it is on chip already: nl.copy")
    shape = src.shape if src.ndim > 1 else src.shape + (1,)
    out = create.ndarray(shape, as_dtype(dtype) if dtype is not None else src.dtype)
    isa_move.dma_copy(out, src)
    return out


def store(dst, value):
    """dst in HBM = an SBUF tile."""
    if not isinstance(dst, NkiTensor) or dst.on_chip:
        raise error("NKI016", f"nl.store into {dst!r}", "a tensor in HBM", "on chip use nisa.tensor_copy")
    if value.storage.space == "psum":
        raise error("NKI016", f"nl.store from {value!r}", "an SBUF tile; DMA cannot read PSUM",
                    "copy it first: nisa.tensor_copy into SBUF")
    isa_move.dma_copy(dst, value)


def load_transpose2d(src, dtype=None):
    """A new SBUF tile with src's two dimensions exchanged."""
    if src.ndim != 2:
        raise error("NKI015", f"nl.load_transpose2d of {src!r}", "two dimensions")
    out = create.ndarray((src.shape[1], src.shape[0]), src.dtype)
    isa_move.dma_transpose(out, src)
    return out if dtype is None or as_dtype(dtype) is src.dtype else elementwise.copy(out, dtype)


def transpose(x, dtype=None):
    """Partitions and free elements exchanged, in PSUM (by the tensor engine)."""
    if tile(x, "transpose").ndim != 2:
        raise error("NKI015", f"nl.transpose of {x!r}", "two dimensions")
    out = create.ndarray((x.shape[1], x.shape[0]), dtype or x.dtype, PSUM)
    isa_move.nc_transpose(out, elementwise.to_sbuf(x))
    return out


def matmul(x, y, transpose_x=False):
    """x @ y, or xᵀ @ y when transpose_x says that x is given transposed; in PSUM."""
    tile(x, "matmul"), tile(y, "matmul")
    if not transpose_x:
        transposed = transpose(x)
        x = like(transposed)
        isa_compute.tensor_copy(x, transposed)
    if x.shape[0] != y.shape[0]:
        raise error("NKI015", f"nl.matmul over {x.shape[0]} and {y.shape[0]}", "one contraction size")
    out = create.ndarray((x.shape[1], y.shape[1]), F32, PSUM)
    isa_move.nc_matmul(out, x, y)
    return out


def gather_flattened(data, indices, axis=0, dtype=None):
    """data[p, indices[p, e]] in every partition."""
    if indices.dtype.trine != "u32":
        wide = like(indices, "uint32")
        isa_compute.tensor_copy(wide, indices)
        indices = wide
    out = create.ndarray(indices.shape, data.dtype)
    isa_rows.nc_n_gather(out, data, indices)
    return out if dtype is None or as_dtype(dtype) is data.dtype else elementwise.copy(out, dtype)


def broadcast_to(x, shape, dtype=None):
    """x with its dimensions of size 1 repeated, partitions too; of what lies in HBM a view, for a load."""
    shape = tuple(shape)
    if x.shape == shape and (dtype is None or as_dtype(dtype) is x.dtype):
        return x
    if not x.on_chip and dtype is None and len(shape) == x.ndim and all(n in (1, m) for n, m in zip(x.shape, shape)):
        return x._view(shape, [0 if n == 1 < m else s for n, m, s in zip(x.shape, shape, x.strides)])
    if x.shape[0] == 1 and shape[0] > 1:
        x = on_partitions(x, shape[0])
        if x.shape == shape and (dtype is None or as_dtype(dtype) is x.dtype):
            return x
    out = create.ndarray(shape, dtype or x.dtype)
    isa_compute.tensor_copy(out, elementwise._fit(x, shape, "broadcast_to"))
    return out


QUADRANT = 32  # partitions that one shuffle reaches


def on_partitions(x, count):
    """The single row of x on `count` partitions: of floats by a multiply with a column of ones, which Neuron's compiler
    does too and leaves Vector free; of other dtypes by a shuffle for each quadrant, bit for bit."""
    if x.offset // x.strides[0] % QUADRANT:
        near = create.ndarray(x.shape, x.dtype)
        isa_move.dma_copy(near, x)
        x = near
    out = create.ndarray((count,) + x.shape[1:], x.dtype)
    dialect = current().dialect
    if x.dtype.trine in ("f32", "bf16", "f16") and x.ndim == 2 and (dialect is None or dialect.region is None):
        _multiply_ones(out, elementwise.to_sbuf(x))
        return out
    for first in range(0, count, QUADRANT):
        rows = min(QUADRANT, count - first)
        isa_rows.nc_stream_shuffle(out[first : first + rows], x, [0] * rows + [255] * (QUADRANT - rows))
    return out


def _multiply_ones(out, row):
    """out = onesᵀ · row, a bank of PSUM at a time."""
    tracer = current()
    key = ("ones", out.shape[0], row.dtype, tracer.program.core)
    if key in tracer.constants:
        ones = contiguous(tracer.constants[key])
    else:
        ones = create.ones((1, out.shape[0]), row.dtype, name="ones")
        if not tracer.loops:
            tracer.constants[key] = ones.storage
    bank = tracer.chip["psum.bank_bytes"] // 4
    for first in range(0, row.shape[1], bank):
        part = row[:, first : min(first + bank, row.shape[1])]
        sums = create.ndarray((out.shape[0], part.shape[1]), F32, PSUM)
        isa_move.nc_matmul(sums, ones, part)
        isa_compute.tensor_copy(out[:, first : first + part.shape[1]], sums)


def expand_dims(x, axis):
    """x with a dimension of size 1 at axis; free."""
    return x.expand_dim(axis)


def assign(target, value):
    """target[…] = value: a fill, a copy or a transfer."""
    if not isinstance(value, NkiTensor):
        create.fill(target, value)
    elif target.on_chip and value.on_chip:
        isa_compute.tensor_copy(target, value)
    else:
        isa_move.dma_copy(target, value)


def keep_for_host(tensor, name):
    """A copy of the tensor in HBM that the host can look at after the run."""
    source = elementwise.to_sbuf(tensor) if tensor.storage.space == "psum" else tensor
    output = create.allocate(tensor.shape, tensor.dtype, "hbm", name, kind="output")
    isa_move.dma_copy(output, source)
    return output.storage


def device_print(print_prefix, tensor):
    """Prints the tensor when the kernel has run."""
    current().prints.append((print_prefix, keep_for_host(tensor, f"print_{print_prefix}")))
