"""What the rows share: the table, ATen's promotion and broadcasting, and the graph builder they are given.

A row is a function `(b, *arguments)` for one ATen overload; arguments come in the order of the op's schema, defaults
filled in, tensors as Values. `b.outs` says what torch itself infers for the results: a row never guesses a type.
"""

import torch

from trine.torch.build import NARROW, Text, Unsupported, Value, is_float, is_whole

ROWS = {}  # "add.Tensor" -> function


def row(*names):
    """Registers a function for ATen overloads, named without "aten."; "add" means "add.default"."""

    def register(function):
        for name in names:
            full = name if "." in name else name + ".default"
            if full in ROWS:
                raise ValueError(f"{full} has two rows")
            ROWS[full] = function
        return function

    return register


class Build(Text):
    """The builder as rows see it. `outs` are (dims, dtype) of the op's tensor results, None for other results."""

    def __init__(self):
        super().__init__()
        self.outs, self.strides, self.seed, self.seed_uses = [], {}, None, 0

    @property
    def dims(self):
        return self.outs[0][0]

    @property
    def dtype(self):
        return self.outs[0][1]

    # arguments

    def value(self, x, dtype, dims=None):
        """A tensor or number as a Value of a dtype, broadcast to dims."""
        if not isinstance(x, Value):
            return self.constant(x, dtype, self.dims if dims is None else dims)
        x = self.convert(x, dtype)
        return x if dims is None else self.broadcast(x, dims)

    def broadcast(self, x, dims):
        dims = tuple(dims)
        if x.dims == dims:
            return x
        lead = len(dims) - x.rank
        stretched = [i for i, d in enumerate(x.dims) if d == 1 and dims[i + lead] != 1]
        dims_left = [i for i in range(x.rank) if i not in stretched]
        x = self.reshape(x, [x.dims[i] for i in dims_left])
        return self.broadcast_in_dim(x, dims, [i + lead for i in dims_left])

    def like(self, x, value, dtype=None):
        """A number in the shape of x."""
        return self.constant(value, dtype or x.dtype, x.dims)

    def pair(self, x, y, dtype=None):
        """Both operands of a binary op: one dtype, one shape."""
        dtype = dtype or promoted(x, y)
        dims = torch.broadcast_shapes(*[v.dims for v in (x, y) if isinstance(v, Value)])
        return self.value(x, dtype, dims), self.value(y, dtype, dims)

    # arithmetic on Values of one dtype; a number stands for an array of it

    def _both(self, x, y):
        if not isinstance(x, Value):
            x = self.like(y, x)
        if not isinstance(y, Value):
            y = self.like(x, y)
        if x.dims != y.dims:
            dims = torch.broadcast_shapes(x.dims, y.dims)
            x, y = self.broadcast(x, dims), self.broadcast(y, dims)
        return x, y

    def add(self, x, y):
        return self.binary("add", *self._both(x, y))

    def sub(self, x, y):
        return self.binary("subtract", *self._both(x, y))

    def mul(self, x, y):
        return self.binary("multiply", *self._both(x, y))

    def div(self, x, y):
        return self.binary("divide", *self._both(x, y))

    def maximum(self, x, y):
        return self.binary("maximum", *self._both(x, y))

    def minimum(self, x, y):
        return self.binary("minimum", *self._both(x, y))

    def test(self, direction, x, y):
        return self.compare(direction, *self._both(x, y))

    def where(self, pred, x, y):
        if not isinstance(x, Value) and not isinstance(y, Value):
            raise Unsupported("a choice between two plain numbers")
        x, y = self._both(x, y)
        dims = torch.broadcast_shapes(pred.dims, x.dims)
        return self.select(self.broadcast(pred, dims), self.broadcast(x, dims), self.broadcast(y, dims))

    def negate(self, x):
        return self.unary("negate", x)

    def not_(self, x):
        return self.unary("not", x)

    def isnan(self, x):
        return self.compare("NE", x, x)

    # reductions

    def sum(self, x, axes, keep=False):
        return self.keep_dims(self.reduce("add", x, axes, 0), x, axes, keep)

    def mean(self, x, axes, keep=False):
        count = 1
        for i in axes:
            count *= x.dims[i]
        total = self.sum(x, axes, keep)
        return self.div(total, float(count)) if count else self.like(total, float("nan"))

    def keep_dims(self, reduced, x, axes, keep):
        return self.reshape(reduced, [1 if i in axes else d for i, d in enumerate(x.dims)]) if keep else reduced

    # numbers at random: SplitMix64 of an index, so that neither threads nor order matter

    def random_words(self, dims):
        """Uniform 32-bit numbers, each a mix of its index and the seed: engines have no wider words.

        The mixer is C. Wellons' lowbias32, twice; each use of a program starts from another key.
        """
        u32 = torch.uint32
        if self.seed is None:
            raise Unsupported("random numbers in a program without a seed")
        count = 1
        for d in dims:
            count *= d
        index = self.reshape(self.iota((count,), 0, u32), dims)
        self.seed_uses += 1
        low, high = (self.reshape(self.slice(self.seed, [i], [i + 1]), ()) for i in (0, 1))
        start = self.add(low, self.constant(wrap32(self.seed_uses * 0x85EBCA6B), u32))
        z = self._mixed(self.add(self.mul(index, 0x9E3779B9), start))
        return self._mixed(self.add(z, high))

    def _mixed(self, z):
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
            z = self.mul(self._shifted_in(z, shift), factor)
        return self._shifted_in(z, 16)

    def _shifted_in(self, z, shift):
        return self.binary("xor", z, self.binary("shift_right_logical", *self._both(z, shift)))

    def uniform(self, dims, dtype):
        """In [0, 1), 24 bits fine (53 in f64)."""
        if dtype is torch.float64:
            high, low = (self.convert(self.binary("shift_right_logical", *self._both(self.random_words(dims), by)), dtype) for by in (5, 6))
            return self.mul(self.add(self.mul(high, 2.0**26), low), 2.0**-53)
        top = self.binary("shift_right_logical", *self._both(self.random_words(dims), 8))
        return self.convert(self.mul(self.convert(top, torch.float32), 2.0**-24), dtype)

    def normal(self, dims, dtype):
        wide = torch.float64 if dtype is torch.float64 else torch.float32
        u = self.uniform(dims, wide)
        step = 2.0 ** -(54 if wide is torch.float64 else 25)
        centred = self.sub(self.mul(self.add(u, step), 2.0), 1.0)
        return self.convert(self.mul(self.op("chlo.erf_inv", [centred], dims, wide), 2.0**0.5), dtype)


def wrap32(value):
    return value & (1 << 32) - 1


def wide(dtype):
    """The dtype torch computes in: narrow floats in f32."""
    return torch.float32 if dtype in NARROW else dtype


def _category(x):
    dtype = x.dtype if isinstance(x, Value) else {bool: torch.bool, int: torch.int64, float: torch.float64}.get(type(x))
    if dtype is None or dtype.is_complex:
        return 3
    return 2 if is_float(dtype) else 0 if dtype is torch.bool else 1


def promoted(*operands):
    """ATen's promotion: tensors with dims first, then those without, then Python numbers."""
    groups = ([], [], [])
    for x in operands:
        if isinstance(x, Value):
            groups[0 if x.rank else 1].append(x)
        elif x is not None:
            groups[2].append(x)
    result, rank = None, -1
    for group in groups:
        if not group:
            continue
        found, category = None, max(map(_category, group))
        for x in group:
            dtype = x.dtype if isinstance(x, Value) else _number_dtype(x, result)
            found = dtype if found is None else torch.promote_types(found, dtype)
        if result is None:
            result, rank = found, category
        elif category > rank:
            result = found if category < 3 or not is_float(result) else torch.promote_types(result, torch.complex64)
            rank = category
    return result


def _number_dtype(x, beside):
    if isinstance(x, bool):
        return torch.bool
    if isinstance(x, int):
        return torch.int64
    if isinstance(x, float):
        return torch.get_default_dtype()
    return torch.complex128 if beside is torch.float64 else torch.complex64


def axis(dim, rank):
    if rank == 0 and dim in (0, -1):
        return 0
    if not -rank <= dim < rank:
        raise IndexError(f"dimension {dim} is out of range for rank {rank}")
    return dim % rank if rank else 0


def axes(dims, rank):
    """Of a reduction: None and [] mean all."""
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        return list(range(rank))
    if isinstance(dims, int):
        dims = [dims]
    return sorted({axis(d, rank) for d in dims}) if rank else []


__all__ = ["ROWS", "Build", "Unsupported", "Value", "axes", "axis", "is_float", "is_whole", "promoted", "row", "wide"]
