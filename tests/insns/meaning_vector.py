"""What the elementwise instructions of the vector engine mean, in NumPy, and random legal cases of each."""

from __future__ import annotations

import numpy as np
from alu_meaning import ARITHMETIC, BITS, OPERATORS, UNARY, UNARY_V4, bits_of, operate, operators, scalar, scalar_values, words
from harness import CHIPS, Case, Maker, Meaning, Step, cast, f32, is_float, numpy_dtype

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
}
