"""What the vector engine's reductions mean, and the accumulators that they share."""

from __future__ import annotations

import numpy as np
from alu_meaning import BITS, OPERATORS, bits_of, fold, operate, operators, scalar, scalar_values, words
from harness import CHIPS, Case, Maker, Meaning, Step, f32, is_float

F32_LOWEST = np.finfo(np.float32).min
IDENTITY = {"add": 0, "subtract": 0, "multiply": 1, "max": -np.inf, "min": np.inf}


def make_tensor_reduce(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    p, m = make.shape(8)
    group = int(make.rng.integers(1, 40))
    if make.chance(0.2):
        formats = make.pick(("s8", "u8"), ("s16", "u16"), ("s32", "u32"))
        data = make.tile(make.pick(*formats), p, m * group, space=make.space())
        dst = make.tile(make.pick(*formats), p, m, space=make.space(), writes=True)
        attrs = {"op": make.pick("bitwise_and", "bitwise_or", "bitwise_xor")}
    else:
        data = make.tile(make.dtype(chip, "float", "int"), p, m * group, space=make.space(), special=0.004)
        dst = make.tile(make.dtype(chip, "float", "int"), p, m, space=make.space(), writes=True)
        ops = ("add", "subtract", "multiply", "max", "min", "logical_and", "logical_or", "logical_xor")
        attrs = {"op": make.pick(*ops), "negate": make.chance(0.3)}
    return Case(chip, "vector", [Step("tensor_reduce", {"dst": dst, "data": data}, attrs)])


def tensor_reduce(case: Case):
    op, dst, data = case.attrs["op"], case["dst"], case["data"]
    grouped = data.values.reshape(dst.region.partitions, dst.region.elements, -1)
    if op in BITS:
        return {"dst": bits_of({"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
                                "bitwise_xor": np.bitwise_xor}[op].reduce(words(grouped), axis=2), dst.dtype)}
    v = fold(op, f32(grouped))
    return {"dst": -v if case.attrs["negate"] else v}


def accumulated(case: Case, op: str, rows, init_slot: str = "reduce_init"):
    """The accumulators after each step; `rows` are the steps' results before they are cast."""
    acc = None
    for step, values in zip(case.steps, rows):
        cmd = step.attrs["reduce_cmd"]
        if cmd.startswith("reset"):
            acc = np.full(len(values), IDENTITY[op], np.float32)
        elif cmd == "load_reduce":
            acc = scalar_values(step.operands[init_slot], len(values))[:, 0]
        if cmd.endswith("reduce"):
            acc = fold(op, values, acc)
    return acc


def steps_of(make: Maker, insn: str, p: int, operands, attrs, *, like: str, init: bool = False, idle: bool = True) -> list[Step]:
    """One or two instructions on the same lanes; the last reads the accumulators out."""
    commands = [["reset_reduce"], ["reset_reduce", "reduce"]]
    commands += [["load_reduce"], ["load_reduce", "reduce"]] if init else [["reset", "reduce"]]
    commands += [["reset_reduce", "idle"]] if idle else []
    steps, start = [], None
    for cmd in make.pick(*commands):
        tiles = operands(start)
        start = tiles[like].region.start
        if cmd == "load_reduce":
            tiles["reduce_init"] = scalar(make, p)
        steps.append(Step(insn, tiles, attrs() | {"reduce_cmd": cmd}))
    steps[-1].operands["reduce_res"] = make.tile(make.pick("f32", "f32", "bf16"), p, 1, space=make.space(), writes=True)
    return steps


def make_tensor_scalar_reduce(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    p, n = make.shape()
    reduce_op = make.pick(*IDENTITY)

    def operands(start):
        data = make.tile(make.dtype(chip, "float", "int"), p, n, space=make.space(), special=0.002, start=start)
        dst = make.tile(make.dtype(chip, "float", "int"), p, n, space=make.space(), writes=True)
        return {"dst": dst, "data": data, "operand0": scalar(make, p)}

    def attrs():
        return {"op0": make.pick(*operators(chip)), "reduce_op": reduce_op}

    return Case(chip, "vector", steps_of(make, "tensor_scalar_reduce", p, operands, attrs, like="data", init=True, idle=False))


def tensor_scalar_reduce(case: Case):
    rows = [operate(s.attrs["op0"], s.operands["data"].f32, scalar_values(s.operands["operand0"], s.operands["data"].region.partitions))
            for s in case.steps]
    out = {s.operands["dst"].name: r for s, r in zip(case.steps, rows)}
    acc = accumulated(case, case.attrs["reduce_op"], rows)
    return out | {case.steps[-1].operands["reduce_res"].name: acc[:, None]}


def make_tensor_scalar_cumulative(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    p, n = make.shape(48)
    formats = ("f32", "bf16", "f16", "f8e5m2", "s8", "u8", "s16", "u16")
    start, steps = None, []
    op1 = make.pick(*IDENTITY)
    for cmd in make.pick(["reset_reduce"], ["load_reduce"], ["reset_reduce", "reduce"], ["load_reduce", "reduce"]):
        src = make.tile(make.pick(*formats), p, n, space=make.space(), special=0.002, scale=1.0, start=start)
        start = src.region.start
        dst = make.tile(make.pick(*formats), p, n, space=make.space(), writes=True)
        operands = {"dst": dst, "src": src, "imm0": scalar(make, p)}
        if cmd == "load_reduce":
            operands["imm1"] = scalar(make, p)
        attrs = {"op0": make.pick(*operators(chip)), "op1": op1, "reduce_cmd": cmd}
        steps.append(Step("tensor_scalar_cumulative", operands, attrs))
    return Case(chip, "vector", steps)


def tensor_scalar_cumulative(case: Case):
    out, acc = {}, None
    for s in case.steps:
        a, src = s.attrs, s.operands["src"]
        lanes = src.region.partitions
        if a["reduce_cmd"] == "reset_reduce":
            acc = np.full(lanes, IDENTITY[a["op1"]], np.float32)
        elif a["reduce_cmd"] == "load_reduce":
            acc = scalar_values(s.operands["imm1"], lanes)[:, 0]
        x = operate(a["op0"], src.f32, scalar_values(s.operands["imm0"], lanes))
        rows = np.empty_like(x)
        for i in range(x.shape[1]):
            acc = rows[:, i] = operate(a["op1"], x[:, i], acc)
        out[s.operands["dst"].name] = rows
    return out


def make_shared(make: Maker) -> Case:
    """tensor_scalar_cumulative goes on from what tensor_scalar_reduce left in the accumulators."""
    p, n = make.shape(40)
    data = make.tile("f32", p, n, space=make.space(), special=0)
    src = make.tile("f32", p, n, space=make.space(), special=0, start=data.region.start)
    first, second = (make.tile("f32", p, n, space=make.space(), writes=True) for _ in range(2))
    op = make.pick(*IDENTITY)
    reduce = Step("tensor_scalar_reduce", {"dst": first, "data": data, "operand0": 2.0}, {"op0": "multiply", "reduce_op": op})
    attrs = {"op0": "add", "op1": op, "reduce_cmd": "reduce"}
    return Case(make.pick(*CHIPS), "vector", [reduce, Step("tensor_scalar_cumulative", {"dst": second, "src": src, "imm0": 1.0}, attrs)])


def shared(case: Case):
    op = case.attrs["reduce_op"]
    doubled, more = case["data"].f32 * np.float32(2), case.steps[1].operands["src"].f32 + np.float32(1)
    acc = fold(op, doubled, np.full(len(doubled), IDENTITY[op], np.float32))
    rows = np.empty_like(more)
    for i in range(more.shape[1]):
        acc = rows[:, i] = operate(op, more[:, i], acc)
    return {case["dst"].name: doubled, case.steps[1].operands["dst"].name: rows}


def make_exponential(make: Maker) -> Case:
    p, n = make.shape()

    def operands(start):
        src = make.tile(make.dtype("trn3", "float", "int"), p, n, space=make.space(), special=0.002, scale=2.0, start=start)
        dst = make.tile(make.pick("f32", "bf16", "f16", "s16"), p, n, space=make.space(), writes=True)
        return {"dst": dst, "src": src, "max_value": scalar(make, p)}

    steps = steps_of(make, "exponential", p, operands, dict, like="src", init=True)
    # exp is within 1 ulp of f32; a sum of n such terms within n.
    ulps = {s.operands["dst"].name: 1 for s in steps if is_float(s.operands["dst"].dtype)}
    return Case("trn3", "vector", steps, ulps | {steps[-1].operands["reduce_res"].name: 2 * n})


def exponential(case: Case):
    rows = []
    for s in case.steps:
        src = s.operands["src"]
        x = src.f32 - scalar_values(s.operands["max_value"], src.region.partitions)
        rows.append(f32(np.exp(x.astype(np.float64))))
    out = {s.operands["dst"].name: r for s, r in zip(case.steps, rows)}
    return out | {case.steps[-1].operands["reduce_res"].name: accumulated(case, "add", rows)[:, None]}


def make_range_select(make: Maker) -> Case:
    chip = make.pick("trn2", "trn3")
    p, n = make.shape()
    compare = ("equal", "less", "less_equal", "greater", "greater_equal")

    def operands(start):
        source = make.tile(make.dtype(chip, "float"), p, n, space=make.space(), special=0.01, start=start)
        dst = make.tile(make.dtype(chip, "float"), p, n, space=make.space(), writes=True)
        bounds = {f"bound{i}": make.tile("f32", p, 1, space=make.space(), writes=True,
                                         values=f32(np.rint(make.rng.uniform(-5, n + 5, (p, 1))))) for i in range(2)}
        return {"dst": dst, "on_true_tile": source} | bounds

    def attrs():
        return {"comp_op0": make.pick(*compare), "comp_op1": make.pick(*compare), "range_start": int(make.rng.integers(-3, 4))}

    return Case(chip, "vector", steps_of(make, "range_select", p, operands, attrs, like="on_true_tile"))


def range_select(case: Case):
    rows = []
    for s in case.steps:
        x = s.operands["on_true_tile"].f32
        index = np.broadcast_to(f32(s.attrs["range_start"] + np.arange(x.shape[1])), x.shape)
        keep = [OPERATORS[s.attrs[f"comp_op{i}"]](index, s.operands[f"bound{i}"].f32) != 0 for i in range(2)]
        rows.append(np.where(keep[0] & keep[1], x, F32_LOWEST))
    out = {s.operands["dst"].name: r for s, r in zip(case.steps, rows)}
    return out | {case.steps[-1].operands["reduce_res"].name: accumulated(case, "max", rows)[:, None]}


def make_select_reduce(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    p, n = make.shape()
    formats = ("f32", "bf16", "f16", "f8e5m2", "s8", "u8", "s16", "u16")

    def operands(start):
        spaces = make.pick(("sbuf", "sbuf"), ("sbuf", "psum"), ("psum", "sbuf"))
        source = make.tile(make.pick(*formats), p, n, space=spaces[0], special=0.01, start=start)
        predicate = make.tile(make.pick("s8", "u8", "s16", "u16"), p, n, space=spaces[1], scale=0.6)
        dst = make.tile(make.dtype(chip, "float", "int"), p, n, space=make.space(), writes=True)
        return {"dst": dst, "predicate": predicate, "on_true": source, "on_false": scalar(make, p)}

    def attrs():
        return {"reverse_pred": make.chance(0.4)}

    return Case(chip, "vector", steps_of(make, "select_reduce", p, operands, attrs, like="on_true"))


def select_reduce(case: Case):
    rows = []
    for s in case.steps:
        where = (s.operands["predicate"].values != 0) ^ s.attrs["reverse_pred"]
        x = s.operands["on_true"].f32
        rows.append(np.where(where, x, scalar_values(s.operands["on_false"], len(x))))
    out = {s.operands["dst"].name: r for s, r in zip(case.steps, rows)}
    return out | {case.steps[-1].operands["reduce_res"].name: accumulated(case, "max", rows)[:, None]}


TABLE = {
    "tensor_reduce": Meaning(make_tensor_reduce, tensor_reduce, cases=40),
    "tensor_scalar_reduce": Meaning(make_tensor_scalar_reduce, tensor_scalar_reduce),
    "tensor_scalar_cumulative": Meaning(make_tensor_scalar_cumulative, tensor_scalar_cumulative),
    "shared accumulators": Meaning(make_shared, shared),
    "exponential": Meaning(make_exponential, exponential),
    "range_select": Meaning(make_range_select, range_select),
    "select_reduce": Meaning(make_select_reduce, select_reduce),
}
