"""What a profile means: time by operator and by source line, what memory holds, roofline, the critical path, and advice with its
gain. Advice is `explain`'s over the programs that take longest, each gain the program timed again with one thing changed."""

import collections
import linecache
import os

import numpy as np

from trine import _core
from trine.profile import hosting, origin, rows, summing

PROGRAMS_ADVISED = 4
PATH_MOST = 500


def operators(profile) -> list:
    """Framework op → graph op: instructions, time by engine, bytes and flops over all runs; longest first."""
    made = {}
    for row, runs, number in _ran(profile):
        insns = profile.table(number, "insns")
        for at in np.unique(insns["at"]):
            same = insns[insns["at"] == at]
            place = origin.of(profile, number, profile.names()[at])
            key = (row["name"], place["framework_op"], place["graph_op"], place["source"], place["line"])
            found = made.setdefault(key, {"program": row["name"], "framework_op": place["framework_op"], "graph_op": place["graph_op"],
                                          "source": place["source"], "line": place["line"], "instructions": 0, "busy_ns": collections.Counter(),
                                          "hbm_bytes": 0, "flops": 0, "waited_ns": 0.0, "opcodes": collections.Counter()})  # fmt: skip
            found["instructions"] += runs * int(same["count"].sum())
            found["flops"] += runs * int((same["count"] * same["flops"]).sum())
            found["hbm_bytes"] += runs * int((same["count"] * (same["hbm_read"] + same["hbm_write"])).sum())
            found["waited_ns"] += runs * float(same["waited"].sum()) / 1000
            for part in np.unique(same["part"]):
                found["busy_ns"][rows.PARTS[part]] += runs * float(same["busy"][same["part"] == part].sum()) / 1000
            for name in np.unique(same["name"]):
                found["opcodes"][profile.names()[name]] += runs * int(same["count"][same["name"] == name].sum())
    out = [f | {"busy_ns": dict(f["busy_ns"]), "opcodes": dict(f["opcodes"]), "ns": max(f["busy_ns"].values(), default=0.0)} for f in made.values()]
    return sorted(out, key=lambda f: -f["ns"])


def source(profile) -> list:
    """Each line of the user's source: its text, how long it keeps the unit that it keeps longest, its share, time by engine."""
    made = {}
    for op in operators(profile):
        if not op["source"]:
            continue
        key = (op["source"], op["line"], "" if op["line"] else op["framework_op"])  # a file without lines (ONNX) has nodes
        found = made.setdefault(key, {"engines": collections.Counter(), "instructions": 0})
        found["engines"].update(op["busy_ns"])
        found["instructions"] += op["instructions"]
    whole = sum(r["time_ns"] for r in profile.info["ranks"]) or 1.0
    out = [{"file": file, "line": line, "text": node or text_of(profile, file, line), "ns": max(f["engines"].values(), default=0.0), "engines": dict(f["engines"]),
            "instructions": f["instructions"], "share": max(f["engines"].values(), default=0.0) / whole} for (file, line, node), f in made.items()]  # fmt: skip
    return sorted(out, key=lambda f: -f["ns"])


def shown_line(file, line) -> str:
    """train.py:12; of a file without lines its name."""
    return f"{os.path.basename(file)}:{line}" if line else os.path.basename(file)


def text_of(profile, file, line) -> str:
    """A source line: as kept in the profile, else as the file has it now."""
    stored = profile.info.get("sources", {}).get(file)
    if stored is not None:
        lines = stored.split("\n")
        return lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return linecache.getline(file, line).strip()


def _ran(profile):
    """(row of info, runs over all ranks, number in the file) of each program."""
    for row in profile.info["programs"]:
        for number in row["numbers"]:
            yield row, row["runs"], number


def memory(profile, kind, rank=0, most=20000) -> list:
    """(ns, bytes, label) of sbuf, psum or hbm over a rank's time: each row holds until the next."""
    if kind not in rows.SPACES:
        raise ValueError(f'found memory "{kind}", expected sbuf, psum or hbm')
    code, names, out = rows.SPACES.index(kind), profile.names(), []
    runs = profile.runs[(profile.runs["rank"] == rank) & (profile.runs["lane"] == 0) & (profile.runs["program"] != rows.NONE)]
    per_run = max(2, most // max(1, len(runs)))
    curves = {}
    for run in runs[: most // 2]:
        number = int(run["program"])
        if number not in curves:
            table = profile.table(number, "memory")
            curves[number] = _thinned(table[table["kind"] == code], per_run)
        begin = int(run["begin"])
        out += [((begin + at) / 1000, size, names[label] if label < len(names) else "") for at, size, label in curves[number]]
        if kind != "hbm":
            out.append((int(run["end"]) / 1000, 0, ""))
    return out


def _thinned(table, most):
    """At most so many rows; of each group the one with most bytes."""
    group = -(-len(table) // most) if len(table) else 1
    picked = [table[i : i + group][int(np.argmax(table[i : i + group]["bytes"]))] for i in range(0, len(table), group)]
    return [(int(r["at"]), int(r["bytes"]), int(r["label"])) for r in picked]


def roofline(profile) -> dict:
    """Peaks of a core, and each program as a point: flops a byte of HBM against flops a second."""
    chip = _core.chip(profile.info["chip"])
    points = []
    for row in profile.info["programs"]:
        r = row["report"]
        if not r or not r["time_ns"]:
            continue
        moved = r["hbm_read_bytes"] + r["hbm_write_bytes"]
        points.append({"name": row["name"], "runs": row["runs"], "flops": r["flops"], "hbm_bytes": moved, "intensity": r["flops"] / max(1, moved),
                       "flops_per_s": r["flops"] / r["time_ns"] * 1e9, "time_ns": r["time_ns"], "total_ns": row["total_ns"], "bound": row["bound"]})  # fmt: skip
    peaks = {}
    for row in profile.info["programs"]:
        r = row["report"]
        if r and r["mfu_pct"] > 0:
            peaks.setdefault("flops_per_s", r["flops"] / r["time_ns"] * 1e9 / (r["mfu_pct"] / 100))
        if r and r["mbu_pct"] > 0:
            peaks.setdefault("hbm_bytes_per_s", (r["hbm_read_bytes"] + r["hbm_write_bytes"]) / r["time_ns"] * 1e9 / (r["mbu_pct"] / 100))
    return {"version": 1, "chip": profile.info["chip"], "peaks": peaks, "points": points, "clock": {k: v for k, v in chip.items() if k.endswith("ghz")}}


def advice(profile, most=10) -> list:
    """What to change first: explain's advice over the programs that take longest, by what it saves of all runs."""
    out = []
    for row in sorted(profile.info["programs"], key=lambda p: -p["total_ns"])[:PROGRAMS_ADVISED]:
        for number in row["numbers"]:
            try:
                _, parts = _core.explain(profile.program(number), profile.info["instance"], True)
            except (ValueError, RuntimeError):
                continue  # too large to be kept in the profile
            now = parts["time_ns"] if "time_ns" in parts else row["report"]["time_ns"]
            out += [_advised(profile, row, number, a, now) for a in parts.get("advice", [])]
    return sorted(out, key=lambda a: -a["gain_ns"])[:most]


def _advised(profile, row, number, a, now):
    site = a.get("at") or (a.get("site") or {}).get("at", "")
    place = origin.of(profile, number, site)
    in_graph = f"{place['framework_op']} ({place['graph_op']})" if place["graph_op"] else site or f"program {row['name']}"
    where = f"{shown_line(place['source'], place['line'])} {place['framework_op']}" if place["source"] else in_graph
    each = max(0.0, now - a.get("would_ns", now)) * (row["report"]["time_ns"] / now if "rest_ns" in row else 1.0)  # layers that are not shown gain as well
    return {"program": row["name"], "runs": row["runs"], "where": where, "source": place["source"], "line": place["line"],
            "framework_op": place["framework_op"], "graph_op": place["graph_op"], "gain_ns": each * row["runs"], "gain_each_ns": each, **a}  # fmt: skip


def critical_path(profile, begin_ns, end_ns, most=PATH_MOST) -> list:
    """[{event, ns}] back from what ends last in the window: to what each event waited for, else to the one before it on its unit."""
    runs = profile.runs
    inside = np.flatnonzero((runs["begin"] < end_ns * 1000) & (runs["end"] > begin_ns * 1000) & (runs["program"] != rows.NONE))
    out = []
    for number in inside[::-1]:
        if len(out) >= most:
            break
        out += _path_of(profile, int(number), begin_ns, end_ns, most - len(out))
    return out[::-1]


def _path_of(profile, number, begin_ns, end_ns, most):
    run = profile.runs[number]
    table, tracks = profile.table(int(run["program"]), "events"), profile.table(int(run["program"]), "tracks")
    starts = tracks["event"].astype(np.int64)
    begin, end = int(run["begin"]) + table["begin"], int(run["begin"]) + table["end"]
    there = np.flatnonzero((begin < end_ns * 1000) & (end > begin_ns * 1000))
    out, at = [], int(there[np.argmax(end[there])]) if len(there) else -1
    while at >= 0 and len(out) < most and end[at] > begin_ns * 1000:
        e = table[at]
        out.append({"event": (number << 32) | at, "ns": float(e["end"] - e["begin"]) / 1000, "waited_ns": float(e["waited_ns"])})
        before = at - 1 if at not in starts else -1
        at = int(e["cause"]) if e["cause"] != rows.NONE and e["cause"] < at + len(table) and e["cause"] < len(table) and e["waited_ns"] > 0 else before
        if len(out) > 1 and out[-1]["event"] == out[-2]["event"]:
            break
    return out


def waits(profile) -> list:
    """Rank by rank: how many ns the row's rank waits for the column's at collectives."""
    return profile.info["waits"]


def host(profile) -> dict:
    """Of this machine: how long its host was between the runs of a rank, in them, and in transfers."""
    out = {r["rank"]: hosting.of_rank(profile, r["rank"]) for r in profile.info["ranks"]}
    steps = {r["rank"]: max(1, r["steps"]) for r in profile.info["ranks"]}
    return {r: found | {"gap_per_step_ns": found["gap_ns"] / steps[r]} for r, found in out.items() if found}


def step_busy(profile) -> dict:
    """Shares of a rank's time that each engine works, of the first rank."""
    first = summing.summary(profile)["nodes"]["rank_0"]
    return {e: first[f"{e}_engine_active_time_percent"] for e in rows.ENGINES} | {"dma": first["dma_active_time_percent"]}
