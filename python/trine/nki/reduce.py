"""nki.language: reductions over free axes and what is built of them."""

from math import prod as _product

from trine.nki import create, elementwise, isa_compute, isa_rows, ops
from trine.nki.elementwise import F32, binary, like, tile
from trine.nki.isa_compute import trailing_axes
from trine.nki.tensor import as_dtype


def _reduced(x, axis, keepdims, what):
    """Shape of the result."""
    axes = trailing_axes(axis, x.ndim, f"nl.{what}")
    shape = x.shape[: axes[0]] + ((1,) * len(axes) if keepdims else ())
    return shape if len(shape) > 1 else shape + (1,), axes


def _reduce(alu, what):
    def f(x, axis, dtype=None, keepdims=False):
        shape, axes = _reduced(tile(x, what), axis, keepdims, what)
        out = create.ndarray(shape, as_dtype(dtype) if dtype is not None else x.dtype)
        isa_compute.tensor_reduce(out, alu, x, axes)
        return out

    f.__doc__ = f"{what} over the last free axes."
    return f


sum = ops.define("sum", "add", None, _reduce("add", "sum"))
max = ops.define("max", "max", None, _reduce("max", "max"))
min = ops.define("min", "min", None, _reduce("min", "min"))
prod = ops.define("prod", "multiply", None, _reduce("multiply", "prod"))


def mean(x, axis, dtype=None, keepdims=False):
    """Mean over the last free axes."""
    shape, axes = _reduced(tile(x, "mean"), axis, keepdims, "mean")
    total = create.ndarray(shape, F32)
    isa_compute.tensor_reduce(total, "add", x, axes)
    out = create.ndarray(shape, dtype or x.dtype)
    isa_compute.tensor_scalar(out, total, "multiply", 1.0 / _product(x.shape[axes[0] :]))
    return out


def var(x, axis, dtype=None, keepdims=False):
    """Variance over the last free axes, from the squared distances to the mean."""
    shape, axes = _reduced(tile(x, "var"), axis, keepdims, "var")
    middle = mean(x, axis, F32, keepdims=True)
    away = binary("subtract", x, middle, F32)
    isa_compute.activation(away, "square", away)
    out = mean(away, axis, dtype or x.dtype, keepdims)
    return out


def all(x, axis, dtype=None):
    """1 where no element along the axes is zero."""
    nonzero = like(tile(x, "all"), F32)
    isa_compute.tensor_scalar(nonzero, x, "not_equal", 0.0)
    return min(nonzero, axis, dtype or x.dtype)


def softmax(x, axis=-1, dtype=None):
    """exp(x - max) / Σ exp(x - max) over the last free axes."""
    shape, axes = _reduced(tile(x, "softmax"), axis, True, "softmax")
    top = create.ndarray(shape, F32)
    isa_compute.tensor_reduce(top, "max", x, axes, negate=True)
    raised, total = like(x, F32), create.ndarray(shape, F32)
    if axes[0] == 1:
        isa_compute.activation_reduce(raised, "exp", x, "add", total, bias=top.reshape((x.shape[0], 1)))
    else:
        moved = binary("add", x, top, F32)
        isa_compute.activation(raised, "exp", moved)
        isa_compute.tensor_reduce(total, "add", raised, axes)
    isa_rows.reciprocal(total, total)
    return binary("multiply", raised, total, dtype or x.dtype)


def rms_norm(x, w, axis, n, epsilon=1e-6, dtype=None, compute_dtype=None):
    """x / √(Σx²/n + ε) · w."""
    wide = as_dtype(compute_dtype) if compute_dtype is not None else F32
    shape, axes = _reduced(tile(x, "rms_norm"), axis, True, "rms_norm")
    squares, total = like(x, F32), create.ndarray(shape, F32)
    isa_compute.activation(squares, "square", x)
    isa_compute.tensor_reduce(total, "add", squares, axes)
    isa_compute.tensor_scalar(total, total, "multiply", 1.0 / n, op1="add", operand1=epsilon)
    scale = elementwise.rsqrt(total, F32)
    normal = binary("multiply", x, scale, wide)
    return binary("multiply", normal, w, dtype or x.dtype)


def dropout(x, rate, dtype=None):
    """x with each element zeroed with probability rate."""
    out = like(tile(x, "dropout"))
    isa_rows.dropout(out, x, rate)
    return out if dtype is None else elementwise.copy(out, dtype)
