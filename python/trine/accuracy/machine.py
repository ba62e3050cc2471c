"""Cases of what is below whole models: collectives, kernels, and single transfers and instructions; and their times.

A kernel has a program of ours behind it (src/run/accuracy/programs.json, or `program` in the row of another's file, with the
same keys: {"kernel": "file.py::function", "shapes": [[...]], "dtype": ...}, found in --kernels DIR) or is said to have none. NKIBench's clock ticks in
steps: what lies within half of one is no error.
"""

import functools
import importlib.util
import json
import re
from pathlib import Path

from trine import _core
from trine.accuracy.rows import Case

UNITS_MS = {"ms": 1.0, "us": 1e-3, "ns": 1e-6, "s": 1e3}
GUESS = re.compile(r"[a-z0-9]+\.\d*xlarge")


@functools.cache
def programs():
    return json.loads(_core.accuracy_file("programs.json"))


def role(identity):
    return "input" if identity in programs()["inputs"] else "check"


# ---- collectives


def collectives(rows):
    runs = {}
    for row in rows:
        runs.setdefault(run_of(row), []).append(row)
    return [collective(row, runs[run_of(row)]) for row in rows]


def run_of(row):
    return f"{row['op']} of {row['ranks']}" + (f" on {row['nodes']} nodes" if row.get("nodes", 1) > 1 else "")


def collective(row, run):
    """A run whose shortest time is less than a launch takes was timed on the device; others hold the launch."""
    instance = instance_of(row)
    chip, nodes = _core.chip(_core.instance(instance)["chip"]), row.get("nodes", 1)
    launch = (chip["kernel.launch_ns"] + chip["kernel.preamble_ns"] + chip["kernel.teardown_ns"]) / 1e3
    launched = min(r["time_us"] for r in run) >= launch
    ask = {"op": row["op"], "bytes": row["size_bytes"], "ranks": row["ranks"], "nodes": nodes, "launch_us": launch if launched else 0.0}
    kind = "collectives between nodes" if nodes > 1 else "collectives in a node"
    return Case(row["id"], kind, run_of(row), instance, ask, {"time_us": row["time_us"]}, row["time_us"] / 1e3, 1,
                row.get("source", ""), row.get("note", ""), role=role(row["id"]))  # fmt: skip


def instance_of(row):
    found = GUESS.match(str(row.get("instance") or row.get("instance_guess") or ""))
    if found:
        return found[0]
    return next((name for prefix, name in programs()["at"].items() if row["id"].startswith(prefix)), "trn1.32xlarge")


def collective_ms(case):
    a = case.ask
    found = _core.time_collective(case.instance, a["op"], a["bytes"], a["ranks"], nodes=a["nodes"])
    return found["ns"] / 1e6 + a["launch_us"] / 1e3


def collective_roofline_ms(case):
    """Bytes that a rank must send over the links of its chip, or a node over its network, at the datasheet's rates."""
    a, at = case.ask, _core.instance(case.instance)
    n, rate = a["ranks"], _core.chip(at["chip"])["link.bandwidth_bytes_per_ns"] / 2
    if a["nodes"] > 1:
        n, rate = a["nodes"], at["network.efa_gbps"] / 8
    moved = a["bytes"] * (n - 1) / n * (2 if a["op"] == "all_reduce" else 1)
    return moved / rate / 1e6


# ---- kernels


def kernels(rows):
    return [kernel(row) for row in rows]


def kernel(row):
    how = row.get("program") or programs()["programs"].get(row["id"])
    unit, chip = row.get("unit", ""), str(row.get("chip", "trn1")).split()[0]
    instance = row.get("instance") or (how or {}).get("instance") or {"trn1": "trn1.2xlarge", "trn2": "trn2.3xlarge"}.get(chip, "trn1.2xlarge")
    part = row["id"].startswith("dev.") and "matmul" not in row["id"]
    time = row["value"] * UNITS_MS[unit] if unit in UNITS_MS else row["time_us_derived"] / 1e3 if "time_us_derived" in row else None
    if how and "copies" in how:
        time = row["value"]  # of the largest: a rate, no time
    skip = "" if how else "no program of ours is behind it"
    return Case(row["id"], "instructions and transfers" if part else "kernels", row["kernel"], (how or {}).get("instance", instance), how or {},
                {row["metric"]: row["value"]} | counters(row), time, 1, row.get("source", ""), row.get("note", ""),
                skip or ("" if time else "no time was published"),
                "gate" if row.get("kind") == "upper_gate" else role(row["id"]))  # fmt: skip


def counters(row):
    found = row.get("counters") or {}
    return {k: v for k, v in found.items() if isinstance(v, (int, float))}


def kernel_ms(case, folder):
    """(time in ms or, of a rate, its inverse share; the report of the program)."""
    how = case.ask
    if "copies" in how:
        return copy_rate(how["copies"], case.instance) / copy_rate(how["of"], case.instance), None
    if "program" in how:
        program = _core.assemble(_core.accuracy_file(how["program"]), how["program"])
        return read_off(_core.time(program, case.instance, events=1 << 16), how["read"]), None
    return traced(how, case.instance, folder)


def traced(how, instance, folder):
    from trine.reports import compile_for

    file, function = how["kernel"].split("::")
    spec = importlib.util.spec_from_file_location(f"accuracy_{file[:-3]}", Path(folder) / file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    compiled, _, _ = compile_for(getattr(module, function), [tuple(s) for s in how["shapes"]], {}, instance, how["dtype"])
    report = _core.time(compiled.program, instance).report()
    return report["time_ns"] / 1e6, report


def read_off(timed, what):
    events = [e for e in timed.events if e["part"] == ("dma" if what == "transfer" else "scalar")]
    if what == "chain":
        return (events[-1]["start_ns"] - events[0]["start_ns"]) / (len(events) - 1) / 1e6
    return (events[-1]["end_ns" if what == "transfer" else "done_ns"] - events[-1]["start_ns"]) / 1e6


@functools.cache
def copy_rate(size, instance):
    """Bytes per ns between the 32nd and the 64th copy, where the first latency no longer counts."""
    times = [_core.time(_core.assemble(copies(size, n), "copies"), instance).report()["time_ns"] for n in (32, 64)]
    return 32 * 128 * size / (times[1] - times[0])


def copies(size, count):
    return (f"program dma_copies\ntensor x hbm u8[128,{size}] input\ntensor t sbuf u8[128,{size}] at 0:0\n"
            f"stream sync\n  loop {count}\n    dma_copy dst=t src=x then s0+=16\n  end_loop\n")  # fmt: skip
