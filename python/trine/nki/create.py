"""nki.language: making tensors. Memory is only claimed here; where it lies is the scheduler's choice or `address`."""

from math import prod

import numpy as np

from trine.nki import dtypes, isa_compute, isa_move, isa_rows
from trine.nki.tensor import PRIVATE_HBM, PSUM, SBUF, SHARED_HBM, MemoryRegion, Storage, as_dtype, contiguous
from trine.nki.trace import current, error, user_frame, variable_at

_BUFFERS = {"sbuf": SBUF, "psum": PSUM, "hbm": PRIVATE_HBM, "private_hbm": PRIVATE_HBM, "shared_hbm": SHARED_HBM}


def as_buffer(given):
    if isinstance(given, MemoryRegion):
        return given
    if isinstance(given, str) and given in _BUFFERS:
        return _BUFFERS[given]
    raise error("NKI016", f"buffer={given!r}", "nl.sbuf, nl.psum, nl.hbm, nl.private_hbm or nl.shared_hbm")


def as_shape(given):
    shape = (given,) if isinstance(given, int) else tuple(given)
    out = []
    for n in shape:
        index = getattr(type(n), "__index__", None)
        if index is None or index(n) < 1:
            raise error("NKI003", f"shape {shape}", "positive whole numbers")
        out.append(index(n))
    if not out:
        raise error("NKI003", "an empty shape", "at least one dimension")
    return tuple(out)


def _check_on_chip(tracer, shape, dtype, buffer):
    most = tracer.chip["partitions"]
    if shape[0] > most:
        raise error("NKI014", f"{shape[0]} partitions in dimension 0",
                    f"at most {most} (nl.tile_size.pmax) on every generation",
                    f"loop over tiles of {most}, or put the long dimension second",
                    rule=f"tile too tall for {buffer.value.upper()}")  # fmt: skip
    size = prod(shape[1:]) * dtype.bits // 8
    if buffer is SBUF:
        room = tracer.chip["sbuf.bytes_per_partition"] - tracer.chip["sbuf.reserved_bytes_per_partition"]
    else:
        room = tracer.chip["psum.banks"] * tracer.chip["psum.bank_bytes"]
    if size > room:
        raise error("NKI019", f"{size:,} bytes per partition", f"at most {room:,} in {buffer.value.upper()} of {tracer.chip_name}",
                    "split the free dimension into several tiles")  # fmt: skip


def ndarray(shape, dtype, buffer=SBUF, name="", address=None):
    """A tensor that nobody has written yet. address: (first partition, byte inside each)."""
    return allocate(shape, dtype, buffer, name, address)


def allocate(shape, dtype, buffer=SBUF, name="", address=None, kind="scratch"):
    tracer = current()
    shape, dtype, buffer = as_shape(shape), as_dtype(dtype), as_buffer(buffer)
    where = user_frame()
    if buffer is SHARED_HBM:
        return contiguous(_shared(tracer, shape, dtype, name, where))
    core = tracer.program.core
    if buffer is not PRIVATE_HBM:
        _check_on_chip(tracer, shape, dtype, buffer)
    elif address is not None:
        raise error("NKI023", f"address={address} in HBM", "SBUF or PSUM; HBM is placed by the runtime")
    if address is not None:
        address = tuple(int(a) for a in address)
    full = tracer.unique(name or variable_at(where) or buffer.value)
    on_chip_shape = shape if len(shape) > 1 or buffer is PRIVATE_HBM else shape + (1,)
    id = tracer.tensor(full, space_of(buffer), dtype, on_chip_shape, kind, address, None, core, where)
    storage = Storage(id, buffer, dtype, shape, full, kind, core, where, address)
    storage.loops = len(tracer.loops)
    return contiguous(storage)


def space_of(buffer):
    return "hbm" if buffer in (PRIVATE_HBM, SHARED_HBM) else buffer.value


def _shared(tracer, shape, dtype, name, where):
    """The n-th shared tensor of every program of the launch is one tensor."""
    at = tracer.program.shared
    tracer.program.shared += 1
    if at < len(tracer.shared):
        storage = tracer.shared[at]
        if storage.shape != shape or storage.dtype is not dtype:
            raise error("NKI026", f"shared tensor {at} is {dtype}{list(shape)} in program {tracer.program.index}",
                        f"{storage.dtype}{list(storage.shape)}, as in program 0",
                        "create shared tensors in the same order in all programs")
        return storage
    if tracer.program.index:
        raise error("NKI026", f"a shared tensor that only program {tracer.program.index} creates",
                    "the same shared tensors in all programs")
    full = tracer.unique(name or variable_at(where) or "out")
    id = tracer.tensor(full, "hbm", dtype, shape, "output", None, None, 0, where)
    tracer.shared.append(Storage(id, SHARED_HBM, dtype, shape, full, "scratch", 0, where))
    return tracer.shared[-1]


def full(shape, fill_value, dtype, buffer=SBUF, name=""):
    made = ndarray(shape, dtype, buffer, name)
    fill(made, fill_value)
    return made


def fill(view, value):
    """Every element of view = value, also in HBM, which only DMA reaches."""
    if view.on_chip:
        isa_compute.memset(view, value)
        return
    flat = view.reshape((view.size,))
    chip = current().chip
    columns = min(2048, -(-view.size // chip["partitions"]))
    tile = ndarray((min(chip["partitions"], -(-view.size // columns)), columns), view.dtype)
    isa_compute.memset(tile, value)
    done = 0
    while done < view.size:
        left = view.size - done
        rows = min(tile.shape[0], left // columns)
        part = tile[:rows, :] if rows else tile[:1, :left]
        isa_move.dma_copy(flat[done : done + part.size].reshape(part.shape), part)
        done += part.size


def zeros(shape, dtype, buffer=SBUF, name=""):
    return full(shape, 0, dtype, buffer, name)


def ones(shape, dtype, buffer=SBUF, name=""):
    return full(shape, 1, dtype, buffer, name)


def zeros_like(x, dtype=None, buffer=None, name=""):
    return zeros(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def empty_like(x, dtype=None, buffer=None, name=""):
    return ndarray(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def shared_constant(constant, dtype=None):
    """A tensor in shared HBM with the given values, the same for all programs; NKI 0.2 names a dtype as well."""
    tracer = current()
    values = np.ascontiguousarray(np.load(constant) if isinstance(constant, str) else constant)
    if dtype is not None:
        values = values.astype(as_dtype(dtype).numpy)
    dtype = dtypes.find(values.dtype)
    if dtype is None:
        raise error("NKI006", f"a constant of {values.dtype}", "a dtype of the chip", "convert it, for instance .astype(np.float32)")
    key = ("constant", values.dtype, values.shape, values.tobytes())
    if key not in tracer.constants:
        shape = values.shape or (1,)
        name, where = tracer.unique("constant"), user_frame()
        id = tracer.tensor(name, "hbm", dtype, shape, "constant", None, values.tobytes(), 0, where)
        tracer.constants[key] = Storage(id, SHARED_HBM, dtype, shape, name, "constant", 0, where)
    return contiguous(tracer.constants[key])


def shared_identity_matrix(n, dtype=dtypes.by_name["uint8"], dst=None):
    """An n×n identity in SBUF, made once per core and dtype."""
    tracer = current()
    dtype = as_dtype(dtype)
    key = ("identity", n, dtype, tracer.program.core)
    if dst is None and key in tracer.constants:
        return contiguous(tracer.constants[key])
    if dtype.numpy is None:
        raise error("NKI017", f"identity of {dtype}", "a dtype with single elements")
    source = shared_constant(np.eye(n, dtype=dtype.numpy))
    made = ndarray((n, n), dtype, name="identity") if dst is None else dst
    isa_move.dma_copy(made, source)
    if dst is None and not tracer.loops:
        tracer.constants[key] = made.storage
    return made


def random_seed(seed):
    isa_rows.set_rng_seed(seed)


def rand(shape, dtype, buffer=SBUF, name=""):
    """Uniform in [0, 1): rand2 on v4, before it 16 random bits scaled."""
    tracer = current()
    made = ndarray(shape, dtype, buffer, name)
    if "xorwow" in tracer.features:
        isa_rows.rand2(made, 0.0, 1.0)
        return made
    bits = ndarray(shape, "uint16")
    isa_rows.rng(bits)
    isa_compute.tensor_scalar(made, bits, "multiply", 1.0 / 65536)
    return made
