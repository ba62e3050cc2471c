"""The ops' own cases as instructions: each case compiled for a chip, run one instruction at a time, held against native.

`python tests/ops/device.py [--chip NAME] [--all] [OP...]` prints what does not agree; --all runs every dtype of a class.
"""

import argparse
import collections
import dataclasses
import functools
import sys
import types
import zlib
from pathlib import Path

import numpy as np

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS))

from ops import handler  # noqa: E402
from text_lines import parse  # noqa: E402
from trine import _core  # noqa: E402

# A chip of its own: a sixth of trn1's SBUF, and four banks of PSUM.
SMALL = '{"name": "small", "title": "a very small SBUF", "like": "trn1", "sbuf": {"bytes_per_partition": {"is": 32768, "from": "test"}}, "psum": {"banks": {"is": 4, "from": "test"}}}'
CHIPS = {"trn1": "trn1", "trn2": "trn2", "trn3": "trn3", "small": SMALL}

# f32 products in parts of bf16, where infinity minus infinity is met.
APART = {("dot_general", 19): ("trn1", "small")}

# What results may differ by: engines keep f32 inside and round once, to nearest even.
RELATIVE = {"f32": 1e-3, "f16": 4e-3, "bf16": 2e-2, "f8e4m3": 0.13, "f8e4m3fn": 0.13, "f8e5m2": 0.26, "f8e3m4": 0.07}
ABSOLUTE = {"f32": 1e-4, "f16": 1e-3, "bf16": 1e-2}
QUICK = ("f32", "bf16", "s32", "u8", "bool", "")  # dtypes of a class that a quick sweep takes


@dataclasses.dataclass
class Outcome:
    op: str
    line: int
    variant: str
    kind: str  # agrees, host (part of it, which the values say too), apart, refused, differs
    why: str = ""


def plain(line, index, operand, name):
    """The case's own data where it gives any, else numbers of everyday size."""
    if "abcdefgh"[index] in line.keys or "range" in line.keys or name in ("bool", "c64", "c128"):
        return handler.data(line, index, operand, name)
    rng = np.random.default_rng(zlib.crc32(f"{name} {index}".encode()))
    count = int(np.prod(operand.shape))
    values = rng.integers(0 if name in handler.INTS and not handler.INTS[name][1] else -4, 5, count).astype(object) if name in handler.INTS else rng.uniform(-3, 3, count)
    return handler.narrow(values, name).reshape(operand.shape)


@functools.cache
def cases(op, every):
    """(line, variant) of an op's table."""
    file = TESTS / "ops" / f"{op}.test"
    return [(line, v) for line in parse(file.read_text()) if line.verb in ("case", "graph") for v in handler.variants(line) if every or v in QUICK]


def native(text, arguments):
    """What the native executor gives: (dtype, shape, bytes) of each result."""
    try:
        program = _core.Executable.compile(text.encode())
    except ValueError:  # not native either: by the op's meaning
        return _core.evaluate(text, arguments)
    spare = np.zeros(64, np.uint8)
    out = [np.zeros(max(1, int(np.prod(shape, dtype=np.int64))) * np.dtype(handler.DTYPES[dtype]).itemsize, np.uint8) for dtype, shape in program.outputs]
    program.launch([(a if a.size else spare).ctypes.data for a in arguments], [o.ctypes.data for o in out])
    return [(d, s, o.tobytes()[: int(np.prod(s, dtype=np.int64)) * np.dtype(handler.DTYPES[d]).itemsize]) for (d, s), o in zip(program.outputs, out)]


def graph_of(op, line, variant):
    """The case's graph and its operands."""
    context = types.SimpleNamespace(variant=variant, file=types.SimpleNamespace(stem=op))
    named = [(variant if o.dtype in handler.CLASSES else o.dtype, o) for o in line.operands]
    operands = [(name, plain(line, i, o, name)) for i, (name, o) in enumerate(named)]
    text = line.input
    if line.verb == "case":
        want = handler.expected(line, operands, context)
        names = handler.result_names(line, operands, len(want), context)
        shapes = [np.shape(w) for w in want]
        text = handler.op_graph(op, line, [handler.type_text(n, x.shape) for n, x in operands], [handler.type_text(n, s) for n, s in zip(names, shapes)])
    return text, operands


def run(text, operands, chip):
    """(outputs, why parts of it stay on the host): instructions one by one, the host's parts natively."""
    compiled = _core.compile_device(text.encode(), chip)
    outputs, findings, _ = compiled.run([np.asarray(x) for _, x in operands], chip)
    found = [f for f in findings if f.kind != "out-of-range-input"]  # of what a table of a function covers: the data's doing
    if found:
        raise AssertionError(f"finding: {found[0]}")
    return outputs, "; ".join(f"{h['op']}: {h['reason']}" for h in compiled.host_placed)


def agree(name, shape, raw, got):
    want = handler.from_bytes(name, shape, raw)
    got = np.asarray(got).reshape(shape)
    if name in ("c64", "c128"):
        return bool(np.allclose(got, want, rtol=1e-3, atol=1e-3, equal_nan=True))
    if name in handler.INTS or name == "bool":
        return np.array_equal(got.astype(np.int64), want.astype(np.int64))
    w, g = want.astype(np.float64), got.astype(np.float64)
    scale = np.max(np.abs(w[np.isfinite(w)]), initial=0)
    with np.errstate(all="ignore"):
        near = np.abs(g - w) <= RELATIVE.get(name, 0.3) * np.abs(w) + ABSOLUTE.get(name, 0.01) * max(1, scale)
    return bool(np.all(near | (g == w) | (np.isnan(g) & np.isnan(w))))


def check(op, line, variant, chip):
    text, operands = graph_of(op, line, variant)
    if any(handler.ROWS[n]["bits"] < 8 for n, _ in operands):
        return Outcome(op, line.number, variant, "apart", "no array of the caller's has such elements")
    bitwise = op in ("count_leading_zeros", "popcnt", "shift_right_logical")
    if any(n in ("s64", "u64") and (bitwise or any(not -(2**31) <= int(v) < 2**31 for v in x.reshape(-1))) for n, x in operands):
        return Outcome(op, line.number, variant, "apart", "64-bit integers have 32 bits on the device")
    try:
        got, why = run(text, operands, chip)
    except AssertionError as e:
        return Outcome(op, line.number, variant, "differs", str(e))
    except (ValueError, MemoryError, RuntimeError, IndexError) as e:
        return Outcome(op, line.number, variant, "refused", str(e))
    for i, (name, shape, raw) in enumerate(native(text, [handler.to_bytes(x, n) for n, x in operands])):
        if (name, shape) != ("bool", (0,)) and not agree(name, shape, raw, got[i]):  # a token has no value
            return Outcome(op, line.number, variant, "differs", f"out{i}: got {np.asarray(got[i]).reshape(-1)[:4]}, expected {handler.from_bytes(name, shape, raw).reshape(-1)[:4]}")
    return Outcome(op, line.number, variant, "host" if why else "agrees", why)


def sweep(op, chip, every=False):
    apart = {line for (name, line), chips in APART.items() if name == op and chip in chips}
    return [check(op, line, variant, CHIPS.get(chip, chip)) for line, variant in cases(op, every) if line.number not in apart]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("ops", nargs="*")
    p.add_argument("--chip", action="append")
    p.add_argument("--all", action="store_true")
    p.add_argument("--host", action="store_true", help="print why ops stay on the host")
    a = p.parse_args()
    for chip in a.chip or CHIPS:
        counts = collections.Counter()
        for op in a.ops or _core.op_names():
            for o in sweep(op, chip, a.all):
                counts[o.kind] += 1
                if o.kind in ("refused", "differs") or (a.host and o.kind == "host"):
                    print(f"{chip} {o.op}:{o.line} {o.variant} {o.kind}: {o.why}", flush=True)
        print(chip, dict(counts), flush=True)


if __name__ == "__main__":
    main()
