"""Verbs of the ops' text tests: each line is one op, named by its file, judged by an expression in NumPy.

`case OPERANDS attr=... expect EXPRESSION [tol Nulp]` runs the op by its reference meaning. Operands are f32[4,3] or a
class of dtypes (float[4], any[7] ...), and the line then runs once for each. In the expression a, b, c ... are the
operands exactly: integers of any size, floats twice as wide; A, B, C ... are the arrays themselves. What it gives is
rounded once, or wrapped, to the result's dtype: `to=`, or else the first operand's. Data is seeded and full of edges
unless `range=[low,high]` or `a=[...]` says otherwise. `error ... ~ regex` is refused with that message. `graph` runs
the graph in its input.
"""

import functools
import types
import zlib

import ml_dtypes
import numpy as np
import pytest

from ops import oracles
from trine import _core

ROWS = {r["name"]: r for r in _core.dtypes() if r["numpy"]}
DTYPES = {n: np.dtype(getattr(ml_dtypes, r["numpy"], r["numpy"])).type for n, r in ROWS.items()}
INTS = {n: (r["bits"], n[0] == "s") for n, r in ROWS.items() if n[0] in "su"}
FLOATS = [n for n in DTYPES if n[0] == "f" or n == "bf16"]
CLASSES = {
    "int": list(INTS),
    "signed": [n for n in INTS if n[0] == "s"],
    "float": FLOATS,
    "wide_float": ["f32", "f64", "f16", "bf16"],
    "complex": ["c64", "c128"],
    "inexact": FLOATS + ["c64", "c128"],
    "real": FLOATS + list(INTS),
    "numeric": FLOATS + list(INTS) + ["c64", "c128"],
    "bits": [*INTS, "bool"],
    "ordered": [*FLOATS, *INTS, "bool"],
    "any": list(DTYPES),
}
RESERVED = {"to", "range", "seed", *"abcdefgh"}


def variants(line):
    classes = [o.dtype for o in line.operands if o.dtype in CLASSES]
    return CLASSES[classes[0]] if classes else [""]


# Arrays: as the core keeps them, and wide.


def to_bytes(array, name):
    if name in INTS and INTS[name][0] < 8:
        array = array.astype(np.int8 if INTS[name][1] else np.uint8)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def from_bytes(name, shape, raw):
    if name in INTS and INTS[name][0] < 8:
        return np.frombuffer(raw, np.int8 if INTS[name][1] else np.uint8).astype(DTYPES[name]).reshape(shape)
    return np.frombuffer(raw, DTYPES[name]).reshape(shape)


def wide(array, name):
    if name in INTS:
        codes = array.astype(np.int64 if INTS[name][1] else np.uint64)
        return np.array([int(v) for v in codes.reshape(-1)], object).reshape(array.shape)
    if name in ("c64", "c128"):
        with np.errstate(all="ignore"):
            return array.astype(np.complex128 if name == "c64" else np.clongdouble)
    if name in FLOATS:
        return array.astype(np.longdouble if name == "f64" else np.float64)
    return array


def round_odd(x):
    """f64 to f32 such that rounding once more is the same as rounding once."""
    near = x.astype(np.float32)
    off = np.isfinite(x) & (near.astype(np.float64) != x)
    codes = near.view(np.uint32) - (off & (np.abs(near.astype(np.float64)) > np.abs(x)))
    return np.where(off, codes | 1, codes).astype(np.uint32).view(np.float32)


def narrow(value, name):
    """A wide value in a dtype: integers wrap, floats round to nearest even."""
    value = np.asarray(value)
    if name in INTS:
        bits, signed = INTS[name]
        codes = [int(v) & (2**bits - 1) for v in value.reshape(-1)]
        codes = [v - 2**bits if signed and v >> (bits - 1) else v for v in codes]
        return np.array(codes, np.int64 if signed else np.uint64).astype(DTYPES[name]).reshape(value.shape)
    if value.dtype == object:
        value = value.astype(np.longdouble)
    if name in FLOATS and name not in ("f32", "f64"):
        value = round_odd(np.atleast_1d(value).astype(np.float64)).reshape(value.shape)
    return value.astype(DTYPES[name])


# Data.

SPECIAL = [0.0, -0.0, 1, -1, 0.5, -0.5, 2, 3, -2.5, 1.5, np.inf, -np.inf, np.nan]


def random_float(rng, name, count):
    dtype = np.dtype(DTYPES[name])
    codes = rng.integers(0, 1 << min(8, ROWS[name]["bits"]), (count, dtype.itemsize), dtype=np.uint8)
    any_code = codes.reshape(-1).view(dtype)
    if dtype.itemsize == 1:
        return any_code
    info = ml_dtypes.finfo(dtype)
    special = np.array(SPECIAL + [info.max, info.min, info.smallest_normal, -info.smallest_subnormal], np.float64)
    kind = rng.integers(0, 4, count)
    plain = rng.normal(0, 3, count)
    with np.errstate(all="ignore"):
        picked = np.where(kind == 0, rng.choice(special, count), plain).astype(dtype)
    return np.where(kind == 1, any_code, picked)


def random_int(rng, name, count):
    bits, signed = INTS[name]
    low = -(2 ** (bits - 1)) if signed else 0
    edges = [low, low + 2**bits - 1, -1 if signed else 1, 0, 1]
    codes = [int.from_bytes(rng.bytes(8), "little") >> (64 - bits) for _ in range(count)]
    small = rng.integers(-9, 10, count)
    kind = rng.integers(0, 3, count)
    picks = rng.integers(0, len(edges), count)
    return narrow(np.array([(edges[p], int(s), c)[k] for k, p, s, c in zip(kind, picks, small, codes)], object), name)


def data(line, index, operand, name):
    letter = "abcdefgh"[index]
    if letter in line.keys:
        given = line.keys[letter]
        value = np.array(given if isinstance(given, list) else [given], object).reshape(operand.shape)
        return narrow(value if name in INTS else value.astype(complex if name[0] == "c" else float), name)
    seed = zlib.crc32(f"{name} {index} {line.keys.get('seed', 0)}".encode())
    rng, count = np.random.default_rng(seed), int(np.prod(operand.shape))
    if "range" in line.keys:
        low, high = line.keys["range"]
        values = rng.uniform(low, high, count)
        if name in INTS:
            values = rng.integers(low, high, count, endpoint=True).astype(object)
        if name[0] == "c":
            values = values + 1j * rng.uniform(low, high, count)
        return narrow(values, name).reshape(operand.shape)
    if name == "bool":
        return (rng.integers(0, 2, count) == 1).reshape(operand.shape)
    if name in INTS:
        return random_int(rng, name, count).reshape(operand.shape)
    if name[0] == "c":
        part = "f32" if name == "c64" else "f64"
        return random_float(rng, part, 2 * count).view(DTYPES[name]).reshape(operand.shape)
    return random_float(rng, name, count).reshape(operand.shape)


# Graphs of one op.


def attribute(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"real {value!r}"
    if isinstance(value, list):
        return "(" + ", ".join(f'"{v}"' for v in value) + ")" if value and isinstance(value[0], str) else str(value)
    return f'"{value}"'


def type_text(name, shape):
    return f"{name}[{','.join(str(d) for d in shape)}]"


def op_graph(op, line, operand_types, result_types):
    params = ", ".join(f"%{i}: {t}" for i, t in enumerate(operand_types))
    inputs = ", ".join(f"%{i}" for i in range(len(operand_types)))
    attrs = ", ".join(f"{k} = {attribute(v)}" for k, v in sorted(line.keys.items()) if k not in RESERVED)
    n = len(operand_types)
    results = ", ".join(f"%{n}#{i}" for i in range(len(result_types)))
    body = f"%{n} = {op} {inputs}{' {' + attrs + '}' if attrs else ''} : {', '.join(result_types) or '()'}"
    return f'graph "{op}" ({params}) {{\n  {body}\n  return {results}\n}}'


def operands_of(line, context):
    named = [(context.variant if o.dtype in CLASSES else o.dtype, o) for o in line.operands]
    return [(name, data(line, i, o, name)) for i, (name, o) in enumerate(named)]


class Special(types.SimpleNamespace):
    """scipy.special in doubles."""

    def __getattr__(self, name):
        f = getattr(pytest.importorskip("scipy.special"), name)
        return lambda *args: f(*(np.asarray(a, np.float64) for a in args))


def expected(line, operands, context):
    text = line.text.split("expect", 1)[1].rsplit(" tol ", 1)[0].split("tags:")[0].strip()
    names = {"np": np, "sp": Special(), "ml": ml_dtypes, "T": context.variant, "each": functools.partial(np.vectorize, otypes=[object])}
    for letter, (name, array) in zip("abcdefgh", operands):
        names[letter], names[letter.upper()] = wide(array, name), array
    names |= {"o": oracles, "k": {k: v for k, v in line.keys.items() if k not in RESERVED}, "narrow": narrow, "wide": wide}
    names["bits"] = INTS.get(operands[0][0], (0,))[0] if operands else 0
    with np.errstate(all="ignore"):
        value = eval(text, names)  # noqa: S307 - the test's own expression
    return list(value) if isinstance(value, (tuple, list)) else [value]


def result_names(line, operands, count, context):
    to = line.keys.get("to")
    if to is None:
        return [operands[0][0]] * count
    to = to if isinstance(to, list) else [to]
    return [context.variant if n in CLASSES else n for n in to]


def case(line, context):
    operands = operands_of(line, context)
    want = expected(line, operands, context)
    names = result_names(line, operands, len(want), context)
    with np.errstate(all="ignore"):
        want = [narrow(w, n) for w, n in zip(want, names, strict=True)]
    types_in = [type_text(n, x.shape) for n, x in operands]
    graph_text = op_graph(context.file.stem, line, types_in, [type_text(n, w.shape) for n, w in zip(names, want)])
    compare(_core.evaluate(graph_text, [to_bytes(x, n) for n, x in operands]), want, names, line.tol)


def graph(line, context):
    operands = operands_of(line, context)
    got = _core.evaluate(line.input, [to_bytes(x, n) for n, x in operands])
    names = [name for name, _, _ in got]
    with np.errstate(all="ignore"):
        want = [narrow(w, n) for w, n in zip(expected(line, operands, context), names, strict=True)]
    compare(got, want, names, line.tol)


def error(line, context):
    operands = operands_of(line, context)
    try:
        if line.input:
            _core.evaluate(line.input, [to_bytes(x, n) for n, x in operands])
        else:
            types_in = [type_text(n, x.shape) for n, x in operands]
            to = line.keys.get("to", line.operands[0] if line.operands else None)
            types_out = [t if isinstance(t, str) else type_text(context.variant if t.dtype in CLASSES else t.dtype, t.shape) for t in (to if isinstance(to, list) else [to])]
            _core.evaluate(op_graph(context.file.stem, line, types_in, types_out), [to_bytes(x, n) for n, x in operands])
    except (ValueError, IndexError, MemoryError) as problem:
        return str(problem)
    return None


# Comparison.


def ordered(array):
    """Codes that step by one from each float to the next."""
    bits = 8 * array.dtype.itemsize
    codes = array.view(f"u{array.dtype.itemsize}").astype(object)
    sign = 1 << (bits - 1)
    return np.where(codes >= sign, sign - codes, codes)


def compare(got, want, names, tol):
    assert [(n, s) for n, s, _ in got] == [(n, w.shape) for n, w in zip(names, want)]
    for (name, shape, raw), w in zip(got, want):
        g = from_bytes(name, shape, raw)
        if name[0] == "c":
            compare_complex(g, w, tol)
            continue
        if name in FLOATS:
            g, w = np.atleast_1d(g), np.atleast_1d(w)
            nan = np.isnan(w.astype(np.float64))
            if ROWS[name]["bits"] < 8:  # there a NaN becomes a zero of either sign
                g, w = (np.where(x == 0, DTYPES[name](0), x) for x in (g, w))
            same = (g.view(f"u{g.dtype.itemsize}") == w.view(f"u{w.dtype.itemsize}")) | (nan & np.isnan(g.astype(np.float64)))
            if tol is not None:
                assert tol.unit == "ulp", "a tolerance of floats is in ulp"
                near = np.abs(ordered(g) - ordered(w)) <= tol.value
                same = same | (near & ~nan & ~np.isnan(g.astype(np.float64)))
        else:
            same = g.astype(object) == w.astype(object)
        show(same, g, w)


def compare_complex(g, w, tol):
    eps = np.finfo(g.dtype).eps
    with np.errstate(all="ignore"):
        near = np.abs(g - w) <= (tol.value if tol else 0) * eps * np.abs(w)
    parts = [(g.real, w.real), (g.imag, w.imag)]
    equal = np.logical_and(*((x == y) | (np.isnan(x) & np.isnan(y)) for x, y in parts))
    show(equal | near, g, w)


def show(same, got, want):
    if not np.all(same):
        at = tuple(int(i[0]) for i in np.nonzero(~np.atleast_1d(same)))
        count = np.size(same) - np.count_nonzero(same)
        raise AssertionError(f"{count} of {np.size(same)} differ; at {at}: got {np.atleast_1d(got)[at]!r}, expected {np.atleast_1d(want)[at]!r}")
