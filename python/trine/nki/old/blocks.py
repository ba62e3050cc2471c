"""Creation in the functional dialect: nl.par_dim, and tensors with block dimensions before it, a tile of its own each."""

from trine.nki import create
from trine.nki.old.index import whole
from trine.nki.old.loops import first_placement
from trine.nki.old.tile import Tile, assign
from trine.nki.tensor import PRIVATE_HBM, PSUM, SBUF, as_dtype
from trine.nki.trace import current, error


class ParDim:
    """nl.par_dim(n): the dimension that lies on the partitions."""

    def __init__(self, size):
        self.size = int(size)

    def __index__(self):
        return self.size


class Blocks:
    """A tensor with dimensions before the partition: one tile of its own per block. `at` are the indices given so far."""

    def __init__(self, blocks, shape, dtype, buffer, name="", value=None):
        self.blocks, self.tile_shape, self.dtype, self.buffer = blocks, shape, as_dtype(dtype), buffer
        self.name, self.value, self.made, self.owner, self.at = name, value, {}, {}, ()

    shape = property(lambda self: self.blocks[len(self.at) :] + self.tile_shape)
    ndim = property(lambda self: len(self.shape))
    itemsize = property(lambda self: self.dtype.itemsize)

    def __repr__(self):
        return f"<{self.name or 'tensor'} {self.dtype}{list(self.shape)} with blocks of {list(self.tile_shape)}>"

    def block(self, index):
        for i, n in zip(index, self.blocks):
            if not -n <= i < n:
                raise error("NKI010", f"block {index}", f"inside {self.blocks}")
        index = tuple(i % n for i, n in zip(index, self.blocks))
        has_address = hasattr(self.buffer, "address_of")
        slot = self.buffer.address_of(index, self.tile_shape, self.dtype) if has_address else index
        if slot not in self.made:
            self.made[slot] = made = Tile.of(create.ndarray(self.tile_shape, self.dtype, space_of(self.buffer), self.name,
                                                             slot if has_address else None))  # fmt: skip
            if self.value is not None:
                set_value(made, self.value)
        if self.owner.setdefault(slot, index) != index:
            self.owner[slot] = index  # another block moves in: its first matmul overwrites again
            self.made[slot].storage.written = None
        return self.made[slot]

    def _find(self, key):
        """(all block indices given with this key, the rest of it)."""
        key = key if isinstance(key, tuple) else (key,)
        left = len(self.blocks) - len(self.at)
        index = []
        for k in key[:left]:
            if k is Ellipsis or whole(k) is None:
                raise error("NKI011", f"index {k!r} of a block dimension of {self!r}", "an integer for each of them")
            index.append(whole(k))
        return self.at + tuple(index), key[left:]

    def __getitem__(self, key):
        index, rest = self._find(key)
        if len(index) < len(self.blocks):
            part = Blocks(self.blocks, self.tile_shape, self.dtype, self.buffer, self.name, self.value)
            part.made, part.owner, part.at = self.made, self.owner, index
            return part
        tile = self.block(index)
        return tile[rest] if rest else tile

    def __setitem__(self, key, value):
        target = self[key]
        if isinstance(target, Blocks):
            raise error("NKI011", f"an assignment to several blocks of {self!r}", "one block at a time")
        assign(target, value)


def space_of(buffer):
    return getattr(buffer, "region", buffer) or SBUF


def set_value(tile, value):
    """Fills a new tile; zeros in PSUM wait, since a first matmul overwrites them anyway."""
    if value == 0 and tile.storage.space == "psum":
        current().dialect.zero_later(tile)
    else:
        create.fill(tile, value)


def allocate(shape, dtype, buffer=None, name="", value=None):
    """nl.ndarray and its kin: a Tile, or Blocks when dimensions come before par_dim."""
    shape = (shape,) if whole(shape) is not None else tuple(shape)
    at = next((i for i, n in enumerate(shape) if isinstance(n, ParDim)), 0)
    sizes = create.as_shape(shape)
    region = create.as_buffer(space_of(buffer))
    if not current().dialect.obeys_addresses:
        buffer = region
    elif hasattr(buffer, "address_of"):
        buffer = first_placement(buffer)
    if at and region in (SBUF, PSUM):
        return Blocks(sizes[:at], sizes[at:], dtype, buffer or SBUF, name, value)
    address = buffer.address_of((), sizes, as_dtype(dtype)) if hasattr(buffer, "address_of") else None
    kind = "output" if region is PRIVATE_HBM else "scratch"  # any tensor in HBM may be returned
    made = Tile.of(create.allocate(sizes, dtype, region, name, address, kind))
    if value is not None:
        set_value(made, value)
    return made
