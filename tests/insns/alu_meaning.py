"""The ALU operators in NumPy, shared by the meaning tables: f32 arithmetic, bits, folds, one value per lane."""

from __future__ import annotations

import numpy as np
from harness import Maker, f32, numpy_dtype

ARITHMETIC = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "max": lambda a, b: np.where(np.isnan(a) | (a > b), a, b),
    "min": lambda a, b: np.where(np.isnan(a) | (a < b), a, b),
    "equal": lambda a, b: f32(a == b),
    "not_equal": lambda a, b: f32(a != b),
    "greater_equal": lambda a, b: f32(a >= b),
    "greater": lambda a, b: f32(a > b),
    "less_equal": lambda a, b: f32(a <= b),
    "less": lambda a, b: f32(a < b),
    "logical_and": lambda a, b: f32((a != 0) & (b != 0)),
    "logical_or": lambda a, b: f32((a != 0) | (b != 0)),
    "logical_xor": lambda a, b: f32((a != 0) ^ (b != 0)),
}
ABSOLUTE = {  # abs_ops: NeuronCore-v4; the operand itself, with its sign
    "abs_max": lambda a, b: np.where(np.isnan(a) | (np.abs(a) > np.abs(b)), a, b),
    "abs_min": lambda a, b: np.where(np.isnan(a) | (np.abs(a) < np.abs(b)), a, b),
}
UNARY = {"abs": np.abs, "reciprocal": lambda a: np.float32(1) / a}
UNARY_V4 = {"square": lambda a: a * a, "relu": lambda a: np.where(np.isnan(a) | (a > 0), a, np.float32(0))}
BITS = {
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "left_shift": lambda a, b: np.where(b < 32, a << np.minimum(b, 31), 0),
    "right_shift": lambda a, b: np.where(b < 32, a >> np.minimum(b, 31), 0),
}
OPERATORS = ARITHMETIC | ABSOLUTE | {k: (lambda f: lambda a, b: f(a))(f) for k, f in (UNARY | UNARY_V4).items()}
OPERATORS |= {"bypass": lambda a, b: a, "rsqrt": lambda a, b: f32(1 / np.sqrt(a.astype(np.float64)))}
OPERATORS |= {"power": lambda a, b: np.power(a.astype(np.float64), b.astype(np.float64)).astype(np.float32)}


def operate(op: str, a, b, reverse: bool = False):
    """f32; one-operand operators look at a whichever side it stands on."""
    unary = op in UNARY or op in UNARY_V4 or op in ("bypass", "rsqrt")
    return f32(OPERATORS[op](b, a) if reverse and not unary else OPERATORS[op](a, b))


def fold(op: str, values, start=None):
    """From the left, one rounding a step, along the last axis."""
    at = 0
    if start is None:
        start, at = values[..., 0], 1
        if op.startswith("logical"):
            start = f32(start != 0)
    for i in range(at, values.shape[-1]):
        start = operate(op, start, values[..., i])
    return start


def words(values):
    return values.view(f"u{values.dtype.itemsize}").astype(np.uint32)


def bits_of(values, name: str):
    """The low bits of 32-bit words, in a format of that width."""
    size = numpy_dtype(name).itemsize
    return values.astype(np.uint32).astype(f"u{size}").view(numpy_dtype(name))


def operators(chip: str) -> list[str]:
    return list(ARITHMETIC) + (list(ABSOLUTE) if chip == "trn3" else [])


def scalar(make: Maker, partitions: int, *, like=None):
    """An operand of one value per lane: a constant or a tile."""
    if make.chance(0.5):
        return make.number()
    return make.tile("f32", partitions, 1, space=make.space(), scale=2.0, special=0.01)


def scalar_values(operand, partitions: int):
    """[partitions, 1] f32."""
    if operand is None:
        return np.zeros((partitions, 1), np.float32)
    if isinstance(operand, float):
        return np.full((partitions, 1), operand, np.float32)
    return operand.f32
