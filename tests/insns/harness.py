"""Machinery of the instruction tests: formats, access patterns, programs around instructions, comparison.

A case is a few instructions over tiles with known contents. `run` builds the assembly program that brings the tiles
on chip, runs the instructions on one engine and brings every tensor back; `expect` applies the meaning that a
meaning_*.py table states in NumPy. Whole tensors are compared, so a write outside the pattern fails too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import ml_dtypes
import numpy as np

# Ours by name; tf32 is stored in 32 bits and has no NumPy type, so it travels as f32 with 13 low zeros.
DTYPES = {
    "f32": np.float32,
    "tf32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f8e4m3": ml_dtypes.float8_e4m3,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e3m4": ml_dtypes.float8_e3m4,
    "s8": np.int8,
    "u8": np.uint8,
    "s16": np.int16,
    "u16": np.uint16,
    "s32": np.int32,
    "u32": np.uint32,
    "f8e4m3fn_x4": np.uint32,  # carriers: bits
    "f8e5m2_x4": np.uint32,
}
FLOATS = ["f32", "bf16", "f16", "f8e4m3", "f8e5m2"]
INTS = ["s8", "u8", "s16", "u16", "s32", "u32"]
CHIPS = ["trn1", "trn2", "trn3"]
PARTITIONS = 128


def numpy_dtype(name: str) -> np.dtype:
    return np.dtype(DTYPES[name])


def is_float(name: str) -> bool:
    return not np.issubdtype(numpy_dtype(name), np.integer)


def f32(values) -> np.ndarray:
    """Any format widened, as the engines do before computing."""
    return np.asarray(values).astype(np.float32)


def cast(values, name: str) -> np.ndarray:
    """f32 to a format: nearest even; integers saturate and NaN becomes 0."""
    values = np.asarray(values)
    if values.dtype == numpy_dtype(name) and name != "tf32":
        return values
    values = values.astype(np.float32)
    with np.errstate(all="ignore"):
        if name == "tf32":
            bits = values.view(np.uint32).astype(np.uint64)
            rounded = (bits + 0xFFF + ((bits >> 13) & 1)) & 0xFFFFE000
            rounded = np.where(np.isnan(values), 0x7FC00000, rounded)
            return rounded.astype(np.uint32).view(np.float32)
        if is_float(name):
            return values.astype(numpy_dtype(name))
        info = np.iinfo(numpy_dtype(name))
        whole = np.rint(np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=1e30, neginf=-1e30))
        return np.clip(whole, info.min, info.max).astype(np.int64).astype(numpy_dtype(name))


def ordered(values) -> np.ndarray:
    """Bits as integers whose difference is the distance in units in the last place."""
    size = values.dtype.itemsize
    bits = np.ascontiguousarray(values).view(f"u{size}").astype(np.int64)
    top = 1 << (8 * size - 1)
    return np.where(bits & top, -(bits & (top - 1)), bits)


def mismatch(got, want, ulps: int = 0) -> str:
    """Empty when equal. NaNs are one value; other floats are compared by bits, or within `ulps` units."""
    assert got.shape == want.shape and got.dtype == want.dtype, f"{got.dtype}{got.shape} against {want.dtype}{want.shape}"
    size = got.dtype.itemsize
    bad = np.ascontiguousarray(got).view(f"u{size}") != np.ascontiguousarray(want).view(f"u{size}")
    if got.dtype.kind not in "iu":
        nan = np.isnan(got.astype(np.float32)), np.isnan(want.astype(np.float32))
        near = np.abs(ordered(got) - ordered(want)) <= ulps if ulps else ~bad
        bad = ~((nan[0] & nan[1]) | (near & ~nan[0] & ~nan[1]))
    if not bad.any():
        return ""
    where = np.argwhere(bad)
    lines = [f"{len(where)} of {bad.size} elements differ (allowed {ulps} ulp), first ones:"]
    lines += [f"  {tuple(int(i) for i in at)}: got {got[tuple(at)]!r}, want {want[tuple(at)]!r}" for at in where[:4]]
    return "\n".join(lines)


# --- access patterns ---


@dataclass
class Region:
    """start:partitions, offset, then (count, stride) outermost first; elements."""

    start: int
    partitions: int
    offset: int
    dims: list[tuple[int, int]]

    def text(self) -> str:
        return f"[{self.start}:{self.partitions}, {self.offset}, {' '.join(f'{c}@{s}' for c, s in self.dims)}]"

    def indices(self) -> np.ndarray:
        """Free index of each element, in pattern order."""
        at = np.array([self.offset])
        for count, stride in self.dims:
            at = (at[:, None] + np.arange(count)[None, :] * stride).reshape(-1)
        return at

    @property
    def elements(self) -> int:
        return math.prod(c for c, _ in self.dims)


def start_partition(rng, partitions: int) -> int:
    step = 128 if partitions > 64 else 64 if partitions > 32 else 32
    return int(rng.choice(range(0, 128, step)))


def split(rng, n: int, rank: int) -> list[int]:
    """n as a product of `rank` counts."""
    counts = []
    for _ in range(rank - 1):
        divisors = [d for d in range(1, n + 1) if n % d == 0]
        d = int(rng.choice(divisors))
        counts.append(d)
        n //= d
    counts.append(n)
    return counts


def region(rng, partitions: int, n: int, *, writes: bool = False, free_max: int = 4096, plain: bool = False,
           start: int | None = None, counts: list[int] | None = None) -> tuple[Region, int]:
    """A random legal pattern of n elements a partition, and the free size its tensor needs.

    Patterns that are written visit no element twice; those that are read may repeat (stride 0) or run backwards.
    `counts` fixes the dims; `plain` asks for a contiguous run.
    """
    if counts is None:
        counts = [n] if plain or rng.random() < 0.4 else split(rng, n, int(rng.integers(1, 4)))
    order = list(rng.permutation(len(counts))) if not plain and rng.random() < 0.3 else list(range(len(counts)))
    strides = [0] * len(counts)
    extent = 1
    for d in reversed(order):
        gap = 1 if plain or rng.random() < 0.6 else int(rng.integers(1, 4))
        strides[d] = extent * gap
        if strides[d] * max(counts[d], 1) > free_max:
            strides[d] = extent
        extent += strides[d] * (counts[d] - 1)
    offset = 0 if rng.random() < 0.4 else int(rng.integers(0, 9))
    size = offset + extent + int(rng.integers(0, 3))
    if not plain and not writes and rng.random() < 0.15:
        d = int(rng.integers(len(counts)))
        strides[d] = 0
    if not plain and rng.random() < 0.1:
        d = int(rng.integers(len(counts)))
        offset += strides[d] * (counts[d] - 1)
        strides[d] = -strides[d]
    begin = start_partition(rng, partitions) if start is None else start
    return Region(begin, partitions, offset, list(zip(counts, strides))), size


# --- values ---

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 3.5, 1e-40, 1e30, -1e30, 65504, 240, 448, np.inf, -np.inf, np.nan])


def random_values(rng, name: str, shape, *, special: float = 0.03, scale: float | None = None) -> np.ndarray:
    dtype = numpy_dtype(name)
    if not is_float(name):
        info = np.iinfo(dtype)
        if scale is not None:
            return np.clip(np.rint(rng.normal(0, scale, shape)), info.min, info.max).astype(dtype)
        small = rng.integers(max(info.min, -9), 10, shape)
        wide = rng.integers(info.min, info.max, shape, endpoint=True)
        return np.where(rng.random(shape) < 0.5, small, wide).astype(dtype)
    width = scale if scale is not None else float(rng.choice([0.1, 1, 1, 30]))
    values = rng.normal(0, width, shape)
    values = np.where(rng.random(shape) < 0.1, np.rint(values), values)
    values = np.where(rng.random(shape) < special, rng.choice(SPECIAL, shape), values)
    return cast(values.astype(np.float32), name)


# --- tiles and cases ---


@dataclass
class Tile:
    """A tensor on chip with its contents before the instructions, and the part of it an operand walks."""

    name: str
    dtype: str
    space: str
    region: Region
    data: np.ndarray  # [128, free]

    @property
    def values(self) -> np.ndarray:
        """[partitions, elements] in pattern order, in the tile's format."""
        r = self.region
        return self.data[r.start : r.start + r.partitions, r.indices()]

    @property
    def f32(self) -> np.ndarray:
        return f32(self.values)

    def text(self) -> str:
        return self.name + self.region.text()

    def with_values(self, values) -> np.ndarray:
        """The whole tensor after `values` (in pattern order) were written through the region."""
        r = self.region
        after = self.data.copy()
        after[r.start : r.start + r.partitions, r.indices()] = cast(values, self.dtype).reshape(r.partitions, -1)
        return after

    @property
    def psum(self) -> bool:
        return self.space == "psum"


@dataclass
class Step:
    insn: str
    operands: dict  # slot: Tile, number or text
    attrs: dict = field(default_factory=dict)

    def text(self) -> str:
        words = [self.insn]
        words += [f"{slot}={o.text() if isinstance(o, Tile) else o}" for slot, o in self.operands.items() if o is not None]
        words += [f"{k}={attr_text(v)}" for k, v in self.attrs.items() if v is not None]
        return " ".join(words)


def attr_text(v) -> str:
    if isinstance(v, (bool, np.bool_)):
        return "true" if v else "false"
    if isinstance(v, (list, tuple)):
        return "[" + ",".join(str(int(x)) for x in v) + "]"
    return repr(float(v)) if isinstance(v, (float, np.floating)) else str(v)


@dataclass
class Case:
    chip: str
    engine: str
    steps: list[Step]
    ulps: dict = field(default_factory=dict)  # by tile name; 0 elsewhere

    def tiles(self) -> list[Tile]:
        found = {}
        for step in self.steps:
            for o in step.operands.values():
                if isinstance(o, Tile):
                    found.setdefault(o.name, o)
        return list(found.values())

    def __getitem__(self, slot: str):
        """The first step's operand."""
        return self.steps[0].operands.get(slot)

    @property
    def attrs(self) -> dict:
        return self.steps[0].attrs


class Maker:
    """Makes the tiles of one case: names them and draws their pattern and contents."""

    def __init__(self, rng):
        self.rng = rng
        self.count = 0

    def tile(self, dtype: str, partitions: int, n: int, *, space: str = "sbuf", writes: bool = False, values=None,
             special: float = 0.03, scale: float | None = None, plain: bool = False, start: int | None = None,
             counts: list[int] | None = None) -> Tile:
        self.count += 1
        size = numpy_dtype(dtype).itemsize
        free_max = 2048 // size if space == "psum" else 4096
        r, free = region(self.rng, partitions, n, writes=writes, free_max=free_max - 16, plain=plain, start=start,
                         counts=counts)
        data = random_values(self.rng, dtype, (PARTITIONS, free), special=special, scale=scale)
        tile = Tile(f"t{self.count}", dtype, space, r, data)
        if values is not None:
            tile.data = tile.with_values(values)
        return tile

    def overlapping(self, tile: Tile, n: int) -> Tile:
        """Another run of n elements in the same tensor, which may overlap the tile's own."""
        start = start_partition(self.rng, tile.region.partitions)
        offset = int(self.rng.integers(0, tile.data.shape[1] - n + 1))
        return replace(tile, region=Region(start, tile.region.partitions, offset, [(n, 1)]))

    def dtype(self, chip: str, *kinds: str) -> str:
        """One format of the named kinds (float, int) that the chip has; f32 and bf16 more often."""
        names = []
        if "float" in kinds:
            names += ["f32", "f32", "bf16", "bf16", "f16", "tf32", "f8e5m2", "f8e4m3fn" if chip == "trn3" else "f8e4m3"]
        if "int" in kinds:
            names += INTS
        return self.pick(*names)

    def space(self, engine: str = "vector") -> str:
        """GpSimd does not reach PSUM."""
        return "psum" if engine != "gpsimd" and self.chance(0.3) else "sbuf"

    def pick(self, *choices):
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def shape(self, n_max: int = 96) -> tuple[int, int]:
        """Partitions and elements per partition: small ones, odd ones, and now and then all 128."""
        p = int(self.pick(1, 7, 16, 32, 33, 64, 65, 128)) if self.chance(0.7) else int(self.rng.integers(1, 129))
        return p, int(self.rng.integers(1, n_max + 1))

    def number(self) -> float:
        return float(np.float32(self.rng.normal(0, float(self.pick(1, 1, 10)))))


# --- programs ---


def program(case: Case) -> str:
    """Loads every tile, copies those of PSUM over, runs the steps in one engine's stream, brings all back."""
    if hasattr(case, "program"):  # a case of more than one core writes its own
        return case.program()
    tiles = case.tiles()
    head, load, to_psum, from_psum, store = ["program case", f"chip {case.chip}"], [], [], [], []
    for t in tiles:
        shape = f"{t.dtype}[{t.data.shape[0]},{t.data.shape[1]}]"
        head += [f"tensor {t.name}_in hbm {shape} input", f"tensor {t.name}_out hbm {shape} output"]
        head += [f"tensor {t.name} {t.space} {shape}"]
        stage = t.name
        if t.psum:
            stage = f"{t.name}_stage"
            head += [f"tensor {stage} sbuf {shape}"]
            to_psum += [f"  tensor_copy dst={t.name} src={stage}"]
            from_psum += [f"  tensor_copy dst={stage} src={t.name}"]
        load += [f"  dma_copy dst={stage} src={t.name}_in queue=0 then s0+=16"]
        store += [f"  dma_copy dst={t.name}_out src={stage} queue=0"]
    loaded = f" wait s0>={16 * len(tiles)}"
    streams = {"sync": load, "vector": [], case.engine: []} if case.engine != "sync" else {"sync": load, "vector": []}
    if to_psum:
        to_psum[0] += loaded
        to_psum[-1] += " then s1+=1"
        streams["vector"] += to_psum
    steps = ["  " + step.text() for step in case.steps]
    steps[0] += " wait s1>=1" if to_psum else loaded
    steps[-1] += " then s2+=1"
    streams[case.engine] += steps
    if from_psum:
        from_psum[0] += " wait s2>=1"
        from_psum[-1] += " then s3+=1"
        streams["vector"] += from_psum
    store[0] += " wait s3>=1" if from_psum else " wait s2>=1"
    streams["sync"] += store
    body = [line for engine, lines in streams.items() if lines for line in [f"stream {engine}", *lines]]
    return "\n".join(head + body) + "\n"


def run(case: Case) -> dict[str, np.ndarray]:
    """Every tensor after the program, by tile name. Any finding is a failure: the programs are made to be clean."""
    from trine import _core

    text = program(case)
    inputs = {f"{t.name}_in": np.ascontiguousarray(t.data).view(np.uint8).reshape(-1) for t in case.tiles()}
    result = _core.assemble(text).run(inputs, chip=case.chip)
    assert not result.findings, "\n".join(map(str, result.findings)) + "\n" + text
    return {
        t.name: np.asarray(result.outputs[f"{t.name}_out"]).reshape(-1).view(t.data.dtype).reshape(t.data.shape)
        for t in case.tiles()
    }


@dataclass
class Meaning:
    """One instruction of a table: random cases, and what they must leave behind.

    generate(make: Maker) -> Case; meaning(case) -> {slot or tile name: values in pattern order}. Tiles the meaning
    does not name must come back unchanged. Values already in the tile's format are bits; others are f32 and cast.
    """

    generate: object
    meaning: object
    cases: int = 30


def check(m: Meaning, seed: list[int]) -> None:
    make = Maker(np.random.default_rng(seed))
    case = m.generate(make)
    with np.errstate(all="ignore"):
        named = m.meaning(case)
    want = {t.name: t.data for t in case.tiles()}
    for slot, values in named.items():
        tile = case[slot] if slot in case.steps[0].operands else next(t for t in case.tiles() if t.name == slot)
        want[tile.name] = tile.with_values(values)
    got = run(case)
    for name, after in want.items():
        wrong = mismatch(got[name], after, case.ulps.get(name, 0))
        assert not wrong, f"tile {name}: {wrong}\n{program(case)}"
