"""trine.profile.open: a profile's tracks, windows, events and tables. What is computed of it is in the modules beside this one."""

import functools
import json
import os

import numpy as np

from trine import _core
from trine.profile import rows

DEPENDENTS_SHOWN = 32


def open(path) -> "Profile":
    """A profile that `trine profile capture` wrote. The file is mapped: what nobody looks at is not read."""
    return Profile(path)


def to_json(value) -> str:
    """Whatever a Profile gives, as JSON text."""
    return json.dumps(value, default=_plain)


def _plain(value):
    if isinstance(value, np.ndarray):
        return [dict(zip(value.dtype.names, row.tolist())) for row in value] if value.dtype.names else value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not JSON")


class Profile:
    """An open profile. Times are ns from its start; an event's number is good for event() of the same file."""

    def __init__(self, path):
        self.path = os.fspath(path)
        self._view = _core.ProfileView(self.path)
        try:
            self.info = json.loads(self._view.info)
            if not isinstance(self.info["programs"], list) or not isinstance(self.info["ranks"], list):
                raise KeyError("programs")
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{self.path}: not a whole profile: what it says of itself cannot be read") from None
        self._tables = {}

    def __repr__(self):
        return f"<Profile {self.path}: {len(self.info['programs'])} programs, {len(self.info['ranks'])} ranks on {self.info['instance']}>"

    # What the timeline needs.

    @functools.cached_property
    def _names(self):
        return self._view.names()

    def names(self) -> list:
        """Labels by their numbers."""
        return self._names

    @functools.cached_property
    def _tracks(self):
        return self._view.tracks()

    def tracks(self) -> list:
        """Every track: id, rank, device, core, kind and name."""
        return self._tracks

    def window(self, track_ids, begin_ns, end_ns, columns) -> dict:
        """By track, what is between two times: at most about `columns` rows, neighbours joined where there is more."""
        return {t: np.frombuffer(self._view.window(int(t), int(begin_ns), int(end_ns), int(columns)), rows.WINDOW) for t in track_ids}

    def event(self, event_id) -> dict:
        """One event in full: its instruction, where it comes from, what it waited for, what it depends on."""
        event_id = int(event_id)
        if (number := (event_id >> 32) - len(self.runs)) >= 0 and number < len(self.transfers):
            return self._transfer(event_id, self.transfers[number])
        if not self._view.has(event_id):
            raise IndexError(f"no event {event_id} in {self.path}")
        run_number, number = event_id >> 32, event_id & rows.NONE
        run = self.runs[run_number]
        out = {"event": event_id, "rank": int(run["rank"]), "device": int(run["device"]), "step": int(run["step"]), "program": self._view.name(int(run["name"])),
               "track": self._view.track_of(event_id, int(run["device"]))}  # fmt: skip
        if number == rows.NONE:
            kind = ("program", "collective", "host")[min(int(run["lane"]), 2)]
            return out | {"kind": kind, "name": out["program"], "begin_ns": run["begin"] / 1000, "end_ns": run["end"] / 1000,
                          "duration_ns": (run["end"] - run["begin"]) / 1000, "host_ns": int(run["host_ns"]), "depends_on": [], "dependents": []}  # fmt: skip
        program = int(run["program"])
        e = self.table(program, "events")[number]
        if e["insn"] >= len(self.table(program, "insns")):
            raise ValueError(f"{self.path}: not a whole profile: event {event_id} is of no instruction")
        insn = self.table(program, "insns")[e["insn"]]
        base = event_id - number
        begin, end = (int(run["begin"]) + int(e["begin"])) / 1000, (int(run["begin"]) + int(e["end"])) / 1000
        dependents = np.flatnonzero(self.table(program, "events")["cause"] == number)[:DEPENDENTS_SHOWN]
        place = self.place(program, insn)
        return out | place | {
            "kind": rows.DOINGS[min(int(e["doing"]), 2)], "name": self._view.name(int(insn["name"])), "text": self._view.name(int(insn["text"])),
            "engine": rows.PARTS[min(int(insn["part"]), 11)], "begin_ns": begin, "end_ns": end, "duration_ns": end - begin,
            "waits": {"for": rows.PARTS[min(int(e["waited_for"]), 11)], "ns": float(e["waited_ns"])},
            "flops": int(insn["flops"]), **{f"{k}_bytes": int(insn[k]) for k in TRAFFIC},
            "depends_on": [base + int(e["cause"])] if e["cause"] != rows.NONE else [], "dependents": [base + int(d) for d in dependents],
            "executions": int(insn["count"])}  # fmt: skip

    def _transfer(self, event_id, row):
        name = rows.DIRECTIONS[min(int(row["direction"]), 1)]
        return {"event": event_id, "kind": "transfer", "name": name, "rank": int(row["rank"]), "device": int(row["device"]), "step": int(row["step"]),
                "program": "", "track": None, "begin_ns": row["at"] / 1000, "end_ns": row["at"] / 1000, "duration_ns": 0.0, "host_ns": int(row["host_ns"]),
                "bytes": int(row["bytes"]), "depends_on": [], "dependents": []}  # fmt: skip

    # Tables as they lie in the file.

    @functools.cached_property
    def runs(self) -> np.ndarray:
        """Every run of every rank, by rank and lane; times in ps."""
        return np.asarray(self._view.runs()).view(rows.RUN)

    @functools.cached_property
    def transfers(self) -> np.ndarray:
        """Every transfer between a rank's host and its devices; `at` is the instant on the chip's clock, in ps."""
        return np.asarray(self._view.transfers()).view(rows.TRANSFER)

    def host(self):
        """The same on this machine's clock: tracks, windows and events of runs, transfers and gaps."""
        from trine.profile import hosting

        return hosting.HostClock(self)

    def table(self, program, kind) -> np.ndarray:
        """Rows of a program by its number in the file: tracks, events, insns, memory or semaphores."""
        if (program, kind) not in self._tables:
            dtype = {"tracks": rows.TRACK, "events": rows.EVENT, "insns": rows.INSN, "memory": rows.MEMORY,
                     "semaphores": rows.SEMAPHORE}[kind]  # fmt: skip
            self._tables[program, kind] = np.asarray(self._view.table(program, kind)).view(dtype)
        return self._tables[program, kind]

    def program(self, number):
        """The program itself, to be timed again."""
        return self._view.program(number)

    @functools.cached_property
    def by_number(self) -> dict:
        """The row of info's programs by the program's number in the file."""
        return {n: p for p in self.info["programs"] for n in p["numbers"]}

    def place(self, program, insn) -> dict:
        """Where an instruction comes from: the user's line, the framework's op, the graph's op."""
        from trine.profile import origin

        return origin.of(self, program, self._view.name(int(insn["at"])))

    # What it means; each is what a command prints with --json.

    def summary(self) -> dict:
        """What `trine profile view --output-format summary-json` prints."""
        from trine.profile import summing

        return summing.summary(self)

    def operators(self) -> list:
        """Framework op, graph op and their instructions: counts, ns by engine, bytes, flops; longest first."""
        return _explaining().operators(self)

    def source(self) -> list:
        """The user's lines: file, line, text, ns, share, engines; longest first."""
        return _explaining().source(self)

    def memory(self, kind, rank=0) -> list:
        """(ns, bytes, label) of sbuf, psum or hbm."""
        return _explaining().memory(self, kind, rank)

    def roofline(self) -> dict:
        """Peaks, and a point for each program."""
        return _explaining().roofline(self)

    def advice(self) -> list:
        """What to change first, each with what it saves."""
        return self._advice

    @functools.cached_property
    def _advice(self):
        return _explaining().advice(self)

    def waits(self) -> list:
        """ns that a rank (row) waits for another (column)."""
        return _explaining().waits(self)

    def critical_path(self, begin_ns, end_ns, most=500) -> list:
        """[{event, ns}] in order of time."""
        return _explaining().critical_path(self, begin_ns, end_ns, most)


def _explaining():
    from trine.profile import explaining

    return explaining


TRAFFIC = ("hbm_read", "hbm_write", "sbuf_read", "sbuf_write", "psum_read", "psum_write", "spill_save", "spill_reload")
