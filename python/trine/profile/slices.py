"""Every slice of a profile's timeline, for writers of traces: runs, and in them the events of their programs."""

import dataclasses

import numpy as np

from trine.profile import rows

SLICES_MAX = 2_000_000  # runs past them are there as one slice each


@dataclasses.dataclass
class Part:
    """The events of one run: `track` of each, begin and end in ps of the profile, `insn`, `cause` (index in the part, or -1)."""

    run: int
    program: int
    track: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    insn: np.ndarray
    cause: np.ndarray
    doing: np.ndarray


def tracks_of(profile) -> dict:
    """(rank, device, core, part, queue, lane) → id."""
    out, seen = {}, {}
    for t in profile.tracks():
        if t["kind"] in ("engine", "dma"):
            name = t["name"]
            if t["kind"] == "engine":
                key = (rows.PARTS.index(name), 0, 0)
            else:
                queue, _, lane = name.removeprefix("queue ").partition(" (")
                key = (5, int(queue), int(lane.rstrip(")")) - 1 if lane else 0)
            out[t["rank"], t["device"], t["core"], *key] = t["id"]
    del seen
    return out


def parts(profile, most=SLICES_MAX):
    """A Part for each run, until there are too many slices."""
    ids, total, by_program = tracks_of(profile), 0, {}
    for number in range(len(profile.runs)):
        run = profile.runs[number]
        program = int(run["program"])
        if program == rows.NONE:
            continue
        events, tracks = profile.table(program, "events"), profile.table(program, "tracks")
        total += len(events)
        if total > most:
            return
        where = (int(run["rank"]), int(run["device"]), program)
        if where not in by_program:
            track = np.zeros(len(events), np.int64)
            for t in tracks:
                key = (where[0], where[1], int(t["core"]), int(t["part"]), int(t["queue"]), int(t["lane"]))
                track[int(t["event"]) : int(t["event"] + t["count"])] = ids.get(key, -1)
            by_program[where] = track
        cause = np.where(events["cause"] < len(events), events["cause"].astype(np.int64), -1)
        begin = int(run["begin"])
        yield Part(number, program, by_program[where], begin + events["begin"], begin + events["end"], events["insn"], cause, events["doing"])
