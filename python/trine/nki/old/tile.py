"""Tensors of the functional dialect: views with index expressions and assignment. language.py gives them operators.

`x[i] = f(…)` lets the call that made the value write into x[i]; only where that cannot be is there a copy.
"""

from trine.nki import create, elementwise, isa_compute, isa_move, machine, movement, psum
from trine.nki.old.index import Index, Mask, whole
from trine.nki.old.record import cut
from trine.nki.tensor import Dynamic, DynamicSlice, NkiTensor
from trine.nki.tensor import _fill as filled
from trine.nki.trace import current, error


class Tile(NkiTensor):
    __slots__ = ("bounds",)
    __array_ufunc__ = None  # np.float32(2) * tile is tile's

    def __init__(self, storage, shape, strides, offset, dtype, dynamic=None):
        super().__init__(storage, shape, strides, offset, dtype, dynamic)
        self.bounds = ()  # (Index, size of the dimension it indexes) that go outside: a mask has to cut them

    @classmethod
    def of(cls, view):
        if isinstance(view, Tile) or not isinstance(view, NkiTensor):
            return view
        made = cls(view.storage, view.shape, view.strides, view.offset, view.dtype, view.dynamic)
        made.fault = view.fault
        return made

    def __getitem__(self, key):
        keys = key if isinstance(key, tuple) else (key,)
        self.check_bounds()
        for k in keys:
            if isinstance(k, (Index, Tile)):
                return gathered(self, keys)
            if isinstance(k, Mask):
                return masked_operand(self, keys)
        keys = [_plain(k) for k in keys]
        if any(type(k) is slice and type(k.stop) is int for k in keys):
            keys = filled(tuple(keys), self)
            if any(type(k) is slice and type(k.stop) is int and k.stop > n for k, n in zip(keys, self.shape)):
                return past_the_end(self, keys)
        return super().__getitem__(tuple(keys))

    def __setitem__(self, key, value):
        assign(self[key], value)

    def __bool__(self):
        return True  # kernels ask whether an optional tensor was given

    def _view(self, *args, **kwargs):
        self.check_bounds()
        return super()._view(*args, **kwargs)

    def tile(self, keep_dims=False):
        self.check_bounds()
        return super().tile(keep_dims)

    def check_bounds(self):
        for index, size in self.bounds:
            low, high = index.limits()
            if low < 0 or high >= size:
                raise error("NKI010", f"indices {low} to {high} of {self!r}", f"0 to {size - 1}",
                            "mask what is outside: mask=(i < n)")

    def broadcast_to(self, shape):
        return Tile.of(movement.broadcast_to(self, tuple(shape)))

    def astype(self, dtype):
        return Tile.of(elementwise.copy(self, dtype))

    def expand_dims(self, axis):
        return self.expand_dim(axis)

    def assert_shape(self, shape):
        if tuple(shape) != self.shape:
            raise error("NKI015", f"shape {self.shape}", f"{tuple(shape)}")
        return self


# --- indexing ---


def gathered(tensor, keys):
    """tensor[keys] where keys are index expressions, integers, and at most one tile of row indices."""
    keys = filled(keys, tensor) if len(keys) != tensor.ndim or any(k is Ellipsis for k in keys) else keys
    ndim = max(k.ndim for k in keys if isinstance(k, (Index, Tile)))
    shape, strides, offset, dynamic, bounds = [1] * ndim, [0] * ndim, tensor.offset, None, []
    for d, k in enumerate(keys):
        n, stride = tensor.shape[d], tensor.strides[d]
        if isinstance(k, Tile):
            dynamic, k = indirect(tensor, d, k, stride, ndim)
        elif isinstance(k, slice):
            k = _slice_index(k, d, n, ndim, len(keys))
        elif not isinstance(k, Index):
            k = Index((0,) * ndim, (1,) * ndim, whole(k))
        k = k.padded(ndim)
        if k.dynamic is not None:
            if dynamic is not None:
                raise error("NKI011", f"a second runtime index on {tensor!r}", "one")
            dynamic = Dynamic("scalar", k.dynamic, stride, None)
        elif not isinstance(keys[d], Tile):
            low, high = k.limits()
            if low < 0 or high >= n:
                bounds.append((k, n))
        offset += k.const * stride
        for i, (c, extent) in enumerate(zip(k.coefs, k.shape)):
            strides[i] += c * stride
            if extent != 1 and shape[i] not in (1, extent):
                raise error("NKI015", f"index expressions of {shape[i]} and {extent} elements", "shapes that agree")
            shape[i] = max(shape[i], extent)
    if tensor.on_chip:
        _keep_partition(tensor, keys, shape, strides)
    elif dynamic is not None and dynamic.kind == "rows" and strides[0]:
        raise error("NKI025", f"{tensor!r} indexed by a tile and by another index along the same dimension",
                    "the tile alone to vary along dimension 0 of the index")
    made = Tile(tensor.storage, tuple(shape), tuple(strides), offset, tensor.dtype, dynamic)
    made.bounds = tuple(bounds)
    return made


def _plain(k):
    """nl.ds and slices of numbers as a slice of ints."""
    if isinstance(k, DynamicSlice) and whole(k.start) is not None:
        return slice(whole(k.start), whole(k.start) + k.size)
    if type(k) is slice and all(v is None or whole(v) is not None for v in (k.start, k.stop, k.step)):
        return slice(*(None if v is None else whole(v) for v in (k.start, k.stop, k.step)))
    return k


def past_the_end(tensor, keys):
    """tensor[a:b] with b beyond the dimension: a mask has to cut it."""
    clipped = [slice(k.start, min(k.stop, n), k.step) if type(k) is slice and type(k.stop) is int else k
               for k, n in zip(keys, tensor.shape)]  # fmt: skip
    inside = NkiTensor.__getitem__(tensor, tuple(clipped))
    shape, bounds, at = list(inside.shape), [], 0
    for d, k in enumerate(keys):
        if type(k) is slice:
            if clipped[d] != k:
                start = k.start or 0
                step, coefs, extents = k.step or 1, [0] * len(shape), [1] * len(shape)
                shape[at] = extents[at] = len(range(start, k.stop, step))
                coefs[at] = step
                bounds.append((Index(coefs, extents, start), tensor.shape[d]))
            at += 1
        elif tensor.on_chip and d == 0:
            at += 1
    made = Tile(tensor.storage, tuple(shape), inside.strides, inside.offset, tensor.dtype, inside.dynamic)
    made.bounds = tuple(bounds)
    return made


def _keep_partition(tensor, keys, shape, strides):
    """On chip the first dimension of the result has to be the partition, alone."""
    first = keys[0] if isinstance(keys[0], Index) else Index((), (), 0)
    first = first.padded(len(shape))
    own = first.coefs[0] * tensor.strides[0]
    if any(first.coefs[1:]) or strides[0] != own:
        if len(shape) == 1 and not any(first.coefs):  # a[0, arange]: one partition
            shape.insert(0, 1)
            strides.insert(0, tensor.strides[0])
            return
        raise error("NKI012", f"partitions of {tensor!r} in another dimension than the first of the index",
                    "the index of dimension 0 to vary along dimension 0 only: nl.arange(n)[:, None]")
    if shape[0] == 1:
        strides[0] = tensor.strides[0]
    if len(shape) == 1:
        shape.append(1)
        strides.append(1)


def indirect(tensor, dim, tile, stride, ndim):
    """(Dynamic, the index it stands for) of a tile as an index: one row for each partition, or one runtime offset."""
    if tile.size == 1 and (tensor.on_chip or dim):
        return Dynamic("scalar", tile, stride, None), Index((0,) * ndim, (1,) * ndim)
    if tensor.on_chip:
        raise error("NKI025", f"a tile of indices in dimension {dim} of {tensor!r}",
                    "a tensor in HBM, or a tile of one element",
                    "gather inside SBUF with nl.gather_flattened or nisa.local_gather")
    if tile.size != tile.shape[0]:
        raise error("NKI025", f"indices of {list(tile.shape)}", "one for each partition")
    rows = (0,) * ndim, (tile.shape[0],) + (1,) * (ndim - 1)
    return Dynamic("rows", tile, stride, 0), Index(*rows)


def _slice_index(k, dim, size, ndim, keys):
    if ndim != keys:
        raise error("NKI011", "a slice among index expressions of another rank", "index expressions for every dimension")
    start, stop, step = k.indices(size)
    coefs, shape = [0] * ndim, [1] * ndim
    coefs[dim], shape[dim] = step, len(range(start, stop, step))
    return Index(coefs, shape, start)


def masked_operand(tensor, keys):
    """tensor[i < n]: the part of an operand of a matmul."""
    mask = keys[0]
    for k in keys[1:]:
        mask = mask & k
    region = mask.region(tensor.shape)
    if region is None:
        raise error("NKI010", f"a mask that leaves nothing of {tensor!r}", "at least one element")
    return cut(tensor, region)


# --- masks ---


class masking:
    """`with masking(mask, shape) as something`: calls inside work on the mask's part of tiles of this shape, if any."""

    __slots__ = ("region", "something", "before")

    def __init__(self, mask, shape):
        self.region, self.something = None, True
        if mask is None or mask is True:
            return
        if not isinstance(mask, Mask) and mask is not False:
            raise error("NKI003", f"mask={mask!r}", "comparisons of index expressions, joined by &")
        box = mask.region(shape) if mask is not False else None
        self.something = box is not None
        self.region = (box, tuple(shape)) if self.something else None

    def __enter__(self):
        recorder = current().dialect
        self.before = recorder.region
        if self.region is not None:
            recorder.region = self.region
        return self.something

    def __exit__(self, *_):
        current().dialect.region = self.before


# --- assignment ---


def same_view(a, b):
    return (a.storage is b.storage and a.offset == b.offset and a.shape == b.shape and a.strides == b.strides
            and a.dtype is b.dtype)  # fmt: skip


def assign(target, value):
    """target = value: by the held call itself, by a fill, a copy or a transfer."""
    if not isinstance(value, NkiTensor):
        if hasattr(value, "blocks"):
            raise error("NKI003", "a tensor with block dimensions assigned as a whole", "one block at a time")
        return fill(target, value)
    if same_view(target, value) or value.storage in current().dialect.skipped or retarget(target, value):
        return None
    if value.shape != target.shape:
        value = conform(value, target.shape)
    if not target.on_chip or not value.on_chip:
        if value.storage.space == "psum":  # what leaves PSUM by an engine is cast on the way, not by the DMA engines
            value = elementwise.copy(value, target.dtype)
        return isa_move.dma_copy(target, value)
    if reachable(target) and reachable(value):
        return isa_compute.tensor_copy(target, value)
    if value.dtype is not target.dtype or value.storage.space == "psum":
        value = elementwise.copy(value, target.dtype)
    return isa_move.dma_copy(target, value)


def conform(value, shape):
    """value in another shape: with dimensions of size 1 added or dropped, or repeated."""
    if value.size == _count(shape) and value.shape[0] == shape[0]:
        return value.reshape(shape)
    while value.ndim < len(shape):
        value = value.expand_dim(1)
    return Tile.of(movement.broadcast_to(value, shape))


def _count(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def reachable(view):
    """May an engine start at this partition? DMA goes where engines cannot."""
    count = view.shape[0]
    step = 128 if count > 64 else 64 if count > 32 else 32
    return (view.offset // view.strides[0]) % step == 0 if view.strides[0] else True


def fill(target, value):
    if target.on_chip and not reachable(target):
        spare = create.ndarray(target.shape, target.dtype)
        isa_compute.memset(spare, value)
        return isa_move.dma_copy(target, spare)
    return create.fill(target, value)


def _may_write(held, space):
    row = machine.rows()[held.row]
    kinds = next(o["kinds"] for o in row["operands"] if o["name"] == "dst")
    if held.engine == "gpsimd" and space == "psum":
        return False
    if held.engine == "tensor" and space != "psum":
        return False
    return space in kinds


_BITS = ("nc_transpose", "dma_transpose", "nc_stream_shuffle", "nc_n_gather", "local_gather")  # they change no dtype


def _keeps_value(held, value, target):
    """May the call write target's dtype at once? Not where the value was to be rounded to its own first."""
    if target.dtype is value.dtype:
        return held.row != "nc_transpose" or held.engine != "tensor" or value.dtype.bits > 8
    if held.row == "nc_transpose" and held.engine == "tensor":
        return target.dtype is elementwise.F32 and value.dtype.is_float
    if held.row in _BITS:
        return False
    return value.dtype is elementwise.F32 or value.storage not in current().dialect.cast


def _made_by(held, value):
    """Is value what the held call makes, all of it and nothing else's?"""
    made = held.whole if held is not None else None
    return (made is not None and isinstance(value, NkiTensor) and value.storage is made.storage
            and made.storage.writes == 1 and made.storage.kind == "scratch" and same_view(made, value))  # fmt: skip


def retarget(target, value):
    """Lets the held call write into target instead of its own fresh tile."""
    held = current().held
    if not _made_by(held, value) or not target.on_chip or target.dynamic is not None or target.bounds:
        return False
    fits = value.shape == target.shape or (held.box is None and value.size == target.size and value.shape[0] == target.shape[0])
    if not fits or not _keeps_value(held, value, target):
        return False
    if not _may_write(held, target.storage.space) or not reachable(target):
        return False
    if held.row == "nc_transpose" and held.engine == "tensor" and target.dtype is not value.dtype:
        multiply_by_identity(held)
    held.aim(target)
    if held.row == "nc_matmul":
        held.attrs = held.attrs | {"accumulate": "overwrite"}
        if target.dtype is not value.dtype:
            held.attrs.pop("is_transpose", None)  # which keeps the dtype; without, it is a multiply by the identity
        psum.mode(held.operands["dst"], False, 0)
    elif target.storage.space == "psum":
        psum.note_write(held.operands["dst"])
    return True


def multiply_by_identity(held):
    """A transpose to f32, where transposing alone keeps the dtype."""
    tracer = current()
    if "transpose_mode" not in tracer.features:
        return  # there a transpose is that multiplication
    data = held.operands["data"]
    tracer.held = None
    identity = create.shared_identity_matrix(data.shape[0], data.dtype)
    tracer.release()
    held.row, held.attrs = "nc_matmul", {}
    held.operands = {"dst": held.operands["dst"], "stationary": data, "moving": identity}
    held.handles = {"stationary": held.handles["data"], "moving": identity.tile()}
    tracer.held = held


def add_into(target, value):
    """target += value; a matmul adds in PSUM by itself."""
    held = current().held
    if isinstance(value, NkiTensor) and value.storage in current().dialect.skipped:
        return target
    if (_made_by(held, value) and held.row == "nc_matmul" and target.storage.space == "psum"
            and value.shape == target.shape and not target.bounds):  # fmt: skip
        held.aim(target)
        held.attrs = held.attrs | {"accumulate": psum.mode(held.operands["dst"], None, 0)}
        return target
    from trine.nki.old import language

    assign(target, language.add(target, value, dtype=target.dtype))
    return target
