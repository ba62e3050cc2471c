"""Elementwise ops: one number from the numbers at the same place."""

import math

import torch

from trine import _core
from trine.torch.rules import Unsupported, Value, is_float, is_whole, row, wide

ROUNDINGS = {"ceil": "ceil", "floor": "floor", "round": "round_nearest_even"}


def _unary(name):
    def emit(b, x):
        return b.convert(b.unary(name, b.convert(x, wide(b.dtype))), b.dtype)

    return emit


def _binary(name):
    def emit(b, x, y):
        return b.convert(b.binary(name, *b.pair(x, y, wide(b.dtype))), b.dtype)

    return emit


def _rounding(name):
    def emit(b, x):
        return x if is_whole(x.dtype) else b.unary(name, x)

    return emit


# Ops that are one of ours: by the torch column of its row in src/ops.
for _op in _core.ops_abroad():
    if _op["torch"]:
        row(*_op["torch"].split())((_unary if _op["inputs"] == 1 else _binary)(_op["stablehlo"]))
for _name, _op in ROUNDINGS.items():
    row(_name)(_rounding(_op))


@row("log2")
def log2(b, x):
    return _log_base(b, x, 1 / math.log(2))


@row("log10")
def log10(b, x):
    return _log_base(b, x, 1 / math.log(10))


def _log_base(b, x, factor):
    return b.convert(b.mul(b.unary("log", b.convert(x, wide(b.dtype))), factor), b.dtype)


@row("exp2")
def exp2(b, x):
    x = b.convert(x, wide(b.dtype))
    return b.convert(b.binary("power", b.like(x, 2.0), x), b.dtype)


@row("round.decimals")
def round_decimals(b, x, decimals):
    if is_whole(x.dtype):
        return x
    scale = 10.0 ** abs(decimals)
    first, last = (b.mul, b.div) if decimals >= 0 else (b.div, b.mul)
    x = b.convert(x, wide(x.dtype))
    return b.convert(last(b.unary("round_nearest_even", first(x, scale)), scale), b.dtype)


@row("trunc", "fix")
def trunc(b, x):
    return x if is_whole(x.dtype) else truncated(b, x)


def truncated(b, x):
    return b.where(b.test("LT", x, 0.0), b.unary("ceil", x), b.unary("floor", x))


@row("frac")
def frac(b, x):
    return b.sub(x, truncated(b, x))


@row("abs")
def abs_(b, x):
    return x if x.dtype in (torch.bool, torch.uint8) else b.op("abs", [x], x.dims, b.dtype)


@row("neg")
def neg(b, x):
    return b.negate(x)


@row("positive", "alias", "clone", "detach", "lift_fresh_copy", "lift", "lift_fresh", "contiguous", "alias_copy", "detach_copy")
def same(b, x, *_):
    return b.convert(x, b.dtype)


@row("conj", "_conj", "resolve_conj", "_conj_physical")
def conj(b, x):
    return b.unary("chlo.conj", x) if x.dtype.is_complex else x


@row("sign", "sgn")
def sign(b, x):
    if x.dtype is torch.bool:
        return x
    if x.dtype is torch.uint8:
        return b.convert(b.test("NE", x, 0), x.dtype)
    out = b.unary("sign", x)
    return b.where(b.isnan(x), b.like(x, 0.0), out) if is_float(x.dtype) else out


@row("signbit")
def signbit(b, x):
    if x.dtype in (torch.bool, torch.uint8):
        return b.constant(False, torch.bool, x.dims)
    if is_whole(x.dtype):
        return b.test("LT", x, 0)
    bits = {8: torch.int64, 4: torch.int32, 2: torch.int16}[x.dtype.itemsize]
    return b.test("LT", b.op("bitcast_convert", [x], x.dims, bits), 0)


@row("reciprocal")
def reciprocal(b, x):
    return b.div(1.0, b.convert(x, b.dtype))


@row("square")
def square(b, x):
    x = b.convert(x, b.dtype)
    return b.mul(x, x)


@row("isnan")
def isnan(b, x):
    return b.isnan(x) if not is_whole(x.dtype) else b.constant(False, torch.bool, x.dims)


@row("isinf")
def isinf(b, x):
    if is_whole(x.dtype):
        return b.constant(False, torch.bool, x.dims)
    if x.dtype.is_complex:
        raise Unsupported("isinf of complex numbers")
    return b.test("EQ", b.unary("abs", x), math.inf)


@row("isfinite")
def isfinite(b, x):
    if is_whole(x.dtype):
        return b.constant(True, torch.bool, x.dims)
    return b.op("is_finite", [x], x.dims, torch.bool)


@row("bitwise_not")
def bitwise_not(b, x):
    return b.not_(x)


@row("logical_not")
def logical_not(b, x):
    return b.not_(b.convert(x, torch.bool))


@row("nan_to_num")
def nan_to_num(b, x, nan, posinf, neginf):
    if is_whole(x.dtype):
        return x
    info = torch.finfo(x.dtype)
    out = b.where(b.isnan(x), b.like(x, nan or 0.0), x)
    out = b.where(b.test("EQ", x, math.inf), b.like(x, info.max if posinf is None else posinf), out)
    return b.where(b.test("EQ", x, -math.inf), b.like(x, info.min if neginf is None else neginf), out)


# two operands


def _scaled(b, name, x, y, alpha):
    if b.dtype is torch.bool:
        return b.binary("or", *b.pair(x, y, torch.bool))
    narrow = b.dtype
    dtype = wide(narrow) if alpha != 1 else narrow
    x, y = b.pair(x, y, dtype)
    return b.convert(b.binary(name, x, y if alpha == 1 else b.mul(y, alpha)), narrow)


@row("add.Tensor", "add.Scalar")
def add(b, x, y, alpha):
    return _scaled(b, "add", x, y, alpha)


@row("sub.Tensor", "sub.Scalar")
def sub(b, x, y, alpha):
    return _scaled(b, "subtract", x, y, alpha)


@row("rsub.Tensor", "rsub.Scalar")
def rsub(b, x, y, alpha):
    narrow = b.dtype
    x, y = b.pair(x, y, wide(narrow))
    return b.convert(b.sub(y, x if alpha == 1 else b.mul(x, alpha)), narrow)


@row("mul.Tensor", "mul.Scalar")
def mul(b, x, y):
    return b.binary("multiply", *b.pair(x, y, b.dtype))


@row("div.Tensor", "div.Scalar")
def div(b, x, y):
    return b.binary("divide", *b.pair(x, y, b.dtype))


@row("div.Tensor_mode", "div.Scalar_mode")
def div_mode(b, x, y, rounding_mode):
    if rounding_mode is None:
        return div(b, x, y)
    x, y = b.pair(x, y, wide(b.dtype))
    out = floor_divide(b, x, y) if rounding_mode == "floor" else _cut_divide(b, x, y)
    return b.convert(out, b.dtype)


@row("floor_divide", "floor_divide.Scalar")
def floor_divide_row(b, x, y):
    return b.convert(floor_divide(b, *b.pair(x, y, wide(b.dtype))), b.dtype)


def _cut_divide(b, x, y):
    out = b.div(x, y)
    return truncated(b, out) if is_float(x.dtype) else out


def floor_divide(b, x, y):
    """As Python divides. Of floats by way of the exact remainder, which x / y would round across a whole number."""
    if x.dtype in (torch.uint8, torch.bool):
        return b.div(x, y)
    rest = b.binary("remainder", x, y)
    differs = b.binary("and", b.test("NE", rest, 0), b.test("NE", b.test("LT", rest, 0), b.test("LT", y, 0)))
    if is_whole(x.dtype):
        return b.where(differs, b.sub(b.div(x, y), 1), b.div(x, y))
    out = b.div(b.sub(x, rest), y)
    out = b.where(differs, b.sub(out, 1.0), out)
    low = b.unary("floor", out)
    out = b.where(b.test("GT", b.sub(out, low), 0.5), b.add(low, 1.0), low)
    plain = b.div(x, y)
    out = b.where(b.test("EQ", out, 0.0), b.mul(plain, 0.0), out)
    unusual = b.binary("or", b.test("EQ", y, 0.0), b.not_(b.op("is_finite", [plain], plain.dims, torch.bool)))
    return b.where(unusual, plain, out)


@row("fmod.Tensor", "fmod.Scalar")
def fmod(b, x, y):
    return b.convert(b.binary("remainder", *b.pair(x, y, wide(b.dtype))), b.dtype)


@row("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(b, x, y):
    x, y = b.pair(x, y, wide(b.dtype))
    rest = b.binary("remainder", x, y)
    if x.dtype is not torch.uint8:
        differs = b.binary("and", b.test("NE", rest, 0), b.test("NE", b.test("LT", rest, 0), b.test("LT", y, 0)))
        rest = b.where(differs, b.add(rest, y), rest)
    return b.convert(rest, b.dtype)


@row("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def pow_(b, x, y):
    if not isinstance(y, Value):
        whole = is_whole(b.dtype)
        if y == 2:
            x = b.convert(x, b.dtype)
            return b.mul(x, x)
        if y == 1:
            return b.convert(x, b.dtype)
        if y == 0.5 and not whole and not b.dtype.is_complex:
            return b.convert(b.unary("sqrt", b.convert(x, wide(b.dtype))), b.dtype)
        if y == 3:
            x = b.convert(x, wide(b.dtype))
            return b.convert(b.mul(b.mul(x, x), x), b.dtype)
    x, y = b.pair(x, y, wide(b.dtype))
    return b.convert(b.binary("power", x, y), b.dtype)


@row("maximum")
def maximum(b, x, y):
    return b.binary("maximum", *b.pair(x, y, b.dtype))


@row("minimum")
def minimum(b, x, y):
    return b.binary("minimum", *b.pair(x, y, b.dtype))


@row("fmax")
def fmax(b, x, y):
    return _ignoring_nan(b, "maximum", x, y)


@row("fmin")
def fmin(b, x, y):
    return _ignoring_nan(b, "minimum", x, y)


def _ignoring_nan(b, name, x, y):
    x, y = b.pair(x, y, b.dtype)
    out = b.binary(name, x, y)
    if is_whole(x.dtype):
        return out
    return b.where(b.isnan(x), y, b.where(b.isnan(y), x, out))


@row("copysign.Tensor")
def copysign(b, x, y):
    x, y = b.pair(x, y, wide(b.dtype))
    size = b.unary("abs", x)
    return b.convert(b.where(signbit(b, y), b.negate(size), size), b.dtype)


@row("hypot")
def hypot(b, x, y):
    x, y = b.pair(x, y, wide(b.dtype))
    x, y = b.unary("abs", x), b.unary("abs", y)
    big, small = b.maximum(x, y), b.minimum(x, y)
    ratio = b.div(small, b.where(b.test("EQ", big, 0.0), b.like(big, 1.0), big))
    out = b.mul(big, b.unary("sqrt", b.add(b.mul(ratio, ratio), 1.0)))
    return b.convert(b.where(b.test("EQ", big, math.inf), big, out), b.dtype)


@row("nextafter")
def nextafter(b, x, y):
    return b.binary("chlo.next_after", *b.pair(x, y, b.dtype))


def _logical(name):
    def emit(b, x, y):
        dims = b.dims
        return b.binary(name, b.broadcast(b.convert(x, torch.bool), dims), b.broadcast(b.convert(y, torch.bool), dims))

    return emit


for _name in ("and", "or", "xor"):
    row(f"logical_{_name}")(_logical(_name))


@row("bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar", "__rshift__.Scalar", "__rshift__.Tensor")
def right_shift(b, x, y):
    name = "shift_right_logical" if b.dtype is torch.uint8 else "shift_right_arithmetic"
    return b.binary(name, *b.pair(x, y, b.dtype))


def _comparison(direction):
    def emit(b, x, y):
        return b.compare(direction, *b.pair(x, y))

    return emit


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    row(f"{_name}.Tensor", f"{_name}.Scalar")(_comparison(_name.upper()))


@row("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(b, pred, x, y):
    x, y = b.value(x, b.dtype, b.dims), b.value(y, b.dtype, b.dims)
    return b.select(b.broadcast(b.convert(pred, torch.bool), b.dims), x, y)


@row("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(b, x, mask, value):
    x, value = b.value(x, b.dtype, b.dims), b.value(value, b.dtype, b.dims)
    return b.select(b.broadcast(mask, b.dims), value, x)


def _limits(low_at, high_at):
    def emit(b, x, *limits):
        x = b.value(x, b.dtype, b.dims)
        low = limits[low_at] if low_at is not None else None
        high = limits[high_at] if high_at is not None else None
        if low is not None:
            x = b.binary("maximum", x, b.value(low, b.dtype, b.dims))
        if high is not None:
            x = b.binary("minimum", x, b.value(high, b.dtype, b.dims))
        return x

    return emit


row("clamp", "clamp.Tensor")(_limits(0, 1))
row("clamp_min", "clamp_min.Tensor")(_limits(0, None))
row("clamp_max", "clamp_max.Tensor")(_limits(None, 0))


def real_part(dtype):
    return {torch.complex64: torch.float32, torch.complex128: torch.float64}.get(dtype, dtype)


@row("lerp.Scalar", "lerp.Tensor")
def lerp(b, x, y, weight):
    dtype = wide(b.dtype)
    x, y, weight = (b.value(v, dtype, b.dims) for v in (x, y, weight))
    near = b.add(x, b.mul(weight, b.sub(y, x)))
    far = b.sub(y, b.mul(b.sub(y, x), b.sub(1.0, weight)))
    part = real_part(dtype)
    small = b.test("LT", b.op("abs", [weight], weight.dims, part), 0.5)
    return b.convert(b.where(small, near, far), b.dtype)


@row("addcmul")
def addcmul(b, x, y, z, value):
    dtype = wide(b.dtype)
    x, y, z = (b.value(v, dtype, b.dims) for v in (x, y, z))
    product = b.mul(y, z)
    return b.convert(b.add(x, product if value == 1 else b.mul(product, value)), b.dtype)


@row("addcdiv")
def addcdiv(b, x, y, z, value):
    dtype = wide(b.dtype)
    x, y, z = (b.value(v, dtype, b.dims) for v in (x, y, z))
    return b.convert(b.add(x, b.mul(b.div(y, z), value)), b.dtype)


@row("complex")
def complex_(b, real, imag):
    part = torch.float32 if b.dtype is torch.complex64 else torch.float64
    return b.op("complex", list(b.pair(real, imag, part)), b.dims, b.dtype)


@row("angle")
def angle(b, x):
    if x.dtype.is_complex:
        real, imag = (b.op(n, [x], x.dims, b.dtype) for n in ("real", "imag"))
        return b.binary("atan2", imag, real)
    x = b.convert(x, b.dtype)
    out = b.where(b.test("LT", x, 0.0), b.like(x, math.pi), b.like(x, 0.0))
    return b.where(b.isnan(x), x, out)


@row("digamma")
def digamma(b, x):
    x = b.convert(x, wide(b.dtype))
    pole = b.where(signbit(b, x), b.like(x, math.inf), b.like(x, -math.inf))
    return b.convert(b.where(b.test("EQ", x, 0.0), pole, b.unary("chlo.digamma", x)), b.dtype)


@row("polygamma")
def polygamma(b, n, x):
    if n == 0:
        return digamma(b, x)
    x = b.convert(x, wide(b.dtype))
    pole = b.like(x, math.inf if n % 2 else -math.inf)
    out = b.binary("chlo.polygamma", b.like(x, float(n)), x)
    return b.convert(b.where(b.test("EQ", x, 0.0), pole, out), b.dtype)
