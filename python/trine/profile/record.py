"""What processes left in a record's folder: each run of each program, in order, with its time on this machine.

src/run/profile/run_log.h writes it. Whatever a killed process did not finish is left out, never guessed.
"""

import dataclasses
import json
import pathlib

import numpy as np

from trine.profile import rows

PROGRAM, COLLECTIVE, KERNEL, TO_DEVICE, FROM_DEVICE, STEP = 0, 1, 2, 3, 4, 5


@dataclasses.dataclass
class Process:
    """One process: `rows` in the order of its clock; `what` of a row is an index of `things`."""

    pid: int
    rank: int
    begin_ns: int
    things: list
    rows: np.ndarray


def _one(path, folder):
    """(head, things, rows) of one library's log."""
    things = []
    for line in path.with_suffix(".jsonl").read_text(errors="replace").splitlines():
        try:
            things.append(json.loads(line))
        except ValueError:
            break  # the last line of a killed process
    data = path.read_bytes()
    if not things or len(data) < 8:
        return None
    count = min(int.from_bytes(data[:8], "little"), len(data) // rows.LOGGED.itemsize - 1)
    table = np.frombuffer(data, rows.LOGGED, count=max(count, 0), offset=rows.LOGGED.itemsize)
    return things[0], things, table[table["what"] < len(things)]


def read(folder) -> list:
    """The processes that ran something, by rank; those that no launcher numbered follow in the order in which they began."""
    by_pid = {}
    for path in sorted(pathlib.Path(folder).glob("*.runs")):
        if found := _one(path, folder):
            by_pid.setdefault(found[0]["pid"], []).append(found)
    out = []
    for pid, logs in by_pid.items():
        things, tables = [], []
        for _, own, table in logs:
            table = table.copy()
            table["what"] += len(things)
            things += own
            tables.append(table)
        table = np.concatenate(tables)
        if (~np.isin(table["kind"], (TO_DEVICE, FROM_DEVICE))).any():  # something ran
            heads = [head for head, _, _ in logs]
            numbered = next((h["rank"] for h in heads if str(h.get("rank", "")).isdigit()), None)
            begin = min(h["begin_ns"] for h in heads)
            out.append(Process(pid, int(numbered) if numbered is not None else -1, begin, things, table[np.argsort(table["begin_ns"], kind="stable")]))
    out.sort(key=lambda p: (p.rank < 0, p.rank, p.begin_ns))
    for number, process in enumerate(out):
        process.rank = number
    return out
