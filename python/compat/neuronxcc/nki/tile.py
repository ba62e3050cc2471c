"""Tensors of the functional dialect: views with operators, index expressions, assignment and block dimensions.

`x[i] = f(…)` lets the call that made the value write into x[i]; only where that cannot be is there a copy.
"""

from neuronxcc.nki.affine import Index, Mask
from trine.nki import create, elementwise, isa_compute, isa_move, machine, movement, psum
from trine.nki.tensor import PRIVATE_HBM, PSUM, SBUF, Dynamic, NkiTensor, as_dtype
from trine.nki.trace import current, error


class Tile(NkiTensor):
    __slots__ = ("bounds",)

    def __init__(self, storage, shape, strides, offset, dtype, dynamic=None):
        super().__init__(storage, shape, strides, offset, dtype, dynamic)
        self.bounds = ()  # (Index, size of the dimension it indexes): checked when the tile is used

    @classmethod
    def of(cls, view):
        if isinstance(view, Tile) or not isinstance(view, NkiTensor):
            return view
        return cls(view.storage, view.shape, view.strides, view.offset, view.dtype, view.dynamic)

    def __getitem__(self, key):
        keys = key if isinstance(key, tuple) else (key,)
        if any(isinstance(k, (Index, Tile)) for k in keys):
            return gathered(self, keys)
        return super().__getitem__(key)

    def __setitem__(self, key, value):
        assign(self[key], value)

    def __bool__(self):
        return True  # kernels ask whether an optional tensor was given

    def tile(self, keep_dims=False):
        for index, size in self.bounds:
            low, high = index.limits()
            if low < 0 or high >= size:
                raise error("NKI010", f"index {low} to {high} of {self!r}", f"0 to {size - 1}",
                            "mask what is outside: mask=(i < n)")
        return super().tile(keep_dims)

    def cut(self, region, full):
        """The part of the tile inside a mask's region of a tile of shape `full`."""
        offset, shape, bounds = self.offset, list(self.shape), []
        gap = len(full) - self.ndim
        for d in range(self.ndim):
            first, end = region[d + gap]
            if self.shape[d] == full[d + gap]:
                offset += first * self.strides[d]
                shape[d] = end - first
        for index, size in self.bounds:
            index = index.padded(len(full))
            const = index.const + sum(c * r[0] for c, r in zip(index.coefs, region))
            extent = [min(n, r[1] - r[0]) for n, r in zip(index.shape, region)]
            bounds.append((Index(index.coefs, extent, const), size))
        made = Tile(self.storage, tuple(shape), self.strides, offset, self.dtype, self.dynamic)
        made.bounds = tuple(bounds)
        return made

    def broadcast_to(self, shape):
        return Tile.of(movement.broadcast_to(self, tuple(shape)))

    def astype(self, dtype):
        return Tile.of(elementwise.copy(self, dtype))

    def expand_dims(self, axis):
        return self.expand_dim(axis)

    def assert_shape(self, shape):
        assert tuple(shape) == self.shape, f"expected {tuple(shape)}, found {self.shape}"
        return self


def gathered(tensor, keys):
    """tensor[keys] where keys are index expressions, integers, and at most one tile of row indices."""
    if len(keys) != tensor.ndim or any(k is Ellipsis for k in keys):
        from trine.nki.tensor import _fill

        keys = _fill(keys, tensor)
    ndim = max([k.ndim for k in keys if isinstance(k, (Index, Tile))])
    shape, strides, offset, dynamic, bounds = [1] * ndim, [0] * ndim, tensor.offset, None, []
    for d, k in enumerate(keys):
        n, stride = tensor.shape[d], tensor.strides[d]
        if isinstance(k, Tile):
            if tensor.on_chip or d:
                raise error("NKI025", f"a tile of indices in dimension {d} of {tensor!r}", "dimension 0 of a tensor in HBM")
            dynamic = Dynamic("rows", k, stride, 0)
            shape[0] = k.shape[0]
            continue
        if isinstance(k, slice):
            k = _slice_index(k, d, n, ndim, len(keys))
        elif not isinstance(k, Index):
            k = Index((0,) * ndim, (1,) * ndim, k)
        k = k.padded(ndim)
        bounds.append((k, n))
        offset += k.const * stride
        for i, (c, extent) in enumerate(zip(k.coefs, k.shape)):
            strides[i] += c * stride
            if extent != 1 and shape[i] not in (1, extent):
                raise error("NKI015", f"index expressions of {shape[i]} and {extent} elements", "shapes that agree")
            shape[i] = max(shape[i], extent)
    if tensor.on_chip and shape[0] == 1:
        strides[0] = tensor.strides[0]
    made = Tile(tensor.storage, tuple(shape), tuple(strides), offset, tensor.dtype, dynamic)
    made.bounds = tuple(bounds)
    return made


def _slice_index(k, dim, size, ndim, keys):
    if ndim != keys:
        raise error("NKI011", "a slice among index expressions of another rank", "index expressions for every dimension")
    start, stop, step = k.indices(size)
    coefs, shape = [0] * ndim, [1] * ndim
    coefs[dim], shape[dim] = step, len(range(start, stop, step))
    return Index(coefs, shape, start)


# --- assignment ---


def same_view(a, b):
    return (a.storage is b.storage and a.offset == b.offset and a.shape == b.shape and a.strides == b.strides
            and a.dtype is b.dtype)  # fmt: skip


def assign(target, value):
    """target = value: by the held call itself, by a fill, a copy or a transfer."""
    if not isinstance(value, NkiTensor):
        if isinstance(value, Blocks):
            raise error("NKI003", "a tensor with block dimensions assigned as a whole", "one block at a time")
        return fill(target, value)
    if same_view(target, value):
        return None
    if value.size != target.size:
        value = Tile.of(movement.broadcast_to(value, target.shape))
    if retarget(target, value):
        return None
    if not target.on_chip or not value.on_chip:
        return isa_move.dma_copy(target, value if value.storage.space != "psum" else elementwise.to_sbuf(value))
    if reachable(target) and reachable(value):
        return isa_compute.tensor_copy(target, value)
    if value.dtype is not target.dtype or value.storage.space == "psum":
        value = elementwise.copy(value, target.dtype)
    return isa_move.dma_copy(target, value)


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


def retarget(target, value):
    """Lets the held call write into target instead of its own fresh tile."""
    tracer = current()
    held = tracer.held
    if held is None or held.operands.get("dst") is None:
        return False
    made = held.operands["dst"]
    fresh = value.storage is made.storage and made.storage.writes == 1 and made.storage.kind == "scratch"
    if not fresh or not same_view(Tile.of(made), value) or not target.on_chip or target.dynamic is not None:
        return False
    exact = target.dtype is value.dtype or (value.dtype is elementwise.F32 and held.row not in ("dma_copy", "nc_transpose", "tensor_copy"))
    if not exact or not _may_write(held, target.storage.space) or not reachable(target):
        return False
    if value.shape[0] != target.shape[0]:
        return False
    held.operands = held.operands | {"dst": target}
    target.storage.writes += 1
    if held.row == "nc_matmul":
        held.attrs = held.attrs | {"accumulate": "overwrite"}
        psum.mode(target, False, 0)
    elif target.storage.space == "psum":
        psum.note_write(target)
    return True


def add_into(target, value):
    """target += value; a matmul adds in PSUM by itself."""
    held = current().held
    made = held.operands.get("dst") if held is not None else None
    if (made is not None and held.row == "nc_matmul" and isinstance(value, NkiTensor)
            and value.storage is made.storage and target.storage.space == "psum"):  # fmt: skip
        target.storage.zero = None  # the first matmul overwrites
        held.operands = held.operands | {"dst": target}
        held.attrs = held.attrs | {"accumulate": psum.mode(target, None, 0)}
        target.storage.writes += 1
        return target
    from neuronxcc.nki import language

    assign(target, language.add(target, value, dtype=target.dtype))
    return target


# --- block dimensions ---


class ParDim:
    """nl.par_dim(n): the dimension that lies on the partitions."""

    def __init__(self, size):
        self.size = int(size)

    def __index__(self):
        return self.size


class Blocks:
    """A tensor with dimensions before the partition: one tile of its own per block."""

    def __init__(self, blocks, shape, dtype, buffer, value=None):
        self.blocks, self.tile_shape, self.dtype, self.buffer, self.value = blocks, shape, as_dtype(dtype), buffer, value
        self.made, self.owner = {}, {}

    shape = property(lambda self: self.blocks + self.tile_shape)
    ndim = property(lambda self: len(self.shape))

    def block(self, index):
        for i, n in zip(index, self.blocks):
            if not 0 <= i < n:
                raise error("NKI010", f"block {index}", f"inside {self.blocks}")
        place = self.buffer.place(index, self.tile_shape, self.dtype) if hasattr(self.buffer, "place") else index
        if place not in self.made:
            address = place if hasattr(self.buffer, "place") else None
            self.made[place] = made = Tile.of(create.ndarray(self.tile_shape, self.dtype, space_of(self.buffer), address=address))
            if self.value is not None:
                set_value(made, self.value)
        if self.owner.setdefault(place, index) != index:
            self.owner[place] = index  # another block moves in: its first matmul overwrites again
            self.made[place].storage.written = None
        return self.made[place]

    def _split(self, key):
        key = key if isinstance(key, tuple) else (key,)
        n = len(self.blocks)
        index = tuple(getattr(type(k), "__index__", lambda _: None)(k) for k in key[:n])
        if len(index) < n or None in index:
            raise error("NKI011", f"index {key[:n]} of the block dimensions", "an integer for each of them")
        return index, key[n:]

    def __getitem__(self, key):
        index, rest = self._split(key)
        tile = self.block(index)
        return tile[rest] if rest else tile

    def __setitem__(self, key, value):
        assign(self[key], value)


def space_of(buffer):
    return getattr(buffer, "region", buffer) or SBUF


def set_value(tile, value):
    """Fills a new tile; zeros in PSUM wait, since a first matmul overwrites them anyway."""
    if value == 0 and tile.storage.space == "psum":
        storage = tile.storage

        def now():
            storage.zero = None
            isa_compute.memset(Tile.of(tile), 0)

        storage.zero = now
        return
    create.fill(tile, value)


def allocate(shape, dtype, buffer=None, name="", value=None):
    """nl.ndarray and its kin: a Tile, or Blocks when dimensions come before par_dim."""
    shape = tuple(shape) if not isinstance(shape, int) else (shape,)
    at = next((i for i, n in enumerate(shape) if isinstance(n, ParDim)), 0)
    sizes = tuple(int(n) for n in shape)
    region = create.as_buffer(space_of(buffer))
    if at and region in (SBUF, PSUM):
        return Blocks(sizes[:at], sizes[at:], dtype, buffer or SBUF, value)
    address = buffer.place((), sizes, as_dtype(dtype)) if hasattr(buffer, "place") else None
    kind = "output" if region is PRIVATE_HBM else "scratch"  # any tensor in HBM may be returned
    made = Tile.of(create.allocate(sizes, dtype, region, name, address, kind))
    if value is not None:
        set_value(made, value)
    return made


def masked(shape, mask, *operands):
    """(region's shape, operands cut to it) or None when the mask holds nowhere; no mask leaves all as it is."""
    if mask is None or mask is True:
        return operands
    if mask is False:
        return None
    if not isinstance(mask, Mask):
        raise error("NKI003", f"mask={mask!r}", "comparisons of index expressions")
    region = mask.region(shape)
    if region is None:
        return None
    return tuple(Tile.of(o).cut(region, shape) if isinstance(o, NkiTensor) else o for o in operands)


