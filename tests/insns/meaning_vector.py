"""What the vector engine's instructions mean, in NumPy, and random legal cases of each."""

from __future__ import annotations

import numpy as np
from harness import CHIPS, INTS, Case, Maker, Meaning, Step, cast, f32, is_float, numpy_dtype

F32_LOWEST = np.finfo(np.float32).min

# --- operators ---

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
ABSOLUTE = {  # abs_ops: NeuronCore-v4
    "abs_max": lambda a, b: ARITHMETIC["max"](np.abs(a), np.abs(b)),
    "abs_min": lambda a, b: ARITHMETIC["min"](np.abs(a), np.abs(b)),
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


# --- tensor_copy, memset ---


def make_tensor_copy(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    engine = make.pick("vector", "vector", "gpsimd", *([] if chip == "trn1" else ["scalar"]))
    p, n = make.shape()
    src = make.tile(make.dtype(chip, "float", "int"), p, n, space=make.space(engine))
    if make.chance(0.15):
        src = make.tile(src.dtype, p, n, space=make.space(engine), plain=True)
        return Case(chip, engine, [Step("tensor_copy", {"dst": make.overlapping(src, n), "src": src})])
    dtype = src.dtype if make.chance(0.4) else make.dtype(chip, "float", "int")
    dst = make.tile(dtype, p, n, space=make.space(engine), writes=True)
    return Case(chip, engine, [Step("tensor_copy", {"dst": dst, "src": src})])


def tensor_copy(case: Case):
    same = case["src"].dtype == case["dst"].dtype
    return {"dst": case["src"].values if same else case["src"].f32}


def make_memset(make: Maker) -> Case:
    p, n = make.shape()
    engine = make.pick("vector", "gpsimd")
    chip = make.pick(*CHIPS)
    dst = make.tile(make.dtype(chip, "float", "int"), p, n, space=make.space(engine), writes=True)
    if is_float(dst.dtype):
        value = make.pick(0.0, 1.0, make.number(), float("inf"))
    else:
        info = np.iinfo(numpy_dtype(dst.dtype))
        value = int(make.rng.integers(info.min, info.max, endpoint=True))
    return Case(chip, engine, [Step("memset", {"dst": dst}, {"value": value})])


def memset(case: Case):
    dst, value = case["dst"], case.attrs["value"]
    shape = dst.values.shape
    if is_float(dst.dtype):
        return {"dst": np.full(shape, value, np.float32)}
    return {"dst": np.full(shape, value, numpy_dtype(dst.dtype))}


# --- tensor_tensor, tensor_scalar, scalar_tensor_tensor, tensor_tensor_scan ---


def make_tensor_tensor(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    p, n = make.shape()
    kind = make.pick("arithmetic", "arithmetic", "arithmetic", "bits", "integers", "power")
    engine = "gpsimd" if kind in ("integers", "power") else make.pick("vector", "vector", "vector", "gpsimd")
    engine = "vector" if kind == "bits" else engine
    spaces = make.pick(("sbuf", "sbuf"), ("sbuf", "psum"), ("psum", "sbuf")) if engine == "vector" else ("sbuf", "sbuf")
    if kind == "bits":
        signed, unsigned = make.pick(("s8", "u8"), ("s16", "u16"), ("s32", "u32"))
        formats = [make.pick(signed, unsigned) for _ in range(3)]
        op = make.pick(*BITS)
    elif kind == "integers":
        formats = [make.pick("s32", "u32") for _ in range(3)]
        op = make.pick(*ARITHMETIC)
    else:
        formats = [make.dtype(chip, "float", "int") for _ in range(3)]
        op = "power" if kind == "power" else make.pick(*operators(chip))
    a = make.tile(formats[0], p, n, space=spaces[0])
    b = make.tile(formats[1], p, n, space=spaces[1], scale=4.0 if "shift" in op else None)
    if make.chance(0.2) and a.region.elements == len(set(a.region.indices())):
        dst = a  # in place
    elif make.chance(0.1) and spaces[0] == "sbuf":
        a = make.tile(formats[0], p, n, plain=True)
        dst = make.overlapping(a, n)
    else:
        dst = make.tile(formats[2], p, n, space=make.space(engine), writes=True)
    case = Case(chip, engine, [Step("tensor_tensor", {"dst": dst, "data1": a, "data2": b}, {"op": op})])
    if op == "power":
        case.ulps[dst.name] = 1 if is_float(dst.dtype) else 0
    return case


def tensor_tensor(case: Case):
    op, a, b, dst = case.attrs["op"], case["data1"], case["data2"], case["dst"]
    if op in BITS:
        return {"dst": bits_of(BITS[op](words(a.values), words(b.values)), dst.dtype)}
    exact = case.engine == "gpsimd" and {a.dtype, b.dtype, dst.dtype} <= {"s32", "u32"} and op in ARITHMETIC
    if exact:  # 32-bit integers that wrap
        x, y = a.values.astype(object), b.values.astype(object)
        by_hand = {"max": np.maximum, "min": np.minimum}.get(op)
        values = by_hand(x, y) if by_hand else ARITHMETIC[op](x, y)
        whole = np.vectorize(lambda v: int(v) & 0xFFFFFFFF, otypes=[np.uint32])(values)
        return {"dst": whole.view(numpy_dtype(dst.dtype))}
    return {"dst": operate(op, a.f32, b.f32)}


def make_tensor_scalar(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    p, n = make.shape()
    engine = make.pick("vector", "vector", "vector", "gpsimd", *([] if chip == "trn1" else ["scalar"]))
    if engine == "vector" and make.chance(0.25):
        return make_tensor_scalar_bits(make, chip, p, n)
    data = make.tile(make.dtype(chip, "float", "int"), p, n, space=make.space(engine))
    in_place = make.chance(0.2) and data.region.elements == len(set(data.region.indices()))
    dst = data if in_place else make.tile(make.dtype(chip, "float", "int"), p, n, space=make.space(engine), writes=True)
    if engine == "gpsimd":
        ops = ["rsqrt", None]
    elif engine == "scalar":
        ops = make.pick(["multiply", "add"], ["multiply", None], ["add", None])
    else:
        some = operators(chip) + list(UNARY) + (list(UNARY_V4) if chip == "trn3" else [])
        ops = [make.pick(*some), make.pick(None, make.pick(*some))]
    operands = {"dst": dst, "data": data}
    attrs = {"op0": ops[0], "op1": ops[1]}
    for i, op in enumerate(ops):
        if op is None:
            continue
        if op in OPERATORS and op not in UNARY and op not in UNARY_V4 and op != "rsqrt":
            operands[f"operand{i}"] = scalar(make, p) if engine != "gpsimd" else make.number()
        attrs[f"reverse{i}"] = make.chance(0.3)
    return Case(chip, engine, [Step("tensor_scalar", operands, attrs)])


def make_tensor_scalar_bits(make: Maker, chip: str, p: int, n: int) -> Case:
    formats = make.pick(("s8", "u8"), ("s16", "u16"), ("s32", "u32"))
    data = make.tile(make.pick(*formats), p, n, space=make.space())
    dst = make.tile(make.pick(*formats), p, n, space=make.space(), writes=True)
    operands, attrs = {"dst": dst, "data": data}, {}
    for i in range(make.pick(1, 2)):
        op = make.pick("invert", *BITS)
        attrs |= {f"op{i}": op, f"reverse{i}": make.chance(0.2)}
        if op == "invert":
            continue
        if make.chance(0.5):
            operands[f"operand{i}"] = make.tile(make.pick(*formats), p, 1, space=make.space(), scale=5.0)
        else:
            operands[f"operand{i}"] = int(make.rng.integers(0, 9))
    return Case(chip, "vector", [Step("tensor_scalar", operands, attrs)])


def tensor_scalar(case: Case):
    data, dst = case["data"], case["dst"]
    bitwise = case.attrs["op0"] in BITS or case.attrs["op0"] == "invert"
    mask = np.uint32((1 << (8 * data.values.dtype.itemsize)) - 1)
    v = words(data.values) if bitwise else data.f32
    for i in range(2):
        op, reverse = case.attrs.get(f"op{i}"), case.attrs.get(f"reverse{i}", False)
        if op is None:
            continue
        operand = case[f"operand{i}"]
        if not bitwise:
            v = operate(op, v, scalar_values(operand, v.shape[0]), reverse)
        elif op == "invert":
            v = ~v & mask
        else:
            s = np.uint32(operand) if isinstance(operand, int) else words(operand.values)
            s = np.broadcast_to(s, v.shape)
            v = (BITS[op](s, v) if reverse else BITS[op](v, s)).astype(np.uint32) & mask
    return {"dst": bits_of(v, dst.dtype) if bitwise else v}


def two_tiles(make: Maker, chip: str, p: int, n: int, names: tuple[str, str], **kw):
    spaces = make.pick(("sbuf", "sbuf"), ("sbuf", "psum"), ("psum", "sbuf"))
    return {k: make.tile(make.dtype(chip, "float", "int"), p, n, space=s, **kw) for k, s in zip(names, spaces)}


def make_scalar_tensor_tensor(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    p, n = make.shape()
    tiles = two_tiles(make, chip, p, n, ("data", "operand1"))
    op0 = make.pick("abs", *operators(chip))
    if op0 != "abs":
        tiles["operand0"] = scalar(make, p)
    dst = make.tile(make.dtype(chip, "float", "int"), p, n, space=make.space(), writes=True)
    attrs = {"op0": op0, "op1": make.pick(*operators(chip)), "reverse0": make.chance(0.3), "reverse1": make.chance(0.3)}
    return Case(chip, "vector", [Step("scalar_tensor_tensor", {"dst": dst} | tiles, attrs)])


def scalar_tensor_tensor(case: Case):
    a = case.attrs
    first = operate(a["op0"], case["data"].f32, scalar_values(case["operand0"], case["data"].region.partitions), a["reverse0"])
    return {"dst": operate(a["op1"], first, case["operand1"].f32, a["reverse1"])}


def make_tensor_tensor_scan(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    p, n = make.shape(48)
    tiles = two_tiles(make, chip, p, n, ("data0", "data1"), special=0.002, scale=1.0)
    tiles["initial"] = scalar(make, p)
    dst = make.tile(make.dtype(chip, "float", "int"), p, n, space=make.space(), writes=True)
    ops = ["multiply", "add", "subtract", "max", "min", *operators(chip)]
    attrs = {"op0": make.pick(*ops), "op1": make.pick(*ops), "reverse0": make.chance(0.3), "reverse1": make.chance(0.3)}
    return Case(chip, "vector", [Step("tensor_tensor_scan", {"dst": dst} | tiles, attrs)])


def tensor_tensor_scan(case: Case):
    a, x, y = case.attrs, case["data0"].f32, case["data1"].f32
    r = scalar_values(case["initial"], x.shape[0])[:, 0]
    out = np.empty_like(x)
    for i in range(x.shape[1]):
        r = operate(a["op1"], operate(a["op0"], x[:, i], r, a["reverse0"]), y[:, i], a["reverse1"])
        out[:, i] = r
    return {"dst": out}


# --- tensor_copy_predicated, reciprocal, bn_stats, bn_aggr ---


def make_tensor_copy_predicated(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    p, n = make.shape()
    spaces = make.pick(("sbuf", "sbuf"), ("sbuf", "psum"), ("psum", "sbuf"))
    dtype = make.dtype(chip, "float", "int")
    src = make.number() if is_float(dtype) and make.chance(0.3) else make.tile(dtype, p, n, space=spaces[0])
    predicate = make.tile(make.pick("u8", "u16", "u32"), p, n, space=spaces[1], scale=0.6)
    dst = make.tile(dtype, p, n, space=make.space(), writes=True)
    step = Step("tensor_copy_predicated", {"dst": dst, "src": src, "predicate": predicate}, {"reverse_pred": make.chance(0.4)})
    return Case(chip, "vector", [step])


def tensor_copy_predicated(case: Case):
    where = (case["predicate"].values != 0) ^ case.attrs["reverse_pred"]
    dst, src = case["dst"], case["src"]
    source = cast(np.float32(src), dst.dtype) if isinstance(src, float) else src.values
    return {"dst": np.where(where, source, dst.values)}


def make_reciprocal(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    p, n = make.shape()
    data = make.tile(make.dtype(chip, "float", "int"), p, n, space=make.space())
    dst = make.tile(make.dtype(chip, "float", "int"), p, n, space=make.space(), writes=True)
    return Case(chip, "vector", [Step("reciprocal", {"dst": dst, "data": data})])


def reciprocal(case: Case):
    return {"dst": np.float32(1) / case["data"].f32}


def make_bn_stats(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    p, n = make.shape(make.pick(3, 60, 512))
    data = make.tile(make.dtype(chip, "float"), p, n, space=make.space(), special=0, scale=2.0)
    dst = make.tile(make.pick("f32", "f32", "bf16"), p, 6, space=make.space(), writes=True)
    return Case(chip, "vector", [Step("bn_stats", {"dst": dst, "data": data})], {dst.name: 1})


def bn_stats(case: Case):
    x = case["data"].f32.astype(np.float64)
    out = []
    for half in (x[:, 0::2], x[:, 1::2]):
        count = half.shape[1]
        mean = half.mean(axis=1) if count else np.zeros(len(x))
        out += [np.full(len(x), count), mean, ((half - mean[:, None]) ** 2).sum(axis=1)]
    return {"dst": f32(np.stack(out, axis=1))}


def make_bn_aggr(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    p, groups = make.shape(20)
    triples = make.rng.normal(1, 2, (p, groups, 3))
    triples[:, :, 0] = make.rng.integers(1, 257, (p, groups))
    triples[:, :, 2] = np.abs(triples[:, :, 2])
    data = make.tile("f32", p, 3 * groups, space=make.space(), writes=True, values=f32(triples.reshape(p, -1)))
    dst = make.tile(make.pick("f32", "f32", "bf16"), p, 2, space=make.space(), writes=True)
    return Case(chip, "vector", [Step("bn_aggr", {"dst": dst, "data": data})], {dst.name: 1})


def bn_aggr(case: Case):
    count, mean, squares = np.moveaxis(case["data"].f32.astype(np.float64).reshape(case["data"].region.partitions, -1, 3), 2, 0)
    total = count.sum(axis=1)
    centre = (count * mean).sum(axis=1) / total
    variance = (squares + count * (mean - centre[:, None]) ** 2).sum(axis=1) / total
    return {"dst": f32(np.stack([centre, variance], axis=1))}


# --- reductions ---

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
        if cmd == "reset_reduce":
            acc = np.full(len(values), IDENTITY[op], np.float32)
        elif cmd == "load_reduce":
            acc = scalar_values(step.operands[init_slot], len(values))[:, 0]
        acc = fold(op, values, acc)
    return acc


def steps_of(make: Maker, insn: str, p: int, operands, attrs, *, init: str | None, like: str, space=None) -> list[Step]:
    """One or two instructions on the same lanes; the second adds to the first's accumulators and reads them out."""
    commands = ["reset_reduce"] + (["load_reduce"] if init else [])
    count = make.pick(1, 2)
    steps = []
    start = None
    for i in range(count):
        tiles = operands(start)
        start = tiles[like].region.start
        cmd = make.pick(*commands) if i == 0 else "reduce"
        if cmd == "load_reduce":
            tiles[init] = scalar(make, p)
        if i == count - 1:
            tiles["reduce_res"] = make.tile(make.pick("f32", "f32", "bf16"), p, 1, space=make.space(), writes=True)
        steps.append(Step(insn, tiles, attrs() | {"reduce_cmd": cmd}))
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

    return Case(chip, "vector", steps_of(make, "tensor_scalar_reduce", p, operands, attrs, init="reduce_init", like="data"))


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


def make_exponential(make: Maker) -> Case:
    p, n = make.shape()

    def operands(start):
        src = make.tile(make.dtype("trn3", "float", "int"), p, n, space=make.space(), special=0.002, scale=2.0, start=start)
        dst = make.tile(make.pick("f32", "bf16", "f16", "s16"), p, n, space=make.space(), writes=True)
        return {"dst": dst, "src": src, "max_value": scalar(make, p)}

    steps = steps_of(make, "exponential", p, operands, dict, init="reduce_init", like="src")
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

    return Case(chip, "vector", steps_of(make, "range_select", p, operands, attrs, init=None, like="on_true_tile"))


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

    return Case(chip, "vector", steps_of(make, "select_reduce", p, operands, attrs, init=None, like="on_true"))


def select_reduce(case: Case):
    rows = []
    for s in case.steps:
        where = (s.operands["predicate"].values != 0) ^ s.attrs["reverse_pred"]
        x = s.operands["on_true"].f32
        rows.append(np.where(where, x, scalar_values(s.operands["on_false"], len(x))))
    out = {s.operands["dst"].name: r for s, r in zip(case.steps, rows)}
    return out | {case.steps[-1].operands["reduce_res"].name: accumulated(case, "max", rows)[:, None]}


# --- searches and shuffles ---


def searched(make: Maker, chip: str, p: int) -> tuple[str, int, np.ndarray]:
    """Data with many equal values, so that ties matter."""
    dtype = make.dtype(chip, "float", "int")
    n = int(make.rng.integers(8, 80))
    values = make.rng.integers(0, 20, (p, n)) - (10 if dtype[0] != "u" else 0)
    return dtype, n, cast(f32(values), dtype)


def make_max8(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    p, _ = make.shape()
    if make.chance(0.5):
        dtype, n, values = searched(make, chip, p)
        src = make.tile(dtype, p, n, space=make.space(), writes=True, values=values)
    else:
        src = make.tile(make.dtype(chip, "float", "int"), p, int(make.rng.integers(8, 80)), space=make.space(), special=0)
    dst = make.tile(make.dtype(chip, "float", "int"), p, 8, space=make.space(), writes=True)
    return Case(chip, "vector", [Step("max8", {"dst": dst, "src": src})])


def max8(case: Case):
    x = case["src"].f32
    return {"dst": np.take_along_axis(x, np.argsort(-x, axis=1, kind="stable")[:, :8], axis=1)}


def values_of(make: Maker, chip: str, p: int):
    """A searched tile and eight values, most of them in it."""
    dtype, n, values = searched(make, chip, p)
    data = make.tile(dtype, p, n, space=make.space(), writes=True, values=values)
    picked = np.take_along_axis(f32(values), make.rng.integers(0, n, (p, 8)), axis=1)
    picked = np.where(make.rng.random((p, 8)) < 0.15, np.float32(50), picked)
    return data, make.tile(make.pick("f32", "bf16"), p, 8, space=make.space(), writes=True, values=picked)


def places(data, vals, order):
    """Index of each value, or -1: every element goes to the first open value it equals, in `order`."""
    out = np.full((len(data), 8), -1, np.int64)
    for lane, (row, wanted) in enumerate(zip(data, vals)):
        for j in order:
            free = np.flatnonzero((row == wanted[j]) & ~np.isin(np.arange(len(row)), out[lane]))
            if len(free):
                out[lane, j] = free[0]
    return out


def make_nc_find_index8(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    p, _ = make.shape()
    data, vals = values_of(make, chip, p)
    dst = make.tile(make.pick("u16", "u32"), p, 8, space=make.space(), writes=True)
    return Case(chip, "vector", [Step("nc_find_index8", {"dst": dst, "data": data, "vals": vals})])


def nc_find_index8(case: Case):
    at = places(case["data"].f32, case["vals"].f32, range(8))
    return {"dst": bits_of(at & 0xFFFFFFFF, case["dst"].dtype)}


def make_nc_match_replace8(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    p, _ = make.shape()
    data, vals = values_of(make, chip, p)
    dst = data if make.chance(0.2) else make.tile(make.dtype(chip, "float", "int"), p, data.region.elements, space=make.space(), writes=True)
    operands = {"dst": dst, "data": data, "vals": vals}
    if make.chance(0.6):
        operands["dst_idx"] = make.tile(make.pick("u16", "u32"), p, 8, space=make.space(), writes=True)
    return Case(chip, "vector", [Step("nc_match_replace8", operands, {"imm": make.number()})])


def nc_match_replace8(case: Case):
    data = case["data"].f32
    at = places(data, case["vals"].f32, range(7, -1, -1))
    out = data.copy()
    for lane, row in enumerate(at):
        out[lane, row[row >= 0]] = case.attrs["imm"]
    index = case["dst_idx"]
    return {"dst": out} | ({"dst_idx": bits_of(at & 0xFFFFFFFF, index.dtype)} if index else {})


def make_nc_stream_shuffle(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    p = make.pick(32, 64, 96, 128)
    n = int(make.rng.integers(1, 60))
    dtype = make.dtype(chip, "float", "int")
    src = make.tile(dtype, p, n, space=make.space())
    in_place = make.chance(0.3) and src.region.elements == len(set(src.region.indices()))
    dst = src if in_place else make.tile(dtype, p, n, space=make.space(), writes=True)
    mask = [int(m) if make.chance(0.8) else 255 for m in make.rng.integers(0, 32, 32)]
    return Case(chip, "vector", [Step("nc_stream_shuffle", {"dst": dst, "src": src}, {"shuffle_mask": mask})])


def nc_stream_shuffle(case: Case):
    src, out = case["src"].values, case["dst"].values.copy()
    for p in range(len(out)):
        m = case.attrs["shuffle_mask"][p % 32]
        if m != 255:
            out[p] = src[p // 32 * 32 + m]
    return {"dst": out}


# --- quantize_mx ---


def make_quantize_mx(make: Maker) -> Case:
    p, n = make.pick(32, 64, 96, 128), int(make.rng.integers(1, 12))
    src = make.tile(make.pick("bf16", "f16"), p, 4 * n, special=0, scale=float(make.pick(1e-3, 1.0, 100.0)), start=0)
    spread = 2.0 ** make.rng.integers(-12, 8, (p // 8, 1, 1)).repeat(8, axis=0).reshape(p, 1)
    zero = make.rng.random((p // 8, n)) < 0.1
    values = np.where(zero.repeat(8, axis=0).repeat(4, axis=1), 0, src.f32 * f32(spread))
    src = make.tile(src.dtype, p, 4 * n, writes=True, values=f32(values))
    dst = make.tile(make.pick("f8e4m3fn_x4", "f8e5m2_x4"), p, n, writes=True)
    scale = make.tile("u8", p, n, writes=True)
    return Case("trn3", "vector", [Step("quantize_mx", {"dst": dst, "src": src, "dst_scale": scale})])


def quantize_mx(case: Case):
    src, dst = case["src"].f32, case["dst"]
    element, top = ("f8e4m3fn", 8) if dst.dtype == "f8e4m3fn_x4" else ("f8e5m2", 15)
    p, n = len(src), src.shape[1] // 4
    blocks = src.reshape(p // 8, 8, n, 4).transpose(0, 2, 1, 3).astype(np.float64)  # [group, column, partition, element]
    largest = np.abs(blocks).max(axis=(2, 3))
    exponent = np.where(largest > 0, np.floor(np.log2(np.where(largest > 0, largest, 1))) - (top - 1), -127)
    exponent = np.maximum(exponent, -127)
    codes = cast(f32(blocks / 2.0 ** exponent[:, :, None, None]), element).view(np.uint8)
    carriers = codes.transpose(0, 2, 1, 3).reshape(p, n * 4).copy().view(np.uint32)
    scales = case["dst_scale"].values.copy()
    for group in range(p // 8):
        scales[group // 4 * 32 + group % 4] = (exponent[group] + 127).astype(np.uint8)
    return {"dst": carriers, "dst_scale": scales}


# --- random ---

M32 = np.uint64(0xFFFFFFFF)


def philox(counter, key):
    c = [np.asarray(x, np.uint64) for x in counter]
    k = [np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32)]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(b >> np.uint64(32)) ^ c[1] ^ k[0], b & M32, (a >> np.uint64(32)) ^ c[3] ^ k[1], a & M32]
        k = [(k[0] + np.uint64(0x9E3779B9)) & M32, (k[1] + np.uint64(0xBB67AE85)) & M32]
    return c


def xorwow_draw(state, n: int):
    """n words of each generator; state [..., 6] is advanced in place."""
    out = np.empty((*state.shape[:-1], n), np.uint64)
    x, y, z, w, v, d = (state[..., i].astype(np.uint64) for i in range(6))
    for i in range(n):
        t = x ^ (x >> np.uint64(2))
        x, y, z, w = y, z, w, v
        v = (v ^ (v << np.uint64(4)) ^ t ^ (t << np.uint64(1))) & M32
        d = (d + np.uint64(362437)) & M32
        out[..., i] = (v + d) & M32
    state[...] = np.stack([x, y, z, w, v, d], axis=-1)
    return out


def draw(state, n: int):
    """n words a lane; state [lanes, 6·generators], each of which gives every (generators)-th word."""
    lanes, generators = len(state), state.shape[1] // 6
    states = state.astype(np.uint64).reshape(lanes, generators, 6)
    out = np.empty((lanes, n), np.uint64)
    for g in range(generators):
        mine = states[:, g].copy()
        out[:, g::generators] = xorwow_draw(mine, len(range(g, n, generators)))
        states[:, g] = mine
    return out, states.reshape(lanes, -1).astype(np.uint32)


def lfsr_draw(seed: int, lanes, n: int):
    """A Galois LFSR of x^32+x^22+x^2+x+1, 32 steps a word; lane states come from philox."""
    state = philox([lanes & 0xFFFFFFFF, 0 * lanes, 0 * lanes + 2, 0 * lanes + 1], seed)[0]
    state = np.where(state == 0, 1, state).astype(np.uint64)
    out = np.empty((len(lanes), n), np.uint64)
    for i in range(n):
        for _ in range(32):
            state = (state >> np.uint64(1)) ^ np.where(state & np.uint64(1), np.uint64(0x80200003), np.uint64(0))
        out[:, i] = state
    return out


def uniform(word):
    return f32((word >> np.uint64(8)).astype(np.float64) * 2.0**-24)


def seed_tile(make: Maker, p: int, count: int, **kw):
    values = make.rng.integers(1, 2**32, (p, count), dtype=np.uint32)
    return make.tile("u32", p, count, writes=True, values=values, **kw)


def with_state(make: Maker, p: int, engine: str, start: int | None = None) -> tuple[Step, int]:
    seeds = seed_tile(make, p, 6 if engine == "gpsimd" else 24, start=start)
    return Step("rand_set_state", {"src_seeds": seeds}), seeds.region.start


def make_rng(make: Maker) -> Case:
    p, n = make.shape(40)
    dtype = make.pick(*INTS)
    if make.chance(0.4):  # the LFSR of older Vector engines
        chip, engine, start = make.pick("trn1", "trn2"), "vector", None
        seed = make.tile("u32", 1, 1, space=make.space(), plain=True)
        first = Step("set_rng_seed", {"src_seeds": seed})
    else:
        chip, engine = make.pick(("trn2", "gpsimd"), ("trn3", "gpsimd"), ("trn3", "vector"))
        first, start = with_state(make, p, engine)
    dst = make.tile(dtype, p, n, space=make.space(engine), writes=True, start=start)
    return Case(chip, engine, [first, Step("rng", {"dst": dst})])


def random_words(case: Case, dst):
    seeds = case.steps[0].operands["src_seeds"]
    if case.steps[0].insn == "set_rng_seed":
        lanes = np.arange(dst.region.start, dst.region.start + dst.region.partitions)
        return lfsr_draw(int(seeds.values[0, 0]), lanes, dst.region.elements), None
    return draw(seeds.values, dst.region.elements)


def rng(case: Case):
    dst = case.steps[1].operands["dst"]
    return {dst.name: bits_of(random_words(case, dst)[0], dst.dtype)}


def make_rand2(make: Maker) -> Case:
    p, n = make.shape(40)
    first, start = with_state(make, p, "vector")
    dst = make.tile(make.dtype("trn3", "float", "int"), p, n, space=make.space(), writes=True, start=start)
    low = make.number()
    return Case("trn3", "vector", [first, Step("rand2", {"dst": dst, "min": low, "max": low + abs(make.number()) + 1})])


def rand2(case: Case):
    o = case.steps[1].operands
    low, high = np.float32(o["min"]), np.float32(o["max"])
    return {o["dst"].name: low + uniform(random_words(case, o["dst"])[0]) * (high - low)}


def make_rand_state(make: Maker) -> Case:
    """Set, draw, get: the state that comes back is the advanced one."""
    p, n = make.shape(30)
    chip, engine = make.pick(("trn2", "gpsimd"), ("trn3", "gpsimd"), ("trn3", "vector"))
    first, start = with_state(make, p, engine)
    drawn = make.tile("u32", p, n, space=make.space(engine), writes=True, start=start)
    state = make.tile("u32", p, 6 if engine == "gpsimd" else 24, space=make.space(engine), writes=True, start=start)
    return Case(chip, engine, [first, Step("rng", {"dst": drawn}), Step("rand_get_state", {"dst": state})])


def rand_state(case: Case):
    drawn, state = case.steps[1].operands["dst"], case.steps[2].operands["dst"]
    values, after = random_words(case, drawn)
    return {drawn.name: values.astype(np.uint32), state.name: after}


def make_set_rng_seed(make: Maker) -> Case:
    """Seeds XORWOW on NeuronCore-v4; the LFSR is in rng's cases."""
    seed = make.tile(make.pick("u32", "s32"), 1, 1, space=make.space(), plain=True)
    p, _ = make.shape()
    state = make.tile("u32", p, 24, space=make.space(), writes=True)
    return Case("trn3", "vector", [Step("set_rng_seed", {"src_seeds": seed}), Step("rand_get_state", {"dst": state})])


def set_rng_seed(case: Case):
    state = case.steps[1].operands["dst"]
    key = int(words(case["src_seeds"].values)[0, 0])
    lane = np.arange(state.region.start, state.region.start + state.region.partitions)[:, None] * 4 + np.arange(4)
    zero, one = 0 * lane, 0 * lane + 1
    a, b = philox([lane, zero, zero, one], key), philox([lane, zero, one, one], key)
    out = np.stack([a[0] | np.uint64(1), a[1], a[2], a[3], b[0], b[1]], axis=-1)
    return {state.name: out.reshape(len(out), 24).astype(np.uint32)}


def make_dropout(make: Maker) -> Case:
    p, n = make.shape(40)
    if make.chance(0.5):
        chip, start = make.pick("trn1", "trn2"), None
        first = Step("set_rng_seed", {"src_seeds": make.tile("u32", 1, 1, plain=True)})
    else:
        chip = "trn3"
        first, start = with_state(make, p, "vector")
    data = make.tile(make.dtype(chip, "float", "int"), p, n, space=make.space())
    dst = make.tile(data.dtype, p, n, space=make.space(), writes=True, start=start)
    prob = make.pick(0.0, 1.0, float(np.float32(make.rng.random())), None)
    if prob is None:
        prob = make.tile("f32", p, 1, space=make.space(), writes=True, values=f32(make.rng.random((p, 1))))
    return Case(chip, "vector", [first, Step("dropout", {"dst": dst, "data": data, "prob": prob})])


def dropout(case: Case):
    o = case.steps[1].operands
    u = uniform(random_words(case, o["dst"])[0])
    drop = u < scalar_values(o["prob"], len(u))
    return {o["dst"].name: bits_of(np.where(drop, 0, words(o["data"].values)), o["dst"].dtype)}


TABLE = {
    "tensor_copy": Meaning(make_tensor_copy, tensor_copy, cases=60),
    "memset": Meaning(make_memset, memset),
    "tensor_tensor": Meaning(make_tensor_tensor, tensor_tensor, cases=80),
    "tensor_scalar": Meaning(make_tensor_scalar, tensor_scalar, cases=80),
    "scalar_tensor_tensor": Meaning(make_scalar_tensor_tensor, scalar_tensor_tensor),
    "tensor_tensor_scan": Meaning(make_tensor_tensor_scan, tensor_tensor_scan),
    "tensor_copy_predicated": Meaning(make_tensor_copy_predicated, tensor_copy_predicated),
    "reciprocal": Meaning(make_reciprocal, reciprocal),
    "bn_stats": Meaning(make_bn_stats, bn_stats),
    "bn_aggr": Meaning(make_bn_aggr, bn_aggr),
    "tensor_reduce": Meaning(make_tensor_reduce, tensor_reduce, cases=40),
    "tensor_scalar_reduce": Meaning(make_tensor_scalar_reduce, tensor_scalar_reduce),
    "tensor_scalar_cumulative": Meaning(make_tensor_scalar_cumulative, tensor_scalar_cumulative),
    "exponential": Meaning(make_exponential, exponential),
    "range_select": Meaning(make_range_select, range_select),
    "select_reduce": Meaning(make_select_reduce, select_reduce),
    "max8": Meaning(make_max8, max8),
    "nc_find_index8": Meaning(make_nc_find_index8, nc_find_index8),
    "nc_match_replace8": Meaning(make_nc_match_replace8, nc_match_replace8),
    "nc_stream_shuffle": Meaning(make_nc_stream_shuffle, nc_stream_shuffle),
    "quantize_mx": Meaning(make_quantize_mx, quantize_mx),
    "rng": Meaning(make_rng, rng),
    "rand2": Meaning(make_rand2, rand2),
    "rand_set_state, rand_get_state": Meaning(make_rand_state, rand_state),
    "set_rng_seed": Meaning(make_set_rng_seed, set_rng_seed),
    "dropout": Meaning(make_dropout, dropout),
}
