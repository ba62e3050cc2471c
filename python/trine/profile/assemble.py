"""From what ran to a profile: each program is compiled for the chip and timed once, then its runs are laid one after the other.

The arithmetic of a program's time is trine.timed's, so both say the same to the nanosecond. Ranks meet at their collectives:
one begins with the last of its ranks, and the others wait.
"""

import collections
import datetime
import json
import pathlib

import numpy as np

from trine import _core, progress
from trine.nki import machine
from trine.profile import record, rows, served, steps
from trine.text import byte_count
from trine.timing import EXCHANGES, _stride

VERSION = 1
EVENTS_MAX = 4 << 20  # of one program; more are written where --events asks for them
LAYERS, ADDED = "further layers, like those shown", "launch, host and what the likely time adds"  # of a server's program
SOURCE_BYTES_MAX = 1 << 20  # of one text that goes along


class Assembly:
    """A profile being written. `program` and `kernel` give a row of info's programs; `lay` puts runs on the timeline."""

    def __init__(self, path, instance=None, auto_cast="none", events=EVENTS_MAX):
        self.instance = instance or machine.chosen_instance() or machine.DEFAULT_INSTANCE
        self.chip = machine.instance(self.instance)["chip"]
        self.auto_cast, self.events = auto_cast, events
        self.writer = _core.ProfileWriter(str(path))
        self.programs, self.exchanges = [], []  # of info
        self._pieces = []  # by program of info: [(number in the file or NONE, name, lane, ps)]
        self._by_key, self._exchange_by_key = {}, {}
        self.ranks, self._runs, self._transfers, self.plan = [], [], [], []
        self._files = set()  # that instructions name themselves: JAX's and kernels'

    def program(self, name, source, weights=(), devices=1, lines=None) -> int:
        """A StableHLO program's row."""
        key = (source, tuple(weights), devices)
        if key not in self._by_key:
            row = _row(name, devices)
            try:
                compiled = _core.compile_device(source, self.chip, self.auto_cast, "bf16", list(weights))
                parts = [p["program"] for p in compiled.parts if not p["on_host"]]
                row["host_ops"] = [f"{h['op']} {h['type']}: {h['reason']}" for h in compiled.host_placed]
                if not parts:
                    row["why_not"] = row["host_ops"][0] if row["host_ops"] else "it computes nothing"
                uses = [u for u in compiled.collectives if u["ranks"] > 1]
                times = [collective_ns(self.instance, u) for u in uses]
                self._by_key[key] = self._add(row, parts, list(zip(uses, times)))
            except (ValueError, MemoryError, RuntimeError, NotImplementedError) as e:
                row["why_not"] = str(e)
                self._by_key[key] = self._add(row, [], [])
            if len(source) <= SOURCE_BYTES_MAX and source[:4] != b"ML\xefR":
                row["graph"] = source.decode(errors="replace")
                row["graph_lines"] = lines or {}
        return self._by_key[key]

    def kernel(self, name, program, key) -> int:
        """A kernel's row; its program is there already."""
        if key not in self._by_key:
            row = _row(name, 1)
            try:
                self._by_key[key] = self._add(row, [program], [])
            except (ValueError, RuntimeError) as e:
                row["why_not"] = str(e)  # traced for a chip that is not this instance's
                self._by_key[key] = self._add(row, [], [])
        return self._by_key[key]

    def timed_program(self, name, program, collectives=(), cores_on_stack=0) -> int:
        """A program that is compiled already; collectives: [({kind, bytes, ranks, count}, ns of each)]."""
        return self._add(_row(name, 1), [program], list(collectives), cores_on_stack)

    def known(self, key):
        """The row of a key that was added before, or None."""
        return self._by_key.get(key)

    def refused(self, key, name, why) -> int:
        """A program that is counted but has no time."""
        self._by_key[key] = self._add(_row(name, 1) | {"why_not": why}, [], [])
        return self._by_key[key]

    def served(self, key, name, devices, parts, collectives, cores_on_stack, whole, whole_ns) -> int:
        """A server's program: `parts` is what is shown of it, `whole` the report of all of it, which takes `whole_ns`; its runs bring
        their own times."""
        number = self._by_key[key] = self._add(_row(name, devices), parts, collectives, cores_on_stack)
        row = self.programs[number]
        more = whole["transfers"] / max(1, row["transfers"])
        shown = row["device_ns"] + row["launch_ns"] + row["collectives_ns"]
        row |= {"rest_ns": 0.0, "layers_ns": max(0.0, whole_ns - shown), "bound": whole["bound"]["by"], "flops": whole["flops"], "report": whole, "dma_active_ns": row["dma_active_ns"] * more,
                "dma_packet_ns": row["dma_packet_ns"] * more, "busy_ns": whole["time_ns"] * min(1.0, max(whole["mfu_pct"], whole["mbu_pct"]) / 100)}  # fmt: skip
        return number

    def _add(self, row, parts, collectives, cores_on_stack=0):
        for p in parts:
            self._files.update(f.rpartition(": ")[2] for f in p.files)
        added = [self.writer.add(p, self.instance, self.events, cores_on_stack) for p in parts]
        pieces = [(a["number"], row["name"], 0, a["time_fs"] / 1000) for a in added]
        if added:
            whole = _core.add_reports([a["counted"] for a in added]).numbers()
            row |= {"numbers": [a["number"] for a in added], "bound": whole["bound"]["by"], "flops": whole["flops"], "launch_ns": whole["launch_ns"],
                    "device_ns": whole["time_ns"] - whole["launch_ns"], "report": whole, "whole": all(a["whole"] for a in added)}  # fmt: skip
            row["busy_ns"] = sum(a["report"]["time_ns"] * min(1.0, max(a["report"]["mfu_pct"], a["report"]["mbu_pct"]) / 100) for a in added)
            for field in ("events", "instructions", "transfers", "dma_active_ns", "dma_packet_ns"):
                row[field] = sum(a[field] for a in added)
        for use, ns in collectives:
            row["collectives_ns"] += use["count"] * ns
            row["collectives"].append(dict(use) | {"each_ns": ns})
            pieces += [(rows.NONE, _exchange_name(use["kind"], use["bytes"], use["ranks"]), 1, ns * 1000)] * use["count"]
        self.programs.append(row)
        self._pieces.append(pieces)
        return len(self.programs) - 1

    def exchange(self, op, size, members):
        """A collective between processes: its row of info's exchanges, or None where it is not the devices'."""
        if not members or op not in EXCHANGES:
            return None
        kind = EXCHANGES[op]
        key = (kind, max(size, 4), 2 if kind == "permute" else len(members), _stride(tuple(members)))
        if key not in self._exchange_by_key:
            row = {"kind": kind, "bytes": key[1], "ranks": key[2], "count": 0, "each_ns": 0.0, "why_not": ""}
            have = machine.instance(self.instance)["cores"] // _core.chip(self.chip)["lnc_default"]
            nodes = -(-key[2] * key[3] // have)
            try:
                row["each_ns"] = _core.time_collective(self.instance, kind, key[1], key[2], nodes=nodes, stride=key[3], all_groups=key[3] > 1)["ns"]
            except (ValueError, RuntimeError) as e:
                row["why_not"] = str(e)
            self._exchange_by_key[key] = len(self.exchanges)
            self.exchanges.append(row)
        return self._exchange_by_key[key]

    def lay(self, rank, sequence, transfers=(), **about):
        """A rank's runs in order: [("program", row, host begin, host ns, device), a server's with the ps that it took, or
        ("exchange", row, …, members)]; its transfers: [(how many runs came before it, host begin, host ns, bytes, device, direction)]."""
        first, period, count = steps.find([(kind == "exchange") * (1 << 30) + row for kind, row, *_ in sequence])
        self.ranks.append({"rank": rank, "runs": 0, "steps": count, "step_runs": period, "step_first": first, **about})
        self._runs.append(sequence)
        self._transfers.append(transfers)

    def finish(self, **about):
        """Writes the file. What it says of the whole is in `info`, which is returned."""
        table, transfers, waits = _Timeline(self).lay()
        info = self._info(table, waits) | about
        self.writer.finish(json.dumps(info), table.tobytes(), transfers.tobytes())
        return info

    def _info(self, table, waits):
        for r in self.ranks:
            own = [self.programs[row] for kind, row, *_ in self._runs[r["rank"]] if kind == "program"]
            met = [self.exchanges[row] for kind, row, *_ in self._runs[r["rank"]] if kind == "exchange"]
            counts = collections.Counter(id(p) for p in own)
            each = {id(p): p for p in own}.items()
            r["runs"] = len(own)
            r["device_ns"] = sum(counts[i] * p["device_ns"] for i, p in each)
            r["launch_ns"] = sum(counts[i] * p["launch_ns"] for i, p in each)
            r["collectives_ns"] = sum(counts[i] * p["collectives_ns"] for i, p in each) + sum(e["each_ns"] for e in met)
            r["time_ns"] = sum(counts[i] * (p["device_ns"] + p["launch_ns"] + p["collectives_ns"]) for i, p in each) + sum(e["each_ns"] for e in met)
            for p, ns in self._rests(r["rank"]):
                p["rest_ns"] += ns
                r["device_ns"] += ns
                r["time_ns"] += ns
            r["waits_ns"] = float(sum(waits[r["rank"]]))
        for p in self.programs:
            p["each_ns"] = p["device_ns"] + p["launch_ns"] + p["collectives_ns"] + p.get("rest_ns", 0.0) / max(1, p["runs"])
            p["total_ns"] = p["runs"] * p["each_ns"]
        now = datetime.datetime.now(datetime.timezone.utc)
        return {"version": VERSION, "tool": f"trine {_core.version}", "created": now.isoformat(timespec="seconds"), "instance": self.instance,
                "chip": self.chip, "auto_cast": self.auto_cast, "command": [], "end_ns": int(table["end"].max()) // 1000 if len(table) else 0,
                "time_ns": max([r["time_ns"] for r in self.ranks], default=0.0), "ranks": self.ranks,
                "steps": max([r["steps"] for r in self.ranks], default=0), "waits": waits, "programs": self.programs, "exchanges": self.exchanges,
                "sources": self._sources()}  # fmt: skip

    def _rests(self, rank):
        """(row, ns) of a server's runs: what each took beyond what is shown of it."""
        for kind, row, *_, last in self._runs[rank]:
            if kind == "program" and self.is_served(row):
                yield self.programs[row], self.rest(row, last) / 1000

    def is_served(self, row):
        """Its runs bring their own times."""
        return "rest_ns" in self.programs[row]

    def rest(self, row, took):
        """ps of a run that took so many beyond those of its pieces."""
        return max(0.0, took - sum(ps for *_, ps in self._pieces[row]))

    def _sources(self):
        """Texts of the files that instructions come from, so that the profile can be read elsewhere."""
        files = {known["file"] for p in self.programs for known in (p.get("graph_lines") or {}).values() if "file" in known}
        out = {}
        for name in sorted(files | set(self._files)):
            path = pathlib.Path(name)
            try:
                if path.suffix != ".onnx" and path.is_file() and path.stat().st_size <= SOURCE_BYTES_MAX:
                    out[name] = path.read_text(errors="replace")
            except OSError:
                continue  # it was moved meanwhile
        return out


class _Timeline:
    """Runs of every rank on one clock."""

    def __init__(self, assembly):
        self.a = assembly
        self.names = {}
        self.begins = [[] for _ in assembly._runs]  # of each rank's runs, in ps: where its transfers are put

    def name(self, text):
        if text not in self.names:
            self.names[text] = self.a.writer.intern(text)
        return self.names[text]

    def lay(self):
        ranks = range(len(self.a._runs))
        now, at, out = [0.0] * len(ranks), [0] * len(ranks), [[] for _ in ranks]
        waits = [[0.0] * len(ranks) for _ in ranks]
        ready = True
        while ready:
            for r in ranks:
                self._until_exchange(r, now, at, out)
            ready = self._meet(now, at, out, waits)
        table = np.array([row for rank in out for lane in (0, 1) for row in rank if row[7] == lane], rows.RUN)
        return table, self._transfers(now), waits

    def _transfers(self, now):
        made = []
        for r, own in enumerate(self.a._transfers):
            begins = [*self.begins[r], now[r]]
            for before, host_begin, host_ns, size, device, direction in own:
                made.append((round(begins[before]), host_begin, host_ns, size, r, device, direction, self._step(r, before)))
        return np.array(made, rows.TRANSFER)

    def _step(self, r, number):
        about = self.a.ranks[r]
        return (number - about["step_first"]) // about["step_runs"] + 1 if about["steps"] and number >= about["step_first"] else 0

    def _until_exchange(self, r, now, at, out):
        sequence = self.a._runs[r]
        while at[r] < len(sequence) and sequence[at[r]][0] == "program":
            _, row, host_begin, host_ns, device, *took = sequence[at[r]]
            step = self._step(r, at[r])
            program = self.a.programs[row]
            self.begins[r].append(now[r])
            program["runs"] += 1
            for number, name, lane, ps in self.a._pieces[row]:
                out[r].append((round(now[r]), round(now[r] + ps), host_begin, host_ns, number, self.name(name), r, lane, device, program["devices"], step, 0))
                now[r] += ps
            left = self.a.rest(row, took[0]) if took else 0.0
            layers = min(left, program["layers_ns"] * 1000) if took else 0.0
            for what, ps in ((LAYERS, layers), (ADDED, left - layers)):
                if ps > 0:
                    out[r].append((round(now[r]), round(now[r] + ps), host_begin, host_ns, rows.NONE, self.name(what), r, 0, device, program["devices"], step, 0))
                    now[r] += ps
            at[r] += 1

    def _meet(self, now, at, out, waits):
        """One collective: the first whose ranks are all there. Where they do not match up, each goes on by itself."""
        there = {r: self.a._runs[r][at[r]] for r in range(len(at)) if at[r] < len(self.a._runs[r])}
        if not there:
            return False
        chosen = None
        for r, item in there.items():
            members = [m for m in item[5] if m < len(at)]
            if r in members and all(m in there and there[m][1] == item[1] and there[m][5] == item[5] for m in members):
                chosen = members
                break
        for group in [chosen] if chosen else [[r] for r in there]:
            begin = max(now[r] for r in group)
            last = max(group, key=lambda r: now[r])
            for r in group:
                _, row, host_begin, host_ns, device, _ = there[r]
                exchange = self.a.exchanges[row]
                exchange["count"] += 1
                waits[r][last] += (begin - now[r]) / 1000
                step = self._step(r, at[r])
                self.begins[r].append(begin)
                end = begin + exchange["each_ns"] * 1000
                name = self.name(_exchange_name(exchange["kind"], exchange["bytes"], exchange["ranks"]))
                out[r].append((round(begin), round(end), host_begin, host_ns, rows.NONE, name, r, 1, device, 1, step, 0))
                now[r], at[r] = end, at[r] + 1
        return True


def collective_ns(instance, use) -> float:
    """One of a program's collectives."""
    return _core.time_collective(instance, use["kind"], use["bytes"], use["ranks"])["ns"]


def _row(name, devices):
    return {"name": name, "numbers": [], "runs": 0, "devices": devices, "device_ns": 0.0, "launch_ns": 0.0, "collectives_ns": 0.0, "bound": "", "flops": 0,
            "busy_ns": 0.0, "collectives": [], "host_ops": [], "why_not": "", "whole": True, "events": 0, "instructions": 0, "transfers": 0,
            "dma_active_ns": 0.0, "dma_packet_ns": 0.0, "report": None}  # fmt: skip


def _exchange_name(kind, size, ranks):
    return f"{kind.replace('_', '-')} of {ranks} ranks, {byte_count(size)}"


def from_record(folder, path, instance=None, auto_cast="none", events=EVENTS_MAX, **about) -> dict:
    """A profile of everything in a record's folder; its info."""
    processes = record.read(folder)
    if not processes:
        raise ValueError("no program ran on a virtual NeuronCore")
    instance = served.instance_of(processes, pathlib.Path(folder)) or instance
    processes = served.copies(processes)
    assembly = Assembly(path, instance, auto_cast, events)
    kinds = sum(len(p.things) - 1 for p in processes)
    with progress.stage(f"compiling and timing up to {kinds} programs for {assembly.chip}"):
        for p in processes:
            assembly.lay(p.rank, *_sequence(assembly, p, pathlib.Path(folder)), pid=p.pid, begin_ns=p.begin_ns)
    with progress.stage("writing the profile"):
        return assembly.finish(**about)


def _sequence(assembly, process, folder):
    made = {}

    def thing(number):
        if number not in made:
            made[number] = _thing(assembly, process.things[number], folder)
        return made[number]

    out, transfers = [], []
    for begin_ns, took_ns, row_kind, what, device, _, size in process.rows.tolist():
        if row_kind in (record.TO_DEVICE, record.FROM_DEVICE):
            transfers.append((len(out), begin_ns, took_ns, size, device, int(row_kind == record.FROM_DEVICE)))
            continue
        kind, number, members = thing(what)
        if number is not None:
            more = [members] if kind == "exchange" else [size] if assembly.is_served(number) else []
            out.append((kind, number, begin_ns, took_ns, device, *more))
    return out, transfers


def _thing(assembly, line, folder):
    """("program" or "exchange", row, members) of a line of the log."""
    if "collective" in line:
        return "exchange", assembly.exchange(line["collective"], line["bytes"], line["members"]), line["members"]
    path = folder / line["source"]
    if not path.exists():
        return "program", None, None
    if "serve" in line:
        return "program", served.add(assembly, line, folder), None
    if "kernel" in line:
        return "program", assembly.kernel(line["kernel"], _core.Program.load(str(path)), str(path)), None
    lines = path.with_suffix(".lines")
    known = json.loads(lines.read_text()) if lines.exists() else None
    return "program", assembly.program(line["program"], path.read_bytes(), line["weights"], line["devices"], known), None
