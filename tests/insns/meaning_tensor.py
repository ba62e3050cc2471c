"""What the tensor engine's instructions mean, in NumPy, and random legal cases of each."""

from __future__ import annotations

from dataclasses import replace

import harness
import ml_dtypes
import numpy as np
from harness import CHIPS, Case, Maker, Meaning, Region, Step, Tile, cast, f32, numpy_dtype

# MX carriers and scales travel as integers of their width.
harness.DTYPES |= {"f8e4m3fn_x4": np.uint32, "f8e5m2_x4": np.uint32, "f4e2m1fn_x4": np.uint16, "f8e8m0": np.uint8}
MX = {
    "f8e4m3fn_x4": (8, ml_dtypes.float8_e4m3fn),
    "f8e5m2_x4": (8, ml_dtypes.float8_e5m2),
    "f4e2m1fn_x4": (4, ml_dtypes.float4_e2m1fn),
}


class Bank(Tile):
    """A PSUM tensor that steps may write through several regions: a meaning gives all of it."""

    def with_values(self, values):
        return values if values.shape == self.data.shape else super().with_values(values)


def fused(a, b, c):
    """a·b + c rounded once to f32. f64 holds the product exactly; a sum it cannot hold is rounded to odd on the way."""
    p, c = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    total = p + c
    back = total - p
    lost = (p - (total - back)) + (c - back)
    bits = total.view(np.int64)
    nudge = np.isfinite(total) & (lost != 0) & (bits & 1 == 0)
    bits = bits + np.where(nudge, np.where((lost > 0) == (total > 0), 1, -1), 0)
    return bits.view(np.float64).astype(np.float32)


def product(a, b):
    """Σ_k a[k, m]·b[k, n] in k order, each step rounded once to f32."""
    total = np.zeros((a.shape[1], b.shape[1]), np.float32)
    for k in range(a.shape[0]):
        total = fused(*np.broadcast_arrays(a[k][:, None], b[k][None, :]), total)
    return total


def place(tile: Tile) -> tuple:
    """Index of the tile's elements in its tensor, [partitions, elements]."""
    r = tile.region
    return np.ix_(np.arange(r.start, r.start + r.partitions), r.indices())


def accumulate(case: Case, products: list[np.ndarray]):
    """The bank after every step, by the open-group rule; nothing is open when the first step comes."""
    bank = case["dst"].data.copy()
    is_open = np.zeros(bank.shape, bool)
    for step, p in zip(case.steps, products):
        dst = step.operands["dst"]
        at, how = place(dst), step.attrs["accumulate"]
        adds = is_open[at] if how == "first" else np.full(p.shape, how == "add")
        bank[at] = cast(np.where(adds, f32(bank[at]) + p, p), dst.dtype)
        is_open[at] = True
    return {"dst": bank}


# --- nc_matmul ---


def operand_dtypes(make: Maker, chip: str) -> tuple[str, str]:
    if make.chance(0.4):
        return make.pick("f32", "tf32"), make.pick("f32", "tf32")
    e4 = "f8e4m3fn" if chip == "trn3" else "f8e4m3"
    narrow = ["bf16", "bf16", "f16", "f8e5m2", e4]
    return make.pick(*narrow), make.pick(*narrow)


def tiling(make: Maker, chip: str, k: int, m: int, columns: bool = True) -> dict:
    """A legal part of the array, or none."""
    sizes = [128, 64] + ([32] if chip != "trn1" else [])
    if make.chance(0.6):
        return {}
    row = make.pick(*[s for s in sizes if s >= k])
    column = make.pick(*[s for s in sizes if s >= m]) if columns else 128
    at = [make.pick(*range(0, 128, row)), make.pick(*range(0, 128, column))]
    return {"tile_position": at, "tile_size": [row, column]}


def operands(make: Maker, dtypes, k: int, m: int, n: int, deep: int = 1) -> dict:
    shape = (lambda c: {"counts": [2, c]}) if deep == 2 else lambda c: {}
    return {
        "stationary": make.tile(dtypes[0], k, deep * m, special=0.005, scale=1, **shape(m)),
        "moving": make.tile(dtypes[1], k, deep * n, special=0.005, scale=1, **shape(n)),
    }


def sizes(make: Maker) -> tuple[int, int, int]:
    k, m = make.shape(128)
    n = int(make.pick(1, 17, 64, 200)) if make.chance(0.5) else int(make.rng.integers(1, 257))
    return k, m, n


def bank(make: Maker, chip: str, m: int, n: int) -> Tile:
    t = make.tile("bf16" if chip == "trn3" and make.chance(0.3) else "f32", m, n, space="psum", writes=True)
    return Bank(t.name, t.dtype, t.space, t.region, t.data)


def generate_matmul(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    double = chip != "trn1" and make.chance(0.2)
    k, m, n = sizes(make)
    dst = bank(make, chip, m, n)
    steps = []
    for i in range(make.pick(1, 1, 2, 3)):
        dtypes = operand_dtypes(make, chip)
        if double:
            e4 = "f8e4m3fn" if chip == "trn3" else "f8e4m3"
            dtypes = make.pick(e4, "f8e5m2"), make.pick(e4, "f8e5m2")
        attrs = {"accumulate": make.pick("overwrite", "first") if i == 0 else make.pick("overwrite", "first", "add")}
        attrs |= tiling(make, chip, k, m, columns=not double) | ({"perf_mode": "double_row"} if double else {})
        if make.chance(0.2):
            attrs |= {"is_moving_onezero": True}
        steps.append(Step("nc_matmul", {"dst": dst, **operands(make, dtypes, k, m, n, 2 if double else 1)}, attrs))
    return Case(chip, "tensor", steps)


def mean_matmul(case: Case):
    products = []
    for step in case.steps:
        a, b = step.operands["stationary"].f32, step.operands["moving"].f32
        if "perf_mode" in step.attrs:  # [K, 2, ·]: both halves of a partition are rows of K
            a, b = a.reshape(2 * a.shape[0], -1), b.reshape(2 * b.shape[0], -1)
        products.append(product(a, b))
    return accumulate(case, products)


def generate_overlap(make: Maker) -> Case:
    """Groups that overlap in part: where one is open the next adds, elsewhere it overwrites."""
    chip = make.pick(*CHIPS)
    k, m, n = make.pick(1, 8, 32), int(make.rng.integers(1, 33)), 64
    t = make.tile("f32", m, n, space="psum", writes=True, plain=True, start=0)
    whole = Bank(t.name, t.dtype, t.space, t.region, t.data)
    steps = []
    for i in range(4):
        count, stride = make.pick((16, 1), (16, 2), (9, 3), (32, 2), (1, 1))
        offset = t.region.offset + int(make.rng.integers(0, n - (count - 1) * stride))
        dst = replace(whole, region=Region(0, m, offset, [(count, stride)]))
        how = "overwrite" if make.chance(0.2) else "first"
        steps.append(Step("nc_matmul", {"dst": dst, **operands(make, ("bf16", "bf16"), k, m, count)}, {"accumulate": how}))
    return Case(chip, "tensor", steps)


def selection(make: Maker, dtype: str, k: int, n: int):
    """0/1, at most one 1 a column."""
    pick = np.zeros((k, n), np.float32)
    for column in range(n):
        if make.chance(0.9):
            pick[int(make.rng.integers(k)), column] = 1
    return cast(pick, dtype)


def generate_transpose_mode(make: Maker) -> Case:
    """From NeuronCore-v3 on, bits are moved: NaN and Inf stay where they are, PSUM has the source's dtype."""
    chip = make.pick("trn2", "trn3")
    k, m = make.shape(128)
    n = int(make.rng.integers(1, 129))
    dtype = make.pick("f32", "bf16", "f16", "f8e5m2")
    eight = dtype == "f8e5m2"
    stationary = make.tile(dtype, k, m, special=0.3)
    moving = make.tile(dtype, k, n, plain=True, values=selection(make, dtype, k, n))
    out = make.pick("bf16", "u16", dtype) if eight else dtype
    dst = make.tile(out, m, 2 * n if out == "f8e5m2" else n, space="psum", writes=True, plain=eight)
    if out == "f8e5m2":  # every other byte; the ones between become zero
        (start, rows, offset) = dst.region.start, dst.region.partitions, dst.region.offset
        dst = Bank(dst.name, out, "psum", Region(start, rows, offset, [(n, 2)]), dst.data)
    attrs = {"is_transpose": True, "accumulate": make.pick("overwrite", "first")}
    return Case(chip, "tensor", [Step("nc_matmul", {"dst": dst, "stationary": stationary, "moving": moving}, attrs)])


def moved_bits(values, dtype: str):
    size = values.dtype.itemsize
    return values.view(f"u{size}").astype(f"u{numpy_dtype(dtype).itemsize}").view(numpy_dtype(dtype))


def mean_transpose_mode(case: Case):
    data, pick = case["stationary"].values, f32(case["moving"].values)
    out = np.zeros((data.shape[1], pick.shape[1]), data.dtype)
    for k, n in np.argwhere(pick == 1):
        out[:, n] = data[k]
    dst = case["dst"]
    if dst.dtype != "f8e5m2":
        return {"dst": moved_bits(out, dst.dtype)}
    after = dst.data.copy()
    after[place(dst)] = out
    after[place(replace(dst, region=replace(dst.region, offset=dst.region.offset + 1)))] = 0
    return {"dst": after}


# --- nc_matmul_mx ---


def mx_tile(make: Maker, dtype: str, p: int, columns: int) -> Tile:
    make.count += 1
    width = 32 if MX[dtype][0] == 8 else 16
    data = make.rng.integers(0, 1 << width, (128, columns), dtype=np.uint64).astype(f"u{width // 8}")
    if dtype == "f8e4m3fn_x4":  # keep the NaN codes 0x7f and 0xff out, mostly
        data = data & np.uint32(0xBFBFBFBF)
    if dtype == "f8e5m2_x4":
        data = data & np.uint32(0xBFBFBFBF)
    return Tile(f"t{make.count}", dtype, "sbuf", Region(harness.start_partition(make.rng, p), p, 0, [(columns, 1)]), data)


def scale_tile(make: Maker, p: int, columns: int) -> Tile:
    make.count += 1
    data = make.rng.integers(117, 137, (128, columns)).astype(np.uint8)
    rows = p // 8 if p <= 32 else p
    start = harness.start_partition(make.rng, rows)
    return Tile(f"t{make.count}", make.pick("f8e8m0", "u8"), "sbuf", Region(start, rows, 0, [(columns, 1)]), data)


def generate_mx(make: Maker) -> Case:
    p, m, n = make.pick(32, 64, 96, 128), 2 * int(make.rng.integers(1, 65)), int(make.rng.integers(1, 129))
    dst = bank(make, "trn3", m, n)
    steps = []
    for i in range(make.pick(1, 2)):
        stationary, moving = mx_tile(make, make.pick(*MX), p, m), mx_tile(make, make.pick(*MX), p, n)
        step = {"dst": dst, "stationary": stationary, "moving": moving}
        step |= {"stationary_scale": scale_tile(make, p, m), "moving_scale": scale_tile(make, p, n)}
        attrs = {"accumulate": "overwrite" if i == 0 else make.pick("add", "first")}
        steps.append(Step("nc_matmul_mx", step, attrs | tiling(make, "trn3", p, m, columns=False)))
    return Case("trn3", "tensor", steps)


def dequantized(tile: Tile, scale: Tile):
    """[4·partitions, columns]: code l of a carrier is row 4p + l; 8 partitions share a scale."""
    bits, dtype = MX[tile.dtype]
    lanes = [(tile.values >> (bits * l)) & ((1 << bits) - 1) for l in range(4)]
    codes = np.stack(lanes, 1).astype(np.uint8)
    values = f32(codes.view(dtype) if bits == 8 else decode_f4(codes))
    groups = np.arange(tile.region.partitions) // 8
    exponent = scale.values[groups // 4 * 32 + groups % 4].astype(np.int32) - 127
    values = values * np.ldexp(np.float32(1), exponent)[:, None, :]
    return values.reshape(-1, values.shape[2])


def decode_f4(codes):
    return np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)[codes]


def mean_mx(case: Case):
    products = []
    for step in case.steps:
        o = step.operands
        products.append(product(dequantized(o["stationary"], o["stationary_scale"]), dequantized(o["moving"], o["moving_scale"])))
    return accumulate(case, products)


# --- nc_transpose ---


def generate_transpose(make: Maker) -> Case:
    chip, engine = make.pick(*CHIPS), make.pick("tensor", "vector")
    side = 128 if engine == "tensor" else 32
    p, f = int(make.rng.integers(1, side + 1)), int(make.rng.integers(1, side + 1))
    if engine == "tensor":
        dtype = make.dtype(chip, "float") if chip == "trn1" else make.pick("f32", "bf16", "f16", "s32", "u16", "f8e5m2", "u8")
        data = make.tile(dtype, p, f, special=0.02)
        if chip == "trn1":
            out = make.pick("f32", dtype)
        else:
            out = "u16" if numpy_dtype(dtype).itemsize == 1 else dtype
        dst = make.tile(out, f, p, space="psum", writes=True)
    else:
        dtype = make.dtype(chip, "float", "int")
        data = make.tile(dtype, p, f, space=make.space(), special=0.2)
        dst = make.tile(dtype, f, p, space=make.space(), writes=True)
    return Case(chip, engine, [Step("nc_transpose", {"dst": dst, "data": data})])


def mean_transpose(case: Case):
    data, dst = case["data"], case["dst"]
    if case.chip == "trn1" and case.engine == "tensor":  # a multiplication by one: Inf and NaN spread
        return {"dst": product(data.f32, np.eye(data.region.partitions, dtype=np.float32))}
    return {"dst": moved_bits(np.ascontiguousarray(data.values.T), dst.dtype)}


TABLE = {
    "nc_matmul": Meaning(generate_matmul, mean_matmul, 60),
    "nc_matmul overlapping groups": Meaning(generate_overlap, mean_matmul, 20),
    "nc_matmul is_transpose": Meaning(generate_transpose_mode, mean_transpose_mode, 30),
    "nc_matmul_mx": Meaning(generate_mx, mean_mx, 20),
    "nc_transpose": Meaning(generate_transpose, mean_transpose, 40),
}
