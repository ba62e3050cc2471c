"""What control flow, registers and meeting cores mean, in Python, and random legal cases of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from harness import CHIPS, Case, Maker, Meaning, Region, Step, Tile, cast, f32
from meaning_vector import OPERATORS

ENGINES = ["tensor", "vector", "scalar", "gpsimd", "sync"]
WORD = 1 << 32

# --- registers, loops and branches: a random program beside a Python model of it ---


def signed(v: int) -> int:
    v %= WORD
    return v - WORD if v >= WORD // 2 else v


ALU = {
    "bypass": lambda a, b: a,
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "max": max,
    "min": min,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "left_shift": lambda a, b: a << (b % WORD) if b % WORD < 32 else 0,
    "right_shift": lambda a, b: a % WORD >> (b % WORD) if b % WORD < 32 else 0,
}
COMPARE = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "ge": lambda a, b: a >= b,
    "gt": lambda a, b: a > b,
    "le": lambda a, b: a <= b,
    "lt": lambda a, b: a < b,
}


class Writer:
    """Emits instructions and runs them in Python as it goes; what is emitted in a loop is run once per iteration."""

    def __init__(self, make: Maker, memory: Tile):
        self.make, self.memory, self.steps = make, memory, []
        self.out = memory.data.copy()
        self.labels = 0

    def emit(self, text: str):
        self.steps.append(Step(text, {}))

    def cell(self, i: int) -> str:
        return f"{self.memory.name}[{i}:1, 0, 1@1]"

    def block(self, depth: int) -> list:
        """A list of closures over the register file that have the effect of the instructions emitted."""
        run = [self.line(depth) for _ in range(self.make.pick(2, 3, 5))]
        return run

    def line(self, depth: int):
        make = self.make
        kind = make.pick("move", "alu", "alu", "load", "store", "loop", "branch") if depth < 3 else make.pick("move", "alu", "store")
        d, a, b = (int(make.rng.integers(0, 6)) for _ in range(3))
        number = int(make.rng.integers(-40, 40))
        cell = 32 * int(make.rng.integers(0, 4))  # tiles start at a quadrant
        if kind == "move":
            return self.move(d, a, number)
        if kind == "alu":
            return self.alu(d, a, b, number)
        if kind == "load":
            self.emit(f"register_load dst=r{d} src={self.cell(cell)}")
            return lambda r: r.__setitem__(d, int(self.out[cell, 0]))
        if kind == "store":
            self.emit(f"register_store dst={self.cell(cell)} src=r{d}")
            return lambda r: self.out.__setitem__((cell, 0), r[d])
        return self.loop(depth, d) if kind == "loop" else self.branch(depth, a, number)

    def move(self, d, a, number):
        if self.make.chance(0.5):
            self.emit(f"register_move dst=r{d} src=r{a}")
            return lambda r: r.__setitem__(d, r[a])
        self.emit(f"register_move dst=r{d} src={number}")
        return lambda r: r.__setitem__(d, number)

    def alu(self, d, a, b, number):
        op = self.make.pick(*ALU)
        if self.make.chance(0.5):
            self.emit(f"register_alu dst=r{d} a=r{a} b=r{b} op={op}")
            return lambda r: r.__setitem__(d, signed(ALU[op](r[a], r[b])))
        self.emit(f"register_alu dst=r{d} a=r{a} b={number} op={op}")
        return lambda r: r.__setitem__(d, signed(ALU[op](r[a], number)))

    def loop(self, depth, d):
        """Fixed trips, or as many as a register says; its body may change the register, which is looked at once."""
        trips = int(self.make.rng.integers(0, 4))
        by_register = self.make.chance(0.4)
        if by_register:
            self.emit(f"register_move dst=r{d} src={trips}")
        self.emit(f"loop {f'r{d}' if by_register else trips}")
        body = self.block(depth + 1)
        self.emit("end_loop")

        def run(r):
            if by_register:
                r[d] = trips
            for _ in range(trips):
                for f in body:
                    f(r)

        return run

    def branch(self, depth, a, number):
        """Forward only, past a block without loops of its own around it."""
        self.labels += 1
        label, cmp = f"past{self.labels}", self.make.pick(*COMPARE)
        self.emit(f"branch a=r{a} b={number} cmp={cmp} to={label}")
        skipped = [self.line(3) for _ in range(2)]
        self.emit(f"{label}:")
        return lambda r: None if COMPARE[cmp](r[a], number) else [f(r) for f in skipped]


@dataclass
class RegisterCase(Case):
    memory: Tile | None = None
    after: np.ndarray | None = None

    def tiles(self):
        return [self.memory]


def generate_registers(make: Maker) -> Case:
    data = make.rng.integers(-100, 100, (128, 1)).astype(np.int32)
    memory = Tile("t1", "s32", "sbuf", Region(0, 128, 0, [(1, 1)]), data)
    w = Writer(make, memory)
    for r in range(6):
        w.emit(f"register_alloc dst=r{r}")
    run = w.block(0)
    for r in range(4):
        w.emit(f"register_store dst={w.cell(32 * r)} src=r{r}")
    registers = [0] * 64
    for f in run:
        f(registers)
    for r in range(4):
        w.out[32 * r, 0] = registers[r]
    return RegisterCase(make.pick(*CHIPS), make.pick(*ENGINES), w.steps, memory=memory, after=w.out)


def mean_registers(case: Case):
    return {"t1": case.after}


# --- cores that meet ---


@dataclass
class Core:
    """One core's side: a source with contents, and a result as large as the collective makes it."""

    src: Tile
    dst: Tile


class MeetingCase(Case):
    """Two cores load their tiles, meet once on one engine, and bring everything back."""

    def __init__(self, chip, engine, words, cores: list[Core], results):
        super().__init__(chip, engine, [Step("meeting", {})])
        self.words, self.cores, self.results = words, cores, results

    def tiles(self):
        return [t for c in self.cores for t in (c.src, c.dst)]

    def program(self) -> str:
        lines = ["program meeting", f"chip {self.chip}", f"cores {len(self.cores)}"]
        for t in self.tiles():
            shape = f"{t.dtype}[{t.data.shape[0]},{t.data.shape[1]}]"
            lines += [f"tensor {t.name}_in hbm {shape} input", f"tensor {t.name}_out hbm {shape} output"]
        for n, core in enumerate(self.cores):
            address = 0
            for t in (core.src, core.dst):
                shape = f"{t.dtype}[{t.data.shape[0]},{t.data.shape[1]}]"
                at = f" at {n}.0:{address}" if t.space == "sbuf" else ""
                lines += [f"tensor {t.name} {t.space} {shape}{at}"]
                address += 65536
        for n, (core, words) in enumerate(zip(self.cores, self.words)):
            load = [f"  dma_copy dst={t.name} src={t.name}_in then s0+=16" for t in (core.src, core.dst)]
            meet = f"  {words} wait s0>=32 then s1+=1"
            store = [f"  dma_copy dst={t.name}_out src={t.name}" for t in (core.src, core.dst)]
            store[0] += " wait s1>=1"
            if self.engine == "sync":
                lines += [f"stream {n}.sync", *load, meet, *store]
            else:
                lines += [f"stream {n}.sync", *load, *store, f"stream {n}.{self.engine}", meet]
        return "\n".join(lines) + "\n"


def whole(name, dtype, space, rows, columns, make: Maker, integers=False) -> Tile:
    data = make.rng.normal(0, 2, (rows, columns)).astype(np.float32)
    data = cast(np.rint(data) if integers else data, dtype)
    return Tile(name, dtype, space, Region(0, rows, 0, [(columns, 1)]), data)


REDUCES = {"all_reduce", "reduce_scatter"}


def expected(kind: str, op: str, sources, groups, pairs, root, dim, before):
    """The dst of each core, flat, from the sources of its group by rank."""
    out = []
    for core, group in enumerate(groups):
        members = [c for c in range(len(groups)) if groups[c] == group]
        rank, n = members.index(core), len(members)
        parts = [sources[c] for c in members]
        if kind in REDUCES:
            total = f32(parts[0])
            for p in parts[1:]:
                total = f32(OPERATORS[op](total, f32(p)))
            out.append(total.reshape(-1) if kind == "all_reduce" else total.reshape(n, -1)[rank])
        elif kind == "all_gather":
            out.append(np.concatenate(parts, axis=dim).reshape(-1))
        elif kind == "all_to_all":
            out.append(np.concatenate([p.reshape(n, -1)[rank] for p in parts]))
        elif kind == "broadcast":
            out.append(parts[root].reshape(-1))
        else:
            sent = [s for s, t in pairs if t == rank]
            out.append(parts[sent[-1]].reshape(-1) if sent else before[core].reshape(-1))
    return out


def generate_collective(make: Maker) -> Case:
    chip = make.pick("trn2", "trn3")
    kind = make.pick("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute", "broadcast")
    op = make.pick("add", "max", "min")
    groups = make.pick([0, 0], [0, 0], [4, 4], [0, 1])
    n = groups.count(groups[0])
    space = "sbuf" if kind not in ("all_to_all", "permute") and make.chance(0.5) else "hbm"
    rows, columns = 2 * int(make.rng.integers(1, 17)), int(make.rng.integers(1, 40))
    dim = 1 if kind == "all_gather" and space == "sbuf" and make.chance(0.5) else 0
    dtype = make.pick("f32", "bf16", "s32", "f16")
    pairs = make.pick([(0, 1)], [(0, 1), (1, 0)], [(1, 1)]) if n == 2 else [(0, 0)]
    root = int(make.rng.integers(n))
    shape = {"all_gather": (rows * (1 if dim else n), columns * (n if dim else 1)), "reduce_scatter": (rows // n, columns)}
    to = shape.get(kind, (rows, columns))
    cores, words = [], []
    spelled = groups != [0, 0] or make.chance(0.5)
    for c in range(2):
        core = Core(whole(f"a{c}", dtype, space, rows, columns, make), whole(f"b{c}", dtype, space, *to, make))
        cores.append(core)
        word = f"collective dst={core.dst.name} src={core.src.name} kind={kind} op={op} dim={dim} root={root}"
        word += f" groups=[{groups[0]},{groups[1]}]" if spelled else ""
        word += f" pairs=[{','.join(f'{s},{t}' for s, t in pairs)}]" if kind == "permute" else ""
        words.append(word)
    results = expected(kind, op, [c.src.data for c in cores], groups, pairs, root, dim, [c.dst.data for c in cores])
    return MeetingCase(chip, make.pick(*ENGINES), words, cores, results)


def generate_exchange(make: Maker) -> Case:
    dtype, rows, columns = make.pick("f32", "bf16", "u8"), int(make.rng.integers(1, 129)), int(make.rng.integers(1, 64))
    cores, words = [], []
    for c in range(2):
        core = Core(*(whole(f"{x}{c}", dtype, "sbuf", rows, columns, make, integers=True) for x in "ab"))
        cores.append(core)
        words.append(f"sendrecv dst={core.dst.name} src={core.src.name} send_to_rank={1 - c} recv_from_rank={1 - c}")
    results = [cores[1].src.data.reshape(-1), cores[0].src.data.reshape(-1)]
    return MeetingCase(make.pick("trn2", "trn3"), make.pick(*ENGINES), words, cores, results)


def mean_meeting(case: MeetingCase):
    return {c.dst.name: r.reshape(c.dst.data.shape) for c, r in zip(case.cores, case.results)}


def in_place(make: Maker) -> Case:
    """Source and result are one tile, so nobody may see a half-written one."""
    data = [whole(f"a{c}", "f32", "sbuf", 8, 16, make) for c in range(2)]
    cores = [Core(t, whole(f"b{c}", "f32", "sbuf", 8, 16, make)) for c, t in enumerate(data)]
    words = [f"collective dst=a{c} src=a{c} kind=all_reduce" for c in range(2)]
    case = MeetingCase("trn2", "sync", words, cores, [])
    case.sum = data[0].data + data[1].data
    return case


def mean_in_place(case: MeetingCase):
    return {c.src.name: case.sum for c in case.cores}


TABLE = {
    "registers": Meaning(generate_registers, mean_registers, 60),
    "collective": Meaning(generate_collective, mean_meeting, 60),
    "collective in place": Meaning(in_place, mean_in_place, 4),
    "sendrecv": Meaning(generate_exchange, mean_meeting, 15),
}
