"""nki.language: functions of each element, by one instruction where the machine has one, by a few where it has not.

Every function takes tiles (or numbers, for the second operand) and returns a new tile in SBUF.
"""

import math

from trine.nki import create, dtypes, isa_compute, isa_rows, ops
from trine.nki.tensor import SBUF, NkiTensor, as_dtype
from trine.nki.trace import current, error

F32, S32, U8 = dtypes.by_trine["f32"], dtypes.by_trine["s32"], dtypes.by_trine["u8"]


def like(x, dtype=None, shape=None):
    """A new SBUF tile of x's shape; dtype None is x's own."""
    return create.ndarray(shape or x.shape, x.dtype if dtype is None else as_dtype(dtype), SBUF)


def tile(x, what):
    if not isinstance(x, NkiTensor):
        raise error("NKI003", f"nl.{what} of {x!r}", "a tile")
    if not x.on_chip:
        raise error("NKI016", f"nl.{what} of {x!r}", "a tile in SBUF or PSUM", "load it first: nl.load(x)")
    return x


def to_sbuf(x):
    """x, or a copy in SBUF when it lies in PSUM."""
    if x.storage.space == "sbuf":
        return x
    out = like(x)
    isa_compute.tensor_copy(out, x)
    return out


# --- one operand ---


def _activation(name):
    def f(x, dtype=None):
        out = like(tile(x, name), dtype)
        isa_compute.activation(out, ops.registry[name], x)
        return out

    f.__doc__ = f"{name} of each element, on the Scalar engine."
    return f


def _scaled(name, op0, operand0, op1=None, operand1=None):
    def f(x, dtype=None):
        out = like(tile(x, name), dtype)
        isa_compute.tensor_scalar(out, x, op0, operand0, op1=op1, operand1=operand1)
        return out

    f.__doc__ = f"{name} of each element."
    return f


def copy(x, dtype=None):
    """A copy; bit for bit where the dtype stays."""
    out = like(tile(x, "copy"), dtype)
    isa_compute.tensor_copy(out, x)
    return out


def reciprocal(x, dtype=None):
    """1 / x, correctly rounded, on the Vector engine."""
    out = like(tile(x, "reciprocal"), dtype)
    isa_rows.reciprocal(out, x)
    return out


def rsqrt(x, dtype=None):
    """1 / √x on GpSimd, which reads SBUF only; in the functional dialect by an activation."""
    out = like(tile(x, "rsqrt"), dtype)
    if current().dialect is not None:
        isa_compute.activation(out, "rsqrt", x)
    else:
        isa_compute.tensor_scalar(out, to_sbuf(x), "rsqrt", None)
    return out


def _whole(x):
    """x rounded to the nearest whole number, in f32; exact for |x| < 2^23."""
    whole = like(x, S32)
    isa_compute.tensor_copy(whole, x)
    out = like(x, F32)
    isa_compute.tensor_copy(out, whole)
    return out


def _corrected(x, dtype, compare, step):
    """Rounds, then steps back where rounding went past x. From 2^23 on every float is whole already."""
    x = to_sbuf(x)
    rounded, past = _whole(x), like(x, F32)
    isa_compute.tensor_tensor(past, rounded, x, compare)
    isa_compute.tensor_tensor(rounded, rounded, past, step)
    size, large, wide = like(x, F32), like(x, U8), like(x, F32)
    isa_compute.activation(size, "abs", x)
    isa_compute.tensor_scalar(large, size, "greater_equal", 8388608.0)
    isa_compute.tensor_copy(wide, x)
    isa_compute.tensor_copy_predicated(rounded, wide, large)
    return rounded if dtype is None and x.dtype is F32 else copy(rounded, dtype or x.dtype)


def floor(x, dtype=None):
    """The next whole number below."""
    return _corrected(tile(x, "floor"), dtype, "greater", "subtract")


def ceil(x, dtype=None):
    """The next whole number above."""
    return _corrected(tile(x, "ceil"), dtype, "less", "add")


def trunc(x, dtype=None):
    """The whole part, towards zero."""
    x = to_sbuf(tile(x, "trunc"))
    down, up, negative = floor(x, F32), ceil(x, F32), like(x, U8)
    isa_compute.tensor_scalar(negative, x, "less", 0.0)
    isa_compute.tensor_copy_predicated(down, up, negative)
    return down if dtype is None and x.dtype is F32 else copy(down, dtype or x.dtype)


def _angle(x, shift):
    """x + shift brought into [-π, π], where the sine table is good."""
    moved = like(x, F32)
    isa_compute.tensor_scalar(moved, x, "add", shift)
    multiples = like(x, F32)
    isa_compute.tensor_scalar(multiples, moved, "multiply", 1 / (2 * math.pi))
    multiples = _whole(multiples)
    out = like(x, F32)
    isa_compute.scalar_tensor_tensor(out, multiples, "multiply", -2 * math.pi, "add", moved)
    limit = 3.1415925  # the f32 below π
    isa_compute.tensor_scalar(out, out, "min", limit, op1="max", operand1=-limit)
    return out


def _sine(x, shift, dtype):
    out = like(x, dtype)
    isa_compute.activation(out, "sin", _angle(to_sbuf(x), shift))
    return out


def sin(x, dtype=None):
    """Sine, any angle."""
    return _sine(tile(x, "sin"), 0.0, dtype)


def cos(x, dtype=None):
    """Cosine, any angle."""
    return _sine(tile(x, "cos"), math.pi / 2, dtype)


def tan(x, dtype=None):
    """Tangent, as sine over cosine."""
    return divide(_sine(tile(x, "tan"), 0.0, F32), _sine(x, math.pi / 2, F32), dtype or x.dtype)


# --- two operands ---


def _result_dtype(x, y, dtype):
    if dtype is not None:
        return as_dtype(dtype)
    if isinstance(x, NkiTensor) and isinstance(y, NkiTensor):
        return dtypes.promote(x.dtype, y.dtype)
    return x.dtype if isinstance(x, NkiTensor) else y.dtype


def _fit(x, shape, name):
    """x with its size-1 free dimensions repeated to shape."""
    if x.shape == shape:
        return x
    if x.ndim != len(shape) or x.shape[0] != shape[0]:
        raise error("NKI015", f"nl.{name} of {list(x.shape)} and {list(shape)}", "shapes that agree, or 1 in a free dimension",
                    "repeat across partitions by DMA, or a matmul with ones")
    for d, (have, want) in enumerate(zip(x.shape, shape)):
        if have != want:
            if have != 1:
                raise error("NKI015", f"nl.{name} of {list(x.shape)} and {list(shape)}", "equal sizes, or 1")
            x = x.broadcast(d, want)
    return x


def _common(x, y, name):
    if x.ndim != y.ndim:
        raise error("NKI015", f"nl.{name} of {list(x.shape)} and {list(y.shape)}", "as many dimensions on both sides")
    if any(a != b and 1 not in (a, b) for a, b in zip(x.shape, y.shape)):
        raise error("NKI015", f"nl.{name} of {list(x.shape)} and {list(y.shape)}", "equal sizes, or 1 in a free dimension")
    return tuple(max(a, b) for a, b in zip(x.shape, y.shape))


def binary(name, x, y, dtype=None):
    """x op y on tiles, or on a tile and a number or a [P, 1] column."""
    alu = ops.registry[name].alu
    out_dtype = _result_dtype(x, y, dtype)
    if not isinstance(x, NkiTensor) or not isinstance(y, NkiTensor):
        if not isinstance(x, NkiTensor) and not isinstance(y, NkiTensor):
            raise error("NKI003", f"nl.{name} of two numbers", "at least one tile")
        t, number, reverse = (x, y, False) if isinstance(x, NkiTensor) else (y, x, True)
        out = like(tile(t, name), out_dtype)
        if alu == "power":
            return binary(name, *((t, _column(t, number)) if not reverse else (_column(t, number), t)), dtype=dtype)
        isa_compute.tensor_scalar(out, t, alu, number, reverse0=reverse)
        return out
    tile(x, name), tile(y, name)
    shape = _common(x, y, name)
    out = like(x, out_dtype, shape)
    for t, column, reverse in ((x, y, False), (y, x, True)):
        free = t.size // t.shape[0]
        if t.shape == shape and column.size == column.shape[0] and free > 1 and column.dtype.is_float and _arithmetic(alu):
            column = column if column.dtype is F32 else copy(column, F32)  # the engine takes one f32 a partition
            isa_compute.tensor_scalar(out, t, alu, column, reverse0=reverse)
            return out
    a, b = _fit(x, shape, name), _fit(y, shape, name)
    if a.storage.space == "psum" and b.storage.space == "psum":
        a = to_sbuf(a)
    if alu == "power":
        a, b = to_sbuf(a), to_sbuf(b)
    isa_compute.tensor_tensor(out, a, b, alu)
    return out


def _column(t, number):
    """A full tile of one number, for operators that take no immediate."""
    return create.full(t.shape, number, F32)


def _arithmetic(alu):
    return not alu.startswith("bitwise") and alu not in ("left_shift", "right_shift", "invert", "power")


def _binary(name):
    def f(x, y, dtype=None):
        return binary(name, x, y, dtype)

    f.__doc__ = f"{name} of two tiles, or of a tile and a number."
    return f


def divide(x, y, dtype=None):
    """x / y as x · (1/y): the machine has no division."""
    if not isinstance(y, NkiTensor):
        return binary("multiply", x, 1.0 / y, dtype)
    inverse = reciprocal(y, F32)
    return binary("multiply", x, inverse, dtype or _result_dtype(x, y, None))


def mod(x, y, dtype=None):
    """x - y·⌊x / y⌋."""
    return _remainder(x, y, dtype, floor)


def fmod(x, y, dtype=None):
    """x - y·trunc(x / y)."""
    return _remainder(x, y, dtype, trunc)


def _remainder(x, y, dtype, whole):
    multiples = binary("multiply", whole(divide(x, y, F32)), y, F32)
    return binary("subtract", x, multiples, dtype or _result_dtype(x, y, None))


def where(condition, x, y, dtype=None):
    """x where condition is not zero, else y."""
    tile(condition, "where")
    shapes = [t.shape for t in (condition, x, y) if isinstance(t, NkiTensor)]
    shape = tuple(max(sizes) for sizes in zip(*shapes))
    out = create.ndarray(shape, dtype or (_result_dtype(x, y, None) if len(shapes) > 1 else F32))
    for value, first in ((y, True), (x, False)):
        if isinstance(value, NkiTensor) and (first or value.dtype is not out.dtype or value.shape != shape):
            part = out if first else like(out)
            isa_compute.tensor_copy(part, _fit(value, shape, "where"))
            value = part
        elif first:
            isa_compute.memset(out, value)
    predicate = like(condition, U8)
    isa_compute.tensor_scalar(predicate, condition, "not_equal", 0.0)
    isa_compute.tensor_copy_predicated(out, value, _fit(predicate, shape, "where"))
    return out


# --- the table ---

# name, ALU operator, activation function; None where an instruction knows it not
_OPS = [
    ("add", "add", None), ("subtract", "subtract", None), ("multiply", "multiply", None), ("power", "power", None),
    ("maximum", "max", None), ("minimum", "min", None), ("abs_max", "abs_max", None), ("abs_min", "abs_min", None),
    ("equal", "equal", None), ("not_equal", "not_equal", None), ("less", "less", None), ("less_equal", "less_equal", None),
    ("greater", "greater", None), ("greater_equal", "greater_equal", None), ("logical_and", "logical_and", None),
    ("logical_or", "logical_or", None), ("logical_xor", "logical_xor", None), ("bitwise_and", "bitwise_and", None),
    ("bitwise_or", "bitwise_or", None), ("bitwise_xor", "bitwise_xor", None), ("left_shift", "left_shift", None),
    ("right_shift", "right_shift", None),
]  # fmt: skip
_ACTS = ["arctan", "erf", "erf_dx", "exp", "gelu", "gelu_dx", "gelu_apprx_sigmoid", "gelu_apprx_sigmoid_dx",
         "gelu_apprx_tanh", "log", "mish", "sigmoid", "sign", "silu", "silu_dx", "softplus", "sqrt", "tanh"]  # fmt: skip

for _name, _alu, _act in _OPS:
    globals()[_name] = ops.define(_name, _alu, _act, _binary(_name))
for _name in _ACTS:
    globals()[_name] = ops.define(_name, None, _name, _activation(_name))

abs = ops.define("abs", "abs", "abs", _activation("abs"))
square = ops.define("square", "square", "square", _activation("square"))
relu = ops.define("relu", "relu", "relu", _activation("relu"))
rsqrt = ops.define("rsqrt", "rsqrt", "rsqrt", rsqrt)
reciprocal = ops.define("reciprocal", "reciprocal", "reciprocal", reciprocal)
sin = ops.define("sin", None, "sin", sin)
cos = ops.define("cos", None, "cos", cos)
copy = ops.define("copy", "bypass", "copy", copy)
invert = ops.define("invert", "invert", None, _scaled("invert", "invert", None))
negative = ops.define("negative", None, None, _scaled("negative", "multiply", -1.0))
logical_not = ops.define("logical_not", None, None, _scaled("logical_not", "equal", 0.0))
prelu = ops.define("prelu", None, "prelu")
bypass = ops.define("bypass", "bypass", "copy")
average = ops.define("average", "average", None)
