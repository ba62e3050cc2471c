"""nki.language of the functional dialect: tiles in, tiles out, with masks, index expressions and block dimensions."""

import numpy as np

from neuronxcc.nki import isa as nisa
from neuronxcc.nki.affine import arange, mgrid
from neuronxcc.nki.isa import column, fit, fp32, new, run, trailing
from neuronxcc.nki.tile import Blocks, ParDim, Tile, add_into, allocate, assign, masked
from trine.nki import create, dtypes, elementwise, isa_compute, isa_move, movement, ops
from trine.nki import language as current_language
from trine.nki import reduce as reductions
from trine.nki.language import device_print as _device_print
from trine.nki.language import ds, hbm, num_programs, private_hbm, program_id, program_ndim, psum, sbuf, shared_hbm, tile_size
from trine.nki.tensor import NkiTensor, as_dtype
from trine.nki.trace import current, error, missing

par_dim = ParDim
globals().update(dtypes.by_name)
U8 = dtypes.by_name["uint8"]


# --- the launch grid ---


class SpmdDim:
    """A dimension of the launch grid that is dealt to physical cores."""

    def __init__(self, size, cores, first):
        self.size, self.cores, self.first = size, cores, first

    def core(self, i):
        return i // (self.size // self.cores) if self.first else i % self.cores


class nc:
    """nl.nc(n): n physical cores."""

    def __init__(self, cores):
        self.cores = self.size = cores

    def core(self, i):
        return i

    def __mul__(self, n):
        return spmd_dim(self, n)

    def __rmul__(self, n):
        return spmd_dim(n, self)


def spmd_dim(a, b):
    """Cores outermost (nc, n) or innermost (n, nc)."""
    if isinstance(a, nc):
        return SpmdDim(a.cores * b, a.cores, True)
    return SpmdDim(a * b.cores, b.cores, False)


# --- loops ---


def _range(*args, **kwargs):
    directives = kwargs.get("directives")
    ordered = directives if hasattr(directives, "__enter__") else None
    for i in range(*args):
        if ordered is None:
            yield i
        else:
            with ordered:
                yield i


affine_range = sequential_range = static_range = _range


# --- creation ---


def ndarray(shape, dtype, *, buffer=None, name="", **_):
    return allocate(shape, dtype, buffer, name)


def zeros(shape, dtype, *, buffer=None, name="", **_):
    return allocate(shape, dtype, buffer, name, 0)


def ones(shape, dtype, *, buffer=None, name="", **_):
    return allocate(shape, dtype, buffer, name, 1)


def full(shape, fill_value, dtype, *, buffer=None, name="", **_):
    return allocate(shape, dtype, buffer, name, fill_value)


def zeros_like(a, dtype=None, *, buffer=None, name="", **_):
    return allocate(a.shape, dtype or a.dtype, buffer or a.buffer, name, 0)


def empty_like(a, dtype=None, *, buffer=None, name="", **_):
    return allocate(a.shape, dtype or a.dtype, buffer or a.buffer, name)


def rand(shape, dtype=np.float32, **_):
    return Tile.of(create.rand(shape, dtype))


def random_seed(seed, *, mask=None, **_):
    create.random_seed(seed if isinstance(seed, NkiTensor) else create.full((1, 1), seed, "int32"))


def shared_constant(constant, dtype=None, **_):
    values = np.asarray(constant)
    return Tile.of(create.shared_constant(values if dtype is None else values.astype(as_dtype(dtype).numpy)))


def shared_identity_matrix(n, dtype=np.uint8, **_):
    return shared_constant(np.eye(n), dtype)


def static_cast(input_data, dtype):
    """Casts on the host."""
    return np.asarray(input_data).astype(as_dtype(dtype).numpy)


# --- movement ---


def load(src, *, mask=None, dtype=None, **_):
    shape = src.shape if src.ndim > 1 else src.shape + (1,)
    dst = new(shape, dtype, src.dtype)
    source = src if src.ndim > 1 else src.expand_dim(1)
    return run(isa_move.dma_copy, dst, mask, {"src": source})


def store(dst, value, *, mask=None, **_):
    if isinstance(value, NkiTensor):
        if value.ndim != dst.ndim and mask is None:
            value = value.reshape(dst.shape) if value.shape[0] == dst.shape[0] else value
        if mask is None and value.size != dst.size:
            value = value.broadcast_to(dst.shape)
    else:
        value = allocate(dst.shape, dst.dtype, None, "", value)
    cut = masked(dst.shape, mask, dst, value)
    if cut is not None:
        assign(cut[0], cut[1])


def load_transpose2d(src, *, mask=None, dtype=None, **_):
    (src,) = masked(src.shape, mask, src)
    return Tile.of(movement.load_transpose2d(src, dtype))


def copy(src, *, mask=None, dtype=None, **_):
    return nisa.tensor_copy(src, mask=mask, dtype=dtype)


def transpose(x, *, dtype=None, mask=None, **_):
    return nisa.nc_transpose(Tile.of(elementwise.to_sbuf(x)), dtype=dtype)


def matmul(x, y, *, transpose_x=False, mask=None, **_):
    x, y = Tile.of(elementwise.to_sbuf(x)), Tile.of(elementwise.to_sbuf(y))
    if not transpose_x:
        x = Tile.of(elementwise.to_sbuf(nisa.nc_transpose(x, engine=nisa.tensor_engine)))
    return nisa.nc_matmul(x, y)


def broadcast_to(src, *, shape, **_):
    return src.broadcast_to(shape)


def expand_dims(data, axis):
    return data.expand_dim(axis)


def gather_flattened(data, indices, *, mask=None, dtype=None, **_):
    return Tile.of(movement.gather_flattened(data, indices, dtype=dtype))


def device_print(prefix, x, *, mask=None, **_):
    _device_print(prefix, x)


def atomic_rmw(dst, value, op, *, mask=None, **_):
    cut = masked(dst.shape, mask, dst, value)
    if cut is not None:
        isa_move.dma_compute(cut[0], [cut[0], cut[1]], op)


# --- elementwise ---


def _masked(f, x, mask, dtype, shape=None, others=()):
    """f on the region of the mask; a result of the whole shape."""
    if mask is None:
        return Tile.of(f(x, *others))
    cut = masked(x.shape, mask, x, *others)
    if cut is None:
        return new(x.shape, dtype, x.dtype)
    part = Tile.of(f(*cut))
    out = new(x.shape, None, part.dtype)
    assign(masked(x.shape, mask, out)[0], part)
    return out


def _unary(name):
    function = getattr(current_language, name)

    def f(x, *, dtype=None, mask=None, **_):
        return _masked(lambda t: function(t, dtype), x, mask, dtype)

    return ops.Op(name, getattr(function, "alu", None), getattr(function, "act", None), f)


def _operands(x, y):
    """Both sides as tiles of one shape, or a tile and a number."""
    if isinstance(x, Blocks) or isinstance(y, Blocks):
        raise error("NKI003", "arithmetic on a tensor with block dimensions", "one block at a time")
    if isinstance(x, NkiTensor) and isinstance(y, NkiTensor):
        x, y = Tile.of(x), Tile.of(y)
        if x.ndim != y.ndim:
            wide = max(x.ndim, y.ndim)
            x, y = (t if t.ndim == wide else _raised(t, wide) for t in (x, y))
        for a, b in ((x, y), (y, x)):
            if a.shape[0] == 1 and b.shape[0] > 1:
                grown = a.broadcast_to((b.shape[0],) + a.shape[1:])
                return (grown, b) if a is x else (b, grown)
    return x, y


def _raised(tile, ndim):
    while tile.ndim < ndim:
        tile = tile.expand_dim(1)
    return tile


def _binary(name, default=None):
    function = getattr(current_language, name)

    def f(x, y, *, dtype=None, mask=None, **_):
        x, y = _operands(x, y)
        dtype = dtype if dtype is not None else default
        if dtype is bool:
            dtype = U8
        if not isinstance(x, NkiTensor):
            return _masked(lambda t: function(x, t, dtype), y, mask, dtype)
        return _masked(lambda a, b: function(a, b, dtype), x, mask, dtype, others=(y,))

    return ops.Op(name, getattr(function, "alu", None), getattr(function, "act", None), f)


_UNARY = """abs arctan ceil cos erf erf_dx exp floor gelu gelu_apprx_sigmoid gelu_apprx_tanh gelu_dx invert log mish
  negative reciprocal relu rsqrt sigmoid sign silu silu_dx sin softplus sqrt square tan tanh trunc""".split()
_BINARY = """add bitwise_and bitwise_or bitwise_xor divide fmod left_shift maximum minimum mod multiply power
  right_shift subtract""".split()
_COMPARE = "equal greater greater_equal less less_equal logical_and logical_or logical_xor not_equal".split()
for _name in _UNARY:
    globals()[_name] = _unary(_name)
for _name in _BINARY:
    globals()[_name] = _binary(_name)
for _name in _COMPARE:
    globals()[_name] = _binary(_name, U8)


def logical_not(x, *, dtype=U8, mask=None, **_):
    return _masked(lambda t: current_language.logical_not(t, U8 if dtype is bool else dtype), x, mask, dtype)


def where(condition, x, y, *, dtype=None, mask=None, **_):
    return _masked(lambda c: current_language.where(c, x, y, dtype), condition, mask, dtype)


def dropout(x, rate, *, dtype=None, mask=None, **_):
    return nisa.dropout(x, rate, mask=mask, dtype=dtype)


# --- reductions ---


def _reduction(name, alu):
    def f(x, axis, *, dtype=None, mask=None, keepdims=False, **_):
        return nisa.tensor_reduce(alu, x, axis, mask=mask, dtype=dtype, keepdims=keepdims)

    return ops.Op(name, alu, None, f)


sum, max, min, prod = (_reduction(n, a) for n, a in (("sum", "add"), ("max", "max"), ("min", "min"), ("prod", "multiply")))


def mean(x, axis, *, dtype=None, mask=None, keepdims=False, **_):
    (x,) = masked(x.shape, mask, x)
    _, axes, _ = trailing(x, axis)
    count = 1
    for a in axes:
        count *= x.shape[a]
    total = nisa.tensor_reduce("add", x, axis, dtype=nisa.F32, keepdims=keepdims)
    return nisa.tensor_scalar(total, "multiply", 1.0 / count, dtype=dtype or x.dtype)


def var(x, axis, *, dtype=None, mask=None, **_):
    (x,) = masked(x.shape, mask, x)
    return Tile.of(reductions.var(x, axis, dtype))


def all(x, axis, *, dtype=bool, mask=None, **_):
    (x,) = masked(x.shape, mask, x)
    return Tile.of(reductions.all(x, axis, U8 if dtype is bool else dtype))


def softmax(x, axis, *, dtype=None, compute_dtype=None, mask=None, **_):
    return _masked(lambda t: reductions.softmax(t, axis, dtype), x, mask, dtype)


def rms_norm(x, w, axis, n, epsilon=1e-6, *, dtype=None, compute_dtype=None, mask=None, **_):
    x, w = _operands(x, w)
    return Tile.of(reductions.rms_norm(x, w, axis, n, epsilon, dtype, compute_dtype))


def loop_reduce(x, op, loop_indices, *, dtype=None, mask=None, **_):
    raise error("NKI001", "nl.loop_reduce", "an accumulator tile and += in the loop")


def all_reduce(x, op, program_axes, **_):
    raise error("NKI001", "nl.all_reduce over the launch grid", "one program that does the reduction")


# --- operators of tiles ---


def _operator(name, reverse=False):
    def f(self, other):
        function = globals()[name]
        return function(other, self) if reverse else function(self, other)

    return f


for _symbol, _name in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("truediv", "divide"), ("pow", "power"),
                       ("mod", "mod"), ("and", "bitwise_and"), ("or", "bitwise_or"), ("xor", "bitwise_xor"),
                       ("lshift", "left_shift"), ("rshift", "right_shift")):  # fmt: skip
    setattr(Tile, f"__{_symbol}__", _operator(_name))
    setattr(Tile, f"__r{_symbol}__", _operator(_name, True))
for _symbol, _name in (("lt", "less"), ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal"),
                       ("eq", "equal"), ("ne", "not_equal")):  # fmt: skip
    setattr(Tile, f"__{_symbol}__", _operator(_name))
Tile.__hash__ = object.__hash__
Tile.__neg__ = lambda self: globals()["negative"](self)
Tile.__iadd__ = add_into


def _in_place(name):
    def f(self, other):
        assign(self, globals()[name](self, other, dtype=self.dtype))
        return self

    return f


for _symbol, _name in (("sub", "subtract"), ("mul", "multiply"), ("truediv", "divide")):
    setattr(Tile, f"__i{_symbol}__", _in_place(_name))


def __getattr__(name):
    raise missing("neuronxcc.nki.language", name)


