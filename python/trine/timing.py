"""`with trine.timed() as t:` around any code: each program that runs inside, how often, and what it would take on the chip.

Programs of JAX and of torch, compiled, traced and eager, are counted as they run; they are compiled for the chip and
timed when somebody asks for a number.
"""

import collections
import ctypes
import dataclasses
import functools
import json
import re
import sys
import time

from trine import _core, progress
from trine.nki import kernel, machine
from trine.text import byte_count

SHOWN = 12  # rows of the table; the rest is one line
# torch.distributed's ops, as the schedules of src/comm know them. A barrier is a sum of nothing much.
EXCHANGES = {"allreduce_": "all_reduce", "allreduce_coalesced_": "all_reduce", "reduce_": "all_reduce", "broadcast_": "broadcast", "barrier": "all_reduce",
             "allgather_": "all_gather", "_allgather_base_": "all_gather", "allgather_into_tensor_coalesced_": "all_gather", "gather_": "all_gather",
             "allgather_coalesced_": "all_gather", "reduce_scatter_": "reduce_scatter", "_reduce_scatter_base_": "reduce_scatter",
             "reduce_scatter_tensor_coalesced_": "reduce_scatter", "scatter_": "broadcast", "alltoall_": "all_to_all", "alltoall_base_": "all_to_all",
             "send": "permute", "recv_": "permute", "recv_any_source_": "permute"}  # fmt: skip


@dataclasses.dataclass
class Ran:
    """A program and its times on one core, in ns of one run. `why_not`: the reason it has none."""

    name: str
    runs: int
    devices: int
    device_ns: float = 0.0
    launch_ns: float = 0.0
    collectives_ns: float = 0.0
    bound: str = ""
    flops: int = 0
    busy_ns: float = 0.0  # at the chip's full rate
    host_ops: list = dataclasses.field(default_factory=list)  # that the host computes between its parts
    why_not: str = ""

    @property
    def each_ns(self):
        """One run: device, launch and collectives."""
        return self.device_ns + self.launch_ns + self.collectives_ns

    @property
    def total_ns(self):
        """All runs."""
        return self.runs * self.each_ns

    def as_dict(self):
        """The fields, and total_ns."""
        return dataclasses.asdict(self) | {"total_ns": self.total_ns}


@dataclasses.dataclass
class Exchange:
    """A collective between processes, by the schedule's time on the instance; `bytes`: the larger of a rank's buffers."""

    kind: str
    bytes: int
    ranks: int
    count: int
    each_ns: float = 0.0
    why_not: str = ""

    @property
    def total_ns(self):
        """All of them."""
        return self.count * self.each_ns

    def as_dict(self):
        """The fields, and total_ns."""
        return dataclasses.asdict(self) | {"total_ns": self.total_ns}


class Timed:
    """What ran between enter and exit. Prints as text; `as_dict()` has everything."""

    def __init__(self, instance=None, auto_cast="none"):
        self.instance = instance or machine.chosen_instance() or machine.DEFAULT_INSTANCE
        self.chip = machine.instance(self.instance)["chip"]  # an unknown instance is said here
        if auto_cast not in ("none", "matmult", "all"):
            raise ValueError(f'auto_cast "{auto_cast}"; expected none, matmult or all')
        self.auto_cast, self.wall_s = auto_cast, 0.0
        self._found, self._cpu, self._began = [], collections.Counter(), None
        self._exchanged = []  # (op, group, bytes, ranks, count) of torch.distributed
        self._kernels = {}  # id -> [Compiled, runs] of NKI kernels that ran by themselves

    def __enter__(self):
        if self._began is not None:
            raise RuntimeError("trine.timed() is entered once; call it again for another stretch")
        self._records = [r for r in (_CoreRecord(), _torch_record(), _jax_record()) if r is not None]
        for r in self._records:
            r.start()
        self._before = [[row[2] for row in r.all()] for r in self._records]
        self._cpu_before = _on_cpu()
        self._torch = _torch_module()
        if self._torch:
            self._torch.exchanged_start()
            self._exchanged = self._torch.exchanged()
        kernel.HEARD.append(self._hear)
        self._began = time.perf_counter()
        return self

    def _hear(self, compiled):
        self._kernels.setdefault(id(compiled), [compiled, 0])[1] += 1

    def __exit__(self, *_):
        self.wall_s = time.perf_counter() - self._began
        kernel.HEARD.remove(self._hear)
        for r, before in zip(self._records, self._before):
            for i, (name, source, runs, devices, weights) in enumerate(r.all()):
                runs -= before[i] if i < len(before) else 0
                if runs:
                    self._found.append((name, source, runs, devices, tuple(weights)))
            r.stop()
        self._cpu = _on_cpu() - self._cpu_before
        if self._torch:
            before = {tuple(row[:4]): row[4] for row in self._exchanged}
            rows = [(*row[:4], row[4] - before.get(tuple(row[:4]), 0)) for row in self._torch.exchanged()]
            self._exchanged = [(*row[:4], _ranks_of(row[1]), row[4]) for row in rows if row[4]]
            self._torch.exchanged_stop()

    @functools.cached_property
    def programs(self) -> list:
        """Each program that ran, those that take longest first."""
        merged = {}
        for name, source, runs, devices, weights in self._found:
            key = (source, devices, weights)
            merged[key] = (name, runs + merged.get(key, (name, 0))[1])
        with progress.stage(f"compiling and timing {len(merged)} programs for {self.chip}"):
            rows = [self._timed(Ran(name, runs, key[1]), key[0], key[2]) for key, (name, runs) in merged.items()]
            rows += [self._timed_kernel(compiled, runs) for compiled, runs in self._kernels.values()]
        return sorted(rows, key=lambda r: -r.total_ns)

    def _timed_kernel(self, compiled, runs):
        row = Ran(compiled.program.name, runs, 1)
        try:
            return self._of_parts(row, [_core.time(compiled.program, self.instance)])
        except (ValueError, RuntimeError) as e:
            row.why_not = str(e)  # traced for a chip that is not this instance's
            return row

    def _timed(self, row, source, weights):
        try:
            compiled = _core.compile_device(source, self.chip, self.auto_cast, "bf16", list(weights))
            parts = [_core.time(p["program"], self.instance) for p in compiled.parts if not p["on_host"]]
        except (ValueError, MemoryError, RuntimeError, NotImplementedError) as e:
            row.why_not = str(e)
            return row
        row.host_ops = [f"{h['op']} {h['type']}: {h['reason']}" for h in compiled.host_placed]
        if not parts:
            row.why_not = row.host_ops[0] if row.host_ops else "it computes nothing"
            return row
        self._of_parts(row, parts)
        row.collectives_ns = sum(
            use["count"] * _core.time_collective(self.instance, use["kind"], use["bytes"], use["ranks"])["ns"]
            for use in compiled.collectives
            if use["ranks"] > 1
        )
        return row

    def _of_parts(self, row, parts):
        whole = _core.add_reports([p.counted for p in parts]).numbers()
        row.bound, row.flops, row.launch_ns = whole["bound"]["by"], whole["flops"], whole["launch_ns"]
        row.device_ns = whole["time_ns"] - row.launch_ns
        each = (p.report() for p in parts)
        row.busy_ns = sum(r["time_ns"] * min(1.0, max(r["mfu_pct"], r["mbu_pct"]) / 100) for r in each)
        return row

    @functools.cached_property
    def exchanges(self) -> list:
        """Collectives of torch.distributed between processes, those that take longest first."""
        merged = collections.Counter()
        for op, _, size, ranks, members, count in self._exchanged:
            if members and op in EXCHANGES:
                merged[EXCHANGES[op], max(size, 4), 2 if EXCHANGES[op] == "permute" else ranks, _stride(members)] += count
        return sorted((self._exchange(*key, count) for key, count in merged.items()), key=lambda e: -e.total_ns)

    def _exchange(self, kind, size, ranks, stride, count):
        """Groups that take every stride-th core are there as often, all at once."""
        row = Exchange(kind, size, ranks, count)
        have = machine.instance(self.instance)["cores"] // _core.chip(self.chip)["lnc_default"]
        nodes = -(-ranks * stride // have)
        try:
            found = _core.time_collective(self.instance, kind, size, ranks, nodes=nodes, stride=stride, all_groups=stride > 1)
            row.each_ns = found["ns"]
        except (ValueError, RuntimeError) as e:
            row.why_not = str(e)
        return row

    def over_ranks(self) -> list:
        """What each process computes, exchanges and waits for: every process calls it, after the block. A collective begins
        with the last of its ranks, so the others wait for the one that computes longest."""
        import torch.distributed as dist

        own = {"device_ns": self.device_ns, "launch_ns": self.launch_ns, "collectives_ns": self.collectives_ns}
        rows = [own]
        if dist.is_initialized() and dist.get_world_size() > 1:
            rows = [None] * dist.get_world_size()
            dist.all_gather_object(rows, own)
        busy = [r["device_ns"] + r["launch_ns"] for r in rows]
        last = busy.index(max(busy))
        return [r | {"rank": i, "waits_ns": max(busy) - b, "waits_for": last if b < max(busy) else None} for i, (r, b) in enumerate(zip(rows, busy))]

    @property
    def cpu_ops(self) -> dict:
        """Ops that torch's CPU ran, which have no time on the chip."""
        return dict(self._cpu)

    def _sum(self, what):
        return sum(r.runs * getattr(r, what) for r in self.programs)

    @property
    def device_ns(self) -> float:
        """On the engines, over all runs."""
        return self._sum("device_ns")

    @property
    def launch_ns(self) -> float:
        """What starting the programs takes, over all runs."""
        return self._sum("launch_ns")

    @property
    def collectives_ns(self) -> float:
        """Exchange between cores, over all runs, and between processes."""
        return self._sum("collectives_ns") + sum(e.total_ns for e in self.exchanges)

    @property
    def time_ns(self) -> float:
        """One after the other; nothing overlaps between programs."""
        return self._sum("each_ns") + sum(e.total_ns for e in self.exchanges)

    @functools.cached_property
    def cost(self) -> dict:
        """Dollars by way to rent and joules, of the cores that ran the programs."""
        cores = max([r.devices for r in self.programs], default=1)
        busy = self._sum("busy_ns") / self.time_ns if self.time_ns else 0.0
        return _core.cost_of(self.instance, self.time_ns, cores, 1.0, busy)

    @property
    def cost_usd(self) -> float | None:
        """By the usual way to rent, None where no price is known."""
        rents = self.cost["rents"]
        return rents[0]["usd"] if rents else None

    def as_dict(self) -> dict:
        """Everything: totals, cost, each program, the ops that torch's CPU ran."""
        return {"version": 1, "instance": self.instance, "chip": self.chip, "auto_cast": self.auto_cast,
                "time_ns": self.time_ns, "device_ns": self.device_ns, "launch_ns": self.launch_ns,
                "collectives_ns": self.collectives_ns, "wall_s": self.wall_s, "cost": self.cost, "cost_usd": self.cost_usd,
                "programs": [r.as_dict() for r in self.programs], "exchanges": [e.as_dict() for e in self.exchanges], "cpu_ops": self.cpu_ops}  # fmt: skip

    def to_json(self) -> str:
        """as_dict() as JSON."""
        return json.dumps(self.as_dict())

    def __str__(self):
        if self._began is None or not (self._found or self._cpu or self._kernels or self._exchanged):
            return f"timed on {self.instance}: no program ran on a virtual NeuronCore"
        return "\n".join([*self._head(), "", *self._table(), *self._notes()])

    __repr__ = __str__

    def _head(self):
        runs = sum(r.runs for r in self.programs)
        parts = [f"device {span(self.device_ns)}", f"launch {span(self.launch_ns)}"]
        if self.collectives_ns:
            parts.append(f"collectives {span(self.collectives_ns)}")
        rents = self.cost["rents"]
        price = f"${rents[0]['usd']:.3g} ({rents[0]['way']})" if rents else "no price known"
        cores = max([r.devices for r in self.programs], default=1)
        return [f"{runs:,} runs of {len(self.programs)} programs on {self.instance}, {'one core' if cores == 1 else f'{cores} cores'}",
                f"  time      {span(self.time_ns)}   ({' · '.join(parts)}; this machine took {self.wall_s:.3g} s)",
                f"  cost      {price} · {self.cost['wall_joules']:.3g} J at the wall"]  # fmt: skip

    def _table(self):
        """Programs of one name are one row: an op for several shapes, a step's recompiles."""
        by_name, whole = {}, self.time_ns or 1
        for r in self.programs:
            by_name.setdefault((r.name, bool(r.why_not)), []).append(r)
        groups = sorted(by_name.items(), key=lambda g: -sum(r.total_ns for r in g[1]))
        rows = [("program", "runs", "each", "total", "share", "bound by")]
        for (name, is_out), same in groups[:SHOWN]:
            runs, total = sum(r.runs for r in same), sum(r.total_ns for r in same)
            label = name if len(same) == 1 else f"{name} ({len(same)} forms)"
            times = ("–", "–", "–", "not on the device") if is_out else (
                span(total / runs), span(total), f"{100 * total / whole:.1f} %", same[0].bound)  # fmt: skip
            rows.append((label, f"{runs:,}", *times))
        for e in self.exchanges[:SHOWN]:
            name = f"{e.kind.replace('_', '-')} of {e.ranks} ranks, {byte_count(e.bytes)}"
            shown = ("–", "–", "–", "not timed") if e.why_not else (span(e.each_ns), span(e.total_ns), f"{100 * e.total_ns / whole:.1f} %", "collective")
            rows.append((name, f"{e.count:,}", *shown))
        rest = [r for _, same in groups[SHOWN:] for r in same]
        if rest:
            total = sum(r.total_ns for r in rest)
            rows.append((f"{len(rest)} more", f"{sum(r.runs for r in rest):,}", "", span(total), f"{100 * total / whole:.1f} %", ""))
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        cells = ([c.ljust(w) if i in (0, 5) else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))] for row in rows)
        return ["  " + "  ".join(c).rstrip() for c in cells]

    def _notes(self):
        notes = [f"  note      {r.name}: {r.why_not.splitlines()[0][:150]}" for r in self.programs if r.why_not][:3]
        notes += [f"  note      {r.name}: the host computes {r.host_ops[0][:120]}" for r in self.programs if r.host_ops and not r.why_not][:3]
        if self._cpu:
            named = ", ".join(f"{op} ×{n}" for op, n in self._cpu.most_common(4))
            more = f" and {len(self._cpu) - 4} more" if len(self._cpu) > 4 else ""
            notes.append(f"  note      on the CPU, not timed: {named}{more}")
        return ["", *notes] if notes else []


def timed(instance=None, auto_cast="none") -> Timed:
    """Collects what runs inside a `with` block; see Timed. auto_cast: none, matmult or all, to bf16."""
    return Timed(instance, auto_cast)


def span(ns):
    """A time with three digits and its unit."""
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= scale:
            return f"{ns / scale:.3g} {unit}" if ns < 999.5 * scale else f"{ns / scale:,.0f} {unit}"
    return f"{ns:.3g} ns"


# Each module of Trine counts on its own.


class _CoreRecord:
    module = _core

    def start(self):
        self.module.ran_start()

    def stop(self):
        self.module.ran_stop()

    def all(self):
        return self.module.ran()


class _TorchRecord(_CoreRecord):
    def __init__(self, module):
        self.module = module


class _JaxRecord:
    GIVE = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, ctypes.c_int64)

    def __init__(self, library):
        self.library = library

    def start(self):
        self.library.trine_pjrt_ran_start()

    def stop(self):
        self.library.trine_pjrt_ran_stop()

    def all(self):
        rows = []

        @self.GIVE
        def give(name, source, size, runs, devices):
            rows.append((name.decode(), ctypes.string_at(source, size), runs, devices, ()))

        self.library.trine_pjrt_ran(give)
        return rows


def _torch_module():
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "neuron"):
        return None
    from trine import _torch

    return _torch


def _torch_record():
    module = _torch_module()
    return _TorchRecord(module) if module else None


def _ranks_of(group):
    """Numbers of a group's members in the job, by the group's name; None where it is of the host's, or gone."""
    distributed = sys.modules.get("torch.distributed.distributed_c10d")
    try:
        found = distributed._resolve_process_group(group)
        on_device = {"neuron", "xla"} & set(re.split("[:,]", distributed.get_backend(found)))
        return tuple(distributed.get_process_group_ranks(found)) if on_device else None
    except (AttributeError, LookupError, RuntimeError, ValueError):
        return None


def _stride(members):
    """How far apart they lie, where that is one number."""
    steps = {b - a for a, b in zip(members, members[1:])}
    return steps.pop() if len(steps) == 1 and min(steps) > 0 else 1


def _jax_record():
    if "jax" not in sys.modules:
        return None
    import jax

    jax.devices()  # the plugin is loaded with the first look
    callbacks = sys.modules.get("trine.jax.callbacks")
    return _JaxRecord(callbacks.functions.library) if callbacks and callbacks.functions.library else None


def _on_cpu():
    out = collections.Counter()
    if (torch := sys.modules.get("torch")) is not None and hasattr(torch, "neuron"):
        out.update(torch.neuron.fallbacks())
    if pieces := sys.modules.get("trine.torch.pieces"):
        out.update(pieces.FALLBACKS)
    return out
