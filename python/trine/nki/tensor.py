"""NkiTensor: a strided view of one piece of memory. All views are free; `tile()` turns one into an access pattern.

An element (i0, i1, …) lies at offset + Σ strides[k]·ik, counted in elements of the view's dtype. On chip dimension 0 is
the partition, whose stride is the number of elements a partition of the storage holds. Views beyond slicing are views.py.
"""

from enum import Enum
from math import prod

from trine.nki import dtypes
from trine.nki.trace import current, error, from_core, in_assert, missing, user_frame
from trine.nki.views import Views


class MemoryRegion(Enum):
    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"

    def __repr__(self):
        return f"nl.{self.value}"


SBUF, PSUM = MemoryRegion.sbuf, MemoryRegion.psum
PRIVATE_HBM, SHARED_HBM = MemoryRegion.private_hbm, MemoryRegion.shared_hbm
SPACES = {SBUF: "sbuf", PSUM: "psum", PRIVATE_HBM: "hbm", SHARED_HBM: "hbm"}


class NKIObject:
    """Base class of the classes a kernel may take or make."""

    __slots__ = ()

    def __init_subclass__(cls, **kwargs):
        """`x = None` in the body of a dataclass is a field, as `x: object = None` is."""
        super().__init_subclass__(**kwargs)
        own = dict(cls.__dict__.get("__annotations__", {}))
        plain = (str, int, float, tuple, Enum, type(None))
        fields = {k: object for k, v in vars(cls).items() if not k.startswith("_") and isinstance(v, plain)}
        if "__slots__" not in vars(cls):
            cls.__annotations__ = own | {k: v for k, v in fields.items() if k not in own}

    def __init__(self, **kwargs):
        for key, value in kwargs.items():
            setattr(self, key, value)


class Storage:
    """Memory that views share. `row` is elements per partition on chip (of its own dtype), all elements in HBM."""

    __slots__ = ("id", "buffer", "space", "on_chip", "dtype", "shape", "row", "name", "kind", "core", "where",
                 "address", "written", "loops", "writes")  # fmt: skip

    def __init__(self, id, buffer, dtype, shape, name, kind="scratch", core=0, where=("", 0), address=None):
        self.id, self.buffer, self.dtype, self.shape, self.name = id, buffer, dtype, shape, name
        self.space = SPACES[buffer]
        self.on_chip = self.space != "hbm"
        self.row = prod(shape[1:]) if self.on_chip else prod(shape)
        self.kind, self.core, self.where, self.address = kind, core, where, address
        self.written = None  # PSUM: what matmuls wrote (psum.py)
        self.loops = 0  # device loops around its creation
        self.writes = 0  # instructions that write it


class Dynamic:
    """A part of a view's address that is known only at run time."""

    __slots__ = ("kind", "index", "scale", "dim")

    def __init__(self, kind, index, scale, dim):
        self.kind = kind  # "scalar": register or 1x1 tensor; "rows": one index per partition; "free": v4 indirection
        self.index, self.scale, self.dim = index, scale, dim


class DynamicSlice:
    """nl.ds(start, size): start may be a register."""

    __slots__ = ("start", "size")

    def __init__(self, start, size):
        self.start, self.size = start, size


def row_strides(shape):
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


class NkiTensor(Views, NKIObject):
    __slots__ = ("storage", "shape", "strides", "offset", "dtype", "dynamic", "fault", "_handle")

    def __init__(self, storage, shape, strides, offset, dtype, dynamic=None):
        self.storage, self.shape, self.strides = storage, shape, strides
        self.offset, self.dtype, self.dynamic = offset, dtype, dynamic
        self.fault = None  # why no instruction may use it: the error of an index outside, or of no elements
        self._handle = None

    # --- what it is ---

    @property
    def name(self):
        return self.storage.name

    @property
    def buffer(self):
        return self.storage.buffer

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return prod(self.shape)

    @property
    def itemsize(self):
        return self.dtype.bits // 8

    @property
    def on_chip(self):
        return self.storage.on_chip

    def __len__(self):
        return self.shape[0]

    def __getattr__(self, name):
        raise missing("NkiTensor", name, dir(type(self)))

    def _no_operator(self, *_):
        raise error("NKI018", f"a Python operator on {self!r}", "a call: tensors of a kernel have no operators",
                    "nl.add(x, y), nl.multiply(x, y), … or an nki.isa instruction")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _no_operator
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __matmul__ = __pow__ = __mod__ = _no_operator

    def __eq__(self, other):
        if isinstance(other, (NkiTensor, int, float)):
            return self._no_operator()
        return NotImplemented

    __hash__ = object.__hash__

    def __array_ufunc__(self, function, *_, **__):
        raise error("NKI018", f"NumPy's {function.__name__} on {self!r}", "a call of nki.language or nki.isa",
                    f"nl.{function.__name__}(…)")

    def _no_value(self, *_):
        raise error("NKI013", f"{self!r} used as a number or an array of the host", "a value known while the kernel is traced",
                    "values exist when the kernel has run: return the tensor, or look at it with nl.device_print")

    __int__ = __float__ = __array__ = _no_value

    def __iter__(self):
        return (self[i] for i in range(self.shape[0]))

    def __repr__(self):
        return f"<{self.name or 'tensor'} {self.dtype}{list(self.shape)} in {self.buffer.value}>"

    def __bool__(self):
        """True: kernels ask whether an optional tensor was given. What an assert computes in its own line is looked at
        when the kernel has run."""
        if self.on_chip and self.storage.where == user_frame() and in_assert():
            from trine.nki.movement import keep_for_host

            current().asserts.append((keep_for_host(self, "assert"), user_frame()))
        return True

    def is_indirect(self):
        return self.dynamic is not None

    def get_pattern(self):
        return [[s, n] for s, n in zip(self.strides, self.shape)]

    def is_contiguous(self):
        dims = list(zip(self.shape, self.strides))[1 if self.on_chip else 0 :]
        step = 1
        for n, stride in reversed(dims):
            if n != 1 and stride != step:
                return False
            step *= n
        return True

    # --- slicing ---

    def __getitem__(self, key):
        if type(key) is not tuple:
            key = (key,)
        storage, shape, strides = self.storage, self.shape, self.strides
        ndim = len(shape)
        if len(key) != ndim or Ellipsis in key:
            key = _fill(key, self)
        offset, dynamic, fault = self.offset, self.dynamic, self.fault
        out_shape, out_strides = [], []
        on_chip = storage.on_chip
        for d in range(ndim):
            k, n, stride = key[d], shape[d], strides[d]
            if type(k) is slice:
                start, stop, step = k.start, k.stop, k.step
                if start is None:
                    start = 0
                if stop is None:
                    stop = n
                if type(start) is not int or type(stop) is not int or (step is not None and type(step) is not int):
                    start, stop, step = _slice_numbers(self, d, start, stop, step)
                if start < 0:
                    start += n
                if stop < 0:
                    stop += n
                if start < 0 or stop > n or start >= stop:
                    fault, stop = fault or _outside(self, d, k), max(start, stop)
                if dynamic is not None and d == dynamic.dim and (start or stop != n):
                    raise _indirect_dim(self, d)
                offset += start * stride
                if step is None or step == 1:
                    out_shape.append(stop - start)
                    out_strides.append(stride)
                else:
                    if step < 1:
                        raise error("NKI011", f"step {step} in dimension {d}", "a step of 1 or more")
                    out_shape.append((stop - start + step - 1) // step)
                    out_strides.append(stride * step)
            elif type(k) is int:
                at = k + n if k < 0 else k
                if at < 0 or at >= n:
                    fault = fault or _outside(self, d, k)
                if dynamic is not None and d == dynamic.dim:
                    raise _indirect_dim(self, d)
                offset += at * stride
                if on_chip and d == 0:
                    out_shape.append(1)
                    out_strides.append(stride)
            else:
                offset, dynamic, wrong = _other_index(self, d, k, offset, dynamic, out_shape, out_strides)
                fault = fault or wrong
        if dynamic is not None and dynamic.dim is not None and len(out_shape) != ndim:
            dynamic = Dynamic(dynamic.kind, dynamic.index, dynamic.scale, None if dynamic.kind == "scalar" else 0)
        if on_chip:
            if len(out_shape) < 2 <= ndim:
                out_shape.append(1)
                out_strides.append(1)
        elif not out_shape:
            out_shape, out_strides = [1], [1]
        made = self.__class__(storage, tuple(out_shape), tuple(out_strides), offset, self.dtype, dynamic)
        made.fault = fault
        return made

    def __setitem__(self, key, value):
        from trine.nki.movement import assign

        assign(self[key], value)

    # --- to the machine ---

    def tile(self, keep_dims=False) -> int:
        """The operand handle of this view in the current trace. keep_dims: no merging of free dimensions."""
        if self._handle is not None and not keep_dims:
            return self._handle
        handle = make_tile(self, keep_dims)
        if self.dynamic is None and not keep_dims:
            self._handle = handle
        return handle


def _fill(key, tensor):
    """The key with an Ellipsis and missing dimensions spelled out."""
    dots = sum(1 for k in key if k is Ellipsis)
    missing = tensor.ndim - (len(key) - dots)
    if dots > 1 or missing < 0:
        raise error("NKI010", f"{len(key)} indices for a tensor of {tensor.ndim} dimensions, shape {tensor.shape}",
                    f"at most {tensor.ndim}")
    whole = (slice(None),) * missing
    if dots:
        at = next(i for i, k in enumerate(key) if k is Ellipsis)
        return key[:at] + whole + key[at + 1 :]
    return key + whole


def _as_int(value):
    """value as an int, or None: NumPy integers and anything with __index__."""
    index = getattr(type(value), "__index__", None)
    return index(value) if index else None


def _slice_numbers(tensor, dim, start, stop, step):
    numbers = [_as_int(v) if v is not None else 1 for v in (start, stop, step)]
    if any(v is None for v in numbers):
        raise error("NKI013", f"slice {start}:{stop}:{step} in dimension {dim}", "whole numbers known while tracing",
                    "for a start that a register holds use nl.ds(register, size)")
    return numbers


def _outside(tensor, dim, key):
    text = f"{key.start}:{key.stop}" if isinstance(key, slice) else str(key)
    if isinstance(key, slice):
        text = ":".join("" if v is None else str(v) for v in (key.start, key.stop))
    return error("NKI010", f"index [{text}] in dimension {dim} of {tensor!r}",
                 f"inside 0:{tensor.shape[dim]}, and not empty", "check the loop's bounds against the shape")


def _indirect_dim(tensor, dim):
    return error("NKI011", f"dimension {dim} of {tensor!r} is addressed at run time", "a static dimension",
                 "slice before making it indirect")


def _other_index(tensor, dim, key, offset, dynamic, out_shape, out_strides):
    """Indices that are neither int nor slice: nl.ds, registers, NumPy integers. (offset, dynamic, fault)"""
    n, stride = tensor.shape[dim], tensor.strides[dim]
    if isinstance(key, DynamicSlice):
        start, size = key.start, key.size
        out_shape.append(size)
        out_strides.append(stride)
    else:
        start, size = key, 1
        if tensor.on_chip and dim == 0:
            out_shape.append(1)
            out_strides.append(stride)
    number, fault = _as_int(start), None
    if number is not None:
        if isinstance(key, DynamicSlice) and number < 0 or number + size > n or number < -n or size < 1:
            fault = _outside(tensor, dim, slice(number, number + size) if isinstance(key, DynamicSlice) else number)
        return offset + (number if number >= 0 else number + n) * stride, dynamic, fault
    if not (is_register(start) or isinstance(start, NkiTensor)):
        raise error("NKI003", f"index {key!r} in dimension {dim}", "an integer, a slice, nl.ds or a register")
    if tensor.on_chip and dim == 0:
        raise error("NKI012", f"a runtime index in the partition dimension of {tensor!r}", "a static one",
                    "index a free dimension, or fetch the rows by DMA")
    if dynamic is None:
        return offset, Dynamic("scalar", start, stride, None), fault
    both = _sum_of_indices(dynamic, start, stride)
    if both is None:
        raise error("NKI011", f"a second runtime index on {tensor!r}", "one per view, or the indices of device loops")
    return offset, Dynamic("scalar", both, 1, None), fault


def _sum_of_indices(dynamic, start, stride):
    """Indices of device loops are affine in the iteration, so an address may hold several."""
    if dynamic.kind != "scalar" or not all(is_register(r) and r.loop is not None for r in (dynamic.index, start)):
        return None
    from trine.nki.registers import IndexSum

    both = IndexSum([(dynamic.index, dynamic.scale), (start, stride)])
    return both if both.registers <= 1 else None


def is_register(value):
    return getattr(value, "is_virtual_register", False)


def merge_dims(shape, strides):
    """Free dimensions outermost first as (stride, count), without those of size 1, neighbours merged where they can."""
    dims = []
    for n, stride in zip(shape, strides):
        if n == 1:
            continue
        if dims and dims[-1][0] == n * stride:
            dims[-1] = (stride, dims[-1][1] * n)
        else:
            dims.append((stride, n))
    return dims


FREE_DIMS_MAX = 4  # of an access pattern
ROWS_MAX = 65535  # of one HBM operand; more rows are walked as a free dimension


def make_tile(view, keep_dims):
    if view.fault is not None:
        raise view.fault
    tracer = current()
    storage, shape, strides, dtype = view.storage, view.shape, view.strides, view.dtype
    key = None
    if view.dynamic is None and not keep_dims:
        key = (storage.id, view.offset, shape, strides, dtype)
        handle = tracer.tiles.get(key)
        if handle is not None:
            return handle
    partition, offset, partition_stride = 0, view.offset, 0
    if storage.on_chip:
        row = storage.row * storage.dtype.bits // dtype.bits
        if shape[0] > 1 and strides[0] != row:
            raise error("NKI011", f"partitions {strides[0] / row:g} apart in {view!r}", "neighbouring partitions",
                        "move the rows by DMA, or change the layout")
        partition, offset = divmod(offset, row)
        partitions, shape, strides = shape[0], shape[1:], strides[1:]
    elif len(shape) == 1 or shape[0] > ROWS_MAX:
        partitions = 1
    else:
        partitions, partition_stride, shape, strides = shape[0], strides[0], shape[1:], strides[1:]
    dims = list(zip(strides, shape)) if keep_dims else merge_dims(shape, strides)
    if len(dims) > FREE_DIMS_MAX:
        raise error("NKI021", f"{len(dims)} free dimensions that do not merge in {view!r}",
                    f"at most {FREE_DIMS_MAX} per instruction",
                    "split the instruction, or copy the view into a contiguous tile first")
    extra = {}
    if view.dynamic is not None:
        offset, extra = dynamic_parts(tracer, view, offset)
    try:
        handle = tracer.trace.tile(storage.id, dtype=None if dtype is storage.dtype else dtype.trine,
                                   partition=partition, partitions=partitions, offset=offset, dims=dims,
                                   partition_stride=partition_stride, **extra)  # fmt: skip
    except (ValueError, IndexError) as e:
        raise from_core(e) from None
    if key is not None:
        tracer.tiles[key] = handle
    return handle


def dynamic_parts(tracer, view, offset):
    """The offset and the keyword arguments of Trace.tile for a view that is addressed at run time."""
    d = view.dynamic
    if d.kind == "rows":
        return offset, {"rows": (d.index.tile(), d.scale)}
    if d.kind == "free":
        return offset, {"free": (d.index.tile(), d.scale)}
    from trine.nki.registers import as_register

    return as_register(tracer, d.index).address(tracer, offset, d.scale)


def contiguous(storage):
    """The view of all of a storage."""
    shape = storage.shape
    return NkiTensor(storage, shape, row_strides(shape), 0, storage.dtype)


def as_dtype(given, where="dtype"):
    found = dtypes.find(given)
    if found is None:
        raise error("NKI017", f"{where} {given!r}", "one of " + ", ".join(dtypes.by_name))
    return found
