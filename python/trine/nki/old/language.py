"""nki.language of the functional dialect: tiles in, tiles out, with masks, index expressions and block dimensions."""

import numpy as np

from trine.nki import create, dtypes, elementwise, isa_move, movement, ops
from trine.nki import language as current_language
from trine.nki import reduce as reductions
from trine.nki.isa_compute import FP32_MIN
from trine.nki.language import ds, hbm, num_programs, private_hbm, program_id, program_ndim, psum, sbuf, shared_hbm, tile_size
from trine.nki.old import isa as nisa
from trine.nki.old.blocks import Blocks, ParDim, allocate
from trine.nki.old.calls import F32, need, new, run, skip
from trine.nki.old.index import Index, Mask, arange, mgrid
from trine.nki.old.isa import _ordered_axes as ordered_axes
from trine.nki.old.loops import affine_range, dynamic_range, nc, reduction_key, sequential_range, spmd_dim, static_range
from trine.nki.old.record import cut
from trine.nki.old.tile import Tile, add_into, assign, conform, masking
from trine.nki.tensor import NkiTensor, as_dtype
from trine.nki.trace import current, error, missing

par_dim = ParDim
U8 = dtypes.by_name["uint8"]
# Dtypes are NumPy's own here, as they were: np.dtype(nl.bfloat16).itemsize works.
for _name, _dtype in dtypes.by_name.items():
    if not _dtype.packed and _dtype.trine != "tf32":
        globals()[_name] = _dtype.numpy.type if _dtype.numpy.type.__module__ == "numpy" else _dtype.numpy
tfloat32 = dtypes.by_name["tfloat32"]


class fp32:
    """Limits of float32."""

    min = FP32_MIN
    max = -FP32_MIN


class bfp16:
    """Limits of bfloat16."""

    min = -3.3895313892515355e38
    max = 3.3895313892515355e38


def finfo(dtype):
    """Limits of a floating-point dtype."""
    import ml_dtypes

    return ml_dtypes.finfo(as_dtype(dtype).numpy)


def sizeinbytes(dtype):
    return as_dtype(dtype).itemsize


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
    return Tile.of(create.rand(create.as_shape(shape), dtype))


def random_seed(seed, *, mask=None, **_):
    create.random_seed(seed if isinstance(seed, NkiTensor) else create.full((1, 1), seed, "int32"))


def shared_constant(constant, dtype=None, **_):
    return Tile.of(create.shared_constant(constant, dtype))


def shared_identity_matrix(n, dtype=np.uint8, **_):
    return shared_constant(np.eye(n), dtype)


def static_cast(input_data, dtype):
    """Casts on the host; a tile on the chip."""
    if isinstance(input_data, NkiTensor):
        return copy(input_data, dtype=dtype)
    return np.asarray(input_data).astype(as_dtype(dtype).numpy)


# --- movement ---


def load(src, *, mask=None, dtype=None, **_):
    src = need(src, "src")
    if src.on_chip:
        raise error("NKI016", f"nl.load of {src!r}", "a tensor in HBM", "it is on chip already: nl.copy")
    if src.ndim == 1:
        src = src.expand_dim(1)
    return run(isa_move.dma_copy, new(src.shape, dtype, src.dtype), mask, src=src)


def store(dst, value, *, mask=None, **_):
    dst = need(dst, "dst")
    if dst.on_chip:
        raise error("NKI016", f"nl.store into {dst!r}", "a tensor in HBM", "on chip assign: tile[...] = value")
    if not isinstance(value, NkiTensor):
        value = allocate(dst.shape if dst.ndim > 1 else dst.shape + (1,), dst.dtype, None, "", value)
    with masking(mask, dst.shape) as something:
        if something:
            assign(*_alike(dst, value))


def _alike(dst, value):
    """An HBM tensor and a tile in one shape: dimensions of size 1 do not count, free ones may be split or joined."""
    if value.shape == dst.shape:
        return dst, value
    split = value.size == dst.size and value.shape[0] == dst.shape[0]
    if split or [n for n in value.shape if n > 1] == [n for n in dst.shape if n > 1]:
        return dst.reshape(value.shape), value
    if value.ndim == dst.ndim:
        return dst, conform(value, dst.shape)
    raise error("NKI015", f"a tile of {list(value.shape)} stored into {list(dst.shape)}", "equal shapes")


def load_transpose2d(src, *, mask=None, dtype=None, **_):
    src = need(src, "src")
    if isinstance(mask, Mask):
        region = mask.region(src.shape)
        out = new(src.shape[::-1], dtype, src.dtype)
        if region is not None:
            assign(cut(out, region[::-1]), Tile.of(movement.load_transpose2d(cut(src, region), dtype)))
        return out
    return Tile.of(movement.load_transpose2d(src, dtype))


def copy(src, *, mask=None, dtype=None, **_):
    return nisa.tensor_copy(src, mask=mask, dtype=dtype)


copy = ops.Op("copy", "bypass", "copy", copy)


def transpose(x, *, dtype=None, mask=None, **_):
    transposed = nisa.nc_transpose(Tile.of(elementwise.to_sbuf(need(x, "x"))), mask=mask)
    return transposed if transposed.storage.space == "sbuf" and dtype is None else copy(transposed, dtype=dtype)


def matmul(x, y, *, transpose_x=False, mask=None, **_):
    x, y = Tile.of(elementwise.to_sbuf(need(x, "x"))), Tile.of(elementwise.to_sbuf(need(y, "y")))
    if F32 in (x.dtype, y.dtype) and x.dtype is not y.dtype:  # the array takes f32 with f32 only
        x, y = (t if t.dtype is F32 else Tile.of(elementwise.copy(t, F32)) for t in (x, y))
    if not transpose_x:
        x = Tile.of(elementwise.to_sbuf(nisa.nc_transpose(x, engine=nisa.tensor_engine)))
    return nisa.nc_matmul(x, y, mask=mask)


def broadcast_to(src, *, shape, **_):
    return src.broadcast_to(shape)


def expand_dims(data, axis):
    return data.expand_dim(axis)


def gather_flattened(data, indices, *, mask=None, dtype=None, **_):
    return Tile.of(movement.gather_flattened(data, indices, dtype=dtype))


def device_print(prefix, x, *, mask=None, **_):
    movement.device_print(prefix, x)


def atomic_rmw(dst, value, op, *, mask=None, **_):
    nisa.dma_copy(dst=dst, src=value, mask=mask, dst_rmw_op=op)


# --- elementwise ---


def _run(f, mask, dtype, x, *others):
    """A function of the current dialect on what the mask leaves of x; a tile of x's shape."""
    with masking(mask, x.shape) as something:
        out = Tile.of(f(x, *others)) if something else skip(new(x.shape, dtype, x.dtype))
    if dtype is not None:
        current().dialect.cast.add(out.storage)
    return out


def _unary(name):
    function = getattr(current_language, name)

    def f(x, *, dtype=None, mask=None, **_):
        return _run(lambda t: function(t, dtype), mask, dtype, need(x, "x"))

    f.__doc__ = function.__doc__
    return ops.Op(name, getattr(function, "alu", None), getattr(function, "act", None), f)


def _operands(x, y):
    """Both sides as tiles of as many dimensions and partitions, or a tile and a number."""
    if isinstance(x, Blocks) or isinstance(y, Blocks):
        raise error("NKI003", "arithmetic on a tensor with block dimensions", "one block at a time")
    if isinstance(x, NkiTensor) and isinstance(y, NkiTensor):
        x, y = Tile.of(x), Tile.of(y)
        x, y = _raised(x, y.ndim), _raised(y, x.ndim)
        if x.shape[0] == 1 and y.shape[0] > 1:
            x = x.broadcast_to((y.shape[0],) + x.shape[1:])
        elif y.shape[0] == 1 and x.shape[0] > 1:
            y = y.broadcast_to((x.shape[0],) + y.shape[1:])
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
        dtype = U8 if dtype is bool else dtype
        if name == "divide" and dtype is None and not any(t.dtype.is_float for t in (x, y) if isinstance(t, NkiTensor)):
            dtype = F32  # a quotient of whole numbers is none
        if not isinstance(x, NkiTensor):
            return _run(lambda t: function(x, t, dtype), mask, dtype, need(y, "y"))
        big = x if not isinstance(y, NkiTensor) or x.size >= y.size else y
        return _run(lambda _: function(x, y, dtype), mask, dtype, big)

    f.__doc__ = function.__doc__
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
    """1 where x is zero."""
    dtype = U8 if dtype is bool else dtype
    return _run(lambda t: current_language.logical_not(t, dtype), mask, dtype, need(x, "x"))


def where(condition, x, y, *, dtype=None, mask=None, **_):
    """x where condition is not zero, else y."""
    return _run(lambda c: current_language.where(c, x, y, dtype), mask, dtype, need(condition, "condition"))


def dropout(x, rate, *, dtype=None, mask=None, **_):
    return nisa.dropout(x, rate, mask=mask, dtype=dtype)


# --- reductions ---


def _reduction(name, alu):
    def f(x, axis, *, dtype=None, mask=None, keepdims=False, **_):
        return nisa.tensor_reduce(alu, x, axis, mask=mask, dtype=dtype, keepdims=keepdims)

    f.__doc__ = f"{name} over free axes."
    return ops.Op(name, alu, None, f)


sum, max, min, prod = (_reduction(n, a) for n, a in (("sum", "add"), ("max", "max"), ("min", "min"), ("prod", "multiply")))


def mean(x, axis, *, dtype=None, mask=None, keepdims=False, **_):
    """Mean over free axes."""
    x = need(x, "x")
    box = mask.region(x.shape) if isinstance(mask, Mask) else None
    count = 1
    for d in ordered_axes(axis, x.ndim)[1]:
        count *= x.shape[d] if box is None else box[d][1] - box[d][0]
    total = nisa.tensor_reduce("add", x, axis, mask=mask, dtype=F32, keepdims=keepdims)
    return nisa.tensor_scalar(total, "multiply", 1.0 / count, dtype=x.dtype if dtype is None else dtype)


def var(x, axis, *, dtype=None, mask=None, **_):
    """Variance over free axes."""
    away = subtract(x, mean(x, axis, dtype=F32, mask=mask, keepdims=True), dtype=F32, mask=mask)
    return mean(square(away, mask=mask), axis, dtype=x.dtype if dtype is None else dtype, mask=mask)  # noqa: F821


def all(x, axis, *, dtype=bool, mask=None, **_):
    """1 where no element along the axes is zero."""
    nonzero = not_equal(x, 0.0, dtype=F32, mask=mask)  # noqa: F821
    return nisa.tensor_reduce("min", nonzero, axis, mask=mask, dtype=U8 if dtype is bool else dtype)


def softmax(x, axis, *, dtype=None, compute_dtype=None, mask=None, **_):
    return _run(lambda t: reductions.softmax(t, axis, dtype), mask, dtype, need(x, "x"))


def rms_norm(x, w, axis, n, epsilon=1e-6, *, dtype=None, compute_dtype=None, mask=None, **_):
    x, w = _operands(need(x, "x"), need(w, "w"))
    return _run(lambda t: reductions.rms_norm(t, w, axis, n, epsilon, dtype, compute_dtype), mask, dtype, x)


def loop_reduce(x, op, loop_indices, *, dtype=None, mask=None, **_):
    """x of every iteration of these loops put together by op; complete after the last."""
    key, partial = reduction_key(loop_indices), current().dialect.reductions
    x = need(x, "x")
    if key not in partial:
        partial[key] = copy(x, mask=mask, dtype=dtype)
        current().release()  # the sum stays where it is, whatever the result is assigned to
    else:
        total = partial[key]
        assign(total, nisa.tensor_tensor(total, x, op, mask=mask, dtype=total.dtype))
    return partial[key]


# --- operators of tiles ---


def _operator(name, reverse=False):
    def f(self, other):
        if isinstance(other, Index):
            return NotImplemented if name != "add" else other.moved_by(self)  # an index that the machine completes
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
    raise missing("neuronxcc.nki.language", name, globals())
