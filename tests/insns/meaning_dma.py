"""What the DMA instructions mean, in NumPy, and random legal cases of each: HBM and SBUF, casts, gathers, transposes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from harness import CHIPS, Case, Maker, Meaning, Region, Step, Tile, cast, f32, random_values, split
from meaning_vector import OPERATORS

# --- tiles in HBM ---


@dataclass
class Rows:
    """Offset, rows a stride apart, then (count, stride) outermost first; elements of a flat tensor."""

    offset: int
    rows: int
    row_stride: int
    dims: list[tuple[int, int]]
    index: Tile | None = None  # row r starts at index[r]·scale instead
    scale: int = 0
    column_major: bool = False  # how the index tile is read

    @property
    def partitions(self) -> int:
        return self.rows

    def text(self) -> str:
        by = f", rows {self.index.text()}*{self.scale}" if self.index else ""
        return f"[{self.offset}, {self.rows}@{self.row_stride} {' '.join(f'{c}@{s}' for c, s in self.dims)}{by}]"

    def starts(self) -> np.ndarray:
        if self.index is None:
            return np.arange(self.rows) * self.row_stride
        index = self.index.values.astype(np.int64)
        return (index.T if self.column_major else index).reshape(-1)[: self.rows] * self.scale

    def indices(self) -> np.ndarray:
        """[rows, elements]"""
        at = np.array([self.offset])
        for count, stride in self.dims:
            at = (at[:, None] + np.arange(count)[None, :] * stride).reshape(-1)
        return self.starts()[:, None] + at[None, :]


class InHbm(Tile):
    """A flat HBM tensor [1, size] and the rows an operand walks. Rows that are not inside are left out."""

    def present(self) -> np.ndarray:
        at = self.region.indices()
        return ((at >= 0) & (at < self.data.size)).all(axis=1)

    @property
    def values(self):
        at = self.region.indices()
        flat = self.data.reshape(-1)
        return flat[np.where(self.present()[:, None], at, 0)]

    def with_values(self, values):
        at, inside = self.region.indices(), self.present()
        after = self.data.reshape(-1).copy()
        values = cast(values, self.dtype).reshape(at.shape)
        for row in range(len(at)):  # in order: the last of two rows with one index stays
            if inside[row]:
                after[at[row]] = values[row]
        return after.reshape(self.data.shape)


@dataclass
class DmaCase(Case):
    """Also brings in the index tiles of gathered operands."""

    def tiles(self):
        found = super().tiles()
        return found + [t.region.index for t in found if isinstance(t, InHbm) and t.region.index]


def in_hbm(make: Maker, dtype: str, rows: int, n: int, *, writes: bool = False, counts=None, plain: bool = False,
           special: float = 0.03) -> InHbm:
    make.count += 1
    rng = make.rng
    counts = counts or ([n] if plain or make.chance(0.5) else split(rng, n, int(rng.integers(1, 4))))
    dims, extent = [], 1
    for count in reversed(counts):
        stride = extent * (1 if plain or make.chance(0.6) else int(rng.integers(1, 4)))
        dims.insert(0, (count, stride))
        extent += stride * (count - 1)
    row_stride = extent + (0 if plain or make.chance(0.5) else int(rng.integers(0, 5)))
    offset = 0 if make.chance(0.5) else int(rng.integers(0, 9))
    size = offset + row_stride * (rows - 1) + extent + int(rng.integers(0, 3))
    if not writes and make.chance(0.1):
        row_stride = 0
    data = random_values(rng, dtype, (1, size), special=special)
    return InHbm(f"t{make.count}", dtype, "hbm", Rows(offset, rows, row_stride, dims), data)


def gathered(make: Maker, dtype: str, rows: int, n: int, *, writes: bool = False, outside: bool = False, counts=None,
             column_major: bool = False) -> InHbm:
    """Rows of a table, by an index tile; `outside` makes some indices too large. What is written is written once."""
    table = rows + int(make.rng.integers(0, 20))
    t = in_hbm(make, dtype, table, n, plain=True, counts=counts)
    stride = max(t.region.row_stride, n)
    t.region.offset = 0
    t.data = random_values(make.rng, dtype, (1, table * stride), special=0.03)
    index = make.rng.permutation(table)[:rows] if writes else make.rng.integers(0, table, rows)
    index = np.where(make.rng.random(rows) < 0.2, table + 5, index) if outside else index
    make.count += 1
    width = 1 if rows <= 128 else -(-rows // 128)
    height = min(rows, 128)
    values = np.zeros(height * width, np.int64)
    values[:rows] = index
    values = values.reshape(width, height).T if column_major else values.reshape(height, width)
    data = np.zeros((128, width), np.uint32)
    data[:height] = values
    tile = Tile(f"t{make.count}", "u32", "sbuf", Region(0, height, 0, [(width, 1)]), data)
    t.region = Rows(0, rows, stride, t.region.dims, tile, stride, column_major)
    return t


def anywhere(make: Maker, dtype: str, rows: int, n: int, **options) -> Tile:
    if rows <= 128 and make.chance(0.5):
        return make.tile(dtype, rows, n, **options)
    return in_hbm(make, dtype, rows, n, **options)


# --- dma_copy ---


def issue(make: Maker, chip: str, same: bool) -> tuple[str, dict]:
    """An engine and a way of descriptor generation that go together."""
    modes = [(e, "unknown") for e in ("sync", "gpsimd", "scalar", "vector", "tensor")] + [("gpsimd", "swdge"), ("sync", "none")]
    if chip != "trn1" and same:
        modes += [("sync", "hwdge"), ("scalar", "hwdge")]
    engine, dge = make.pick(*modes)
    attrs = {"queue": make.pick(0, 1, 15), "dge": dge}
    return engine, attrs | ({"priority": make.pick(0, 3)} if chip == "trn3" else {})


def generate_copy(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    rows, n = make.shape(64)
    source, target = make.dtype(chip, "float", "int"), make.dtype(chip, "float", "int")
    if make.chance(0.5):
        target = source
    src = anywhere(make, source, rows, n)
    dst = anywhere(make, target, rows, n, writes=True)
    if make.chance(0.25):  # cut into rows differently
        flat = in_hbm(make, source, 1, rows * n)
        src, dst = (flat, dst) if make.chance(0.5) else (src, in_hbm(make, target, 1, rows * n, writes=True))
    engine, attrs = issue(make, chip, source == target)
    return DmaCase(chip, engine, [Step("dma_copy", {"dst": dst, "src": src}, attrs)])


def mean_copy(case: Case):
    src, dst = case["src"], case["dst"]
    values = src.values if src.dtype == dst.dtype else f32(src.values)
    return {"dst": values.reshape(dst.region.partitions, -1)}


def generate_indirect(make: Maker) -> Case:
    chip = make.pick("trn2", "trn3")
    rows, n = make.shape(64)
    source = make.dtype(chip, "float", "int")
    target = source if make.chance(0.6) else make.dtype(chip, "float", "int")
    skips = make.chance(0.5)
    scatters = make.chance(0.5)
    if scatters:
        dst, src = gathered(make, target, rows, n, writes=True, outside=skips), anywhere(make, source, rows, n)
    else:
        src, dst = gathered(make, source, rows, n, outside=skips), anywhere(make, target, rows, n, writes=True)
    attrs = {"dge": make.pick("swdge", "unknown"), "oob": "skip" if skips else "error"}
    return DmaCase(chip, "gpsimd", [Step("dma_copy", {"dst": dst, "src": src}, attrs)])


def mean_indirect(case: Case):
    src, dst = case["src"], case["dst"]
    values = src.values if src.dtype == dst.dtype else cast(f32(src.values), dst.dtype)
    if src.space == "hbm" and src.region.index:  # a row that is not there leaves its destination alone
        values = np.where(src.present()[:, None], values, dst.values)
    return {"dst": values}


# --- dma_transpose ---


def generate_transpose(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    dtype = make.pick("f32", "bf16", "s32", "u16", "f16")
    hardware = chip != "trn1" and make.chance(0.3)
    first, middle, last = int(make.rng.integers(1, 65)), int(make.rng.integers(1, 5)), int(make.rng.integers(1, 129))
    if hardware:
        dtype, first, middle = make.pick("bf16", "u16"), 16, make.pick(1, 3)
    if middle == 1:
        axes = [1, 0]
    else:
        axes = make.pick([2, 1, 0], [3, 1, 2, 0])
    counts = [last] if middle == 1 else [middle, last]
    src = anywhere(make, dtype, first, middle * last, counts=counts)
    dst = make.tile(dtype, last, middle * first, writes=True)
    attrs = {"axes": axes, "dge": "hwdge" if hardware else "unknown"}
    return DmaCase(chip, make.pick("sync", "scalar"), [Step("dma_transpose", {"dst": dst, "src": src}, attrs)])


def generate_gather_transpose(make: Maker) -> Case:
    first, middle, last = make.pick(16, 48, 128, 256), make.pick(1, 1, 2), make.pick(1, 8, 128)
    skips = make.chance(0.4)
    counts = [last] if middle == 1 else [middle, last]
    src = gathered(make, "bf16", first, middle * last, counts=counts, outside=skips, column_major=True)
    dst = make.tile("bf16", last, middle * first, writes=True, plain=True)
    attrs = {"axes": [1, 0] if middle == 1 else [2, 1, 0], "oob": "skip" if skips else "error"}
    return DmaCase(make.pick("trn2", "trn3"), "gpsimd", [Step("dma_transpose", {"dst": dst, "src": src}, attrs)])


def mean_transpose(case: Case):
    src, dst = case["src"], case["dst"]
    first, last = src.region.partitions, dst.region.partitions
    turn = lambda v: v.reshape(first, -1, last).transpose(2, 1, 0).reshape(last, -1)
    after = turn(src.values)
    if isinstance(src, InHbm) and src.region.index:
        there = turn(np.broadcast_to(src.present()[:, None], src.values.shape))
        after = np.where(there, after, dst.values)
    return {"dst": after}


# --- dma_compute and dma_trigger ---


def generate_compute(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    rows, n = make.shape(48)
    count = make.pick(1, 2, 2, 3, 5, 16)
    step = {"dst": anywhere(make, make.dtype(chip, "float", "int"), rows, n, writes=True)}
    attrs = {"op": make.pick("add", "add", "max", "min"), "dge": make.pick("none", "unknown")}
    for s in range(count):
        step[f"src{s}"] = anywhere(make, make.dtype(chip, "float", "int"), rows, n)
        if make.chance(0.4):
            attrs[f"scale{s}"] = make.number()
    return DmaCase(chip, make.pick("sync", "gpsimd"), [Step("dma_compute", step, attrs)])


def generate_modify(make: Maker) -> Case:
    """Read, add, write by index: into a table, or from one."""
    rows, n = make.shape(48)
    into = gathered(make, make.pick("f32", "bf16"), rows, n, writes=True)
    other = make.tile("f32", rows, n, writes=True, plain=True)
    step = {"dst": into, "src0": into, "src1": other} if make.chance(0.5) else {"dst": other, "src0": other, "src1": into}
    return DmaCase(make.pick("trn2", "trn3"), "gpsimd", [Step("dma_compute", step, {})])


def mean_compute(case: Case):
    total = None
    for s in range(16):
        src = case[f"src{s}"]
        if src is None:
            continue
        v = (f32(src.values) * np.float32(case.attrs.get(f"scale{s}", 1))).reshape(src.region.partitions, -1)
        total = v if total is None else f32(OPERATORS[case.attrs.get("op", "add")](total, v))
    return {"dst": total}


def generate_trigger(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    rows, n = make.shape(64)
    dtype = make.dtype(chip, "float", "int")
    step = {"dst": anywhere(make, dtype, rows, n, writes=True), "src": anywhere(make, dtype, rows, n)}
    return DmaCase(chip, make.pick("sync", "gpsimd", "tensor"), [Step("dma_trigger", step, {"queue": 3})])


TABLE = {
    "dma_copy": Meaning(generate_copy, mean_copy, 80),
    "dma_copy by index": Meaning(generate_indirect, mean_indirect, 40),
    "dma_transpose": Meaning(generate_transpose, mean_transpose, 40),
    "dma_transpose by index": Meaning(generate_gather_transpose, mean_transpose, 20),
    "dma_compute": Meaning(generate_compute, mean_compute, 40),
    "dma_compute by index": Meaning(generate_modify, mean_compute, 20),
    "dma_trigger": Meaning(generate_trigger, mean_copy, 20),
}
