"""trine.profile.compare: what got slower from one profile to another, and why: by program, by operator, by engine."""

from trine.profile import explaining, reading, summing
from trine.text import aligned, duration

SHOWN = 12


def compare(a, b) -> dict:
    """`a` before, `b` after: profiles, or their paths. Changes are ns of b less a, those that matter most first."""
    a, b = (p if isinstance(p, reading.Profile) else reading.open(p) for p in (a, b))
    sa, sb = summing.summary(a), summing.summary(b)
    step = [summing.step_ns(p) for p in (a, b)]
    return {"version": 1, "report": "compare", "before": _head(a, step[0]), "after": _head(b, step[1]),
            "change_ns": b.info["time_ns"] - a.info["time_ns"], "step_change_ns": step[1] - step[0],
            "engines": {k: sb["nodes"]["rank_0"][k] - sa["nodes"]["rank_0"][k] for k in sa["nodes"]["rank_0"] if k.endswith("_active_time_percent")},
            "programs": _changes(_programs(a), _programs(b)), "operators": _changes(_operators(a), _operators(b))}  # fmt: skip


def _head(p, step):
    i = p.info
    return {"path": p.path, "instance": i["instance"], "time_ns": i["time_ns"], "step_ns": step, "steps": i["steps"], "ranks": len(i["ranks"]),
            "created": i["created"], "command": i["command"]}  # fmt: skip


def _programs(p):
    """By name: total ns a step where there are steps, runs, and what bounds it."""
    out = {}
    for row in p.info["programs"]:
        found = out.setdefault(row["name"], {"ns": 0.0, "count": 0, "why": row["bound"]})
        found["ns"] += row["total_ns"]
        found["count"] += row["runs"]
    return out


def _operators(p):
    out = {}
    for op in explaining.operators(p):
        name = f"{op['framework_op']} {op['graph_op']}".strip() + (f"  {op['source']}:{op['line']}" if op["source"] else "")
        found = out.setdefault(name, {"ns": 0.0, "count": 0, "why": ""})
        found["ns"] += op["ns"]
        found["count"] += op["instructions"]
        found["why"] = found["why"] or max(op["busy_ns"], key=op["busy_ns"].get, default="")
    return out


def _changes(a, b):
    none = {"ns": 0.0, "count": 0, "why": ""}
    rows = []
    for name in {**a, **b}:
        x, y = a.get(name, none), b.get(name, none)
        state = "new" if name not in a else "gone" if name not in b else "changed"
        rows.append({"name": name, "before_ns": x["ns"], "after_ns": y["ns"], "change_ns": y["ns"] - x["ns"], "before_count": x["count"],
                     "after_count": y["count"], "why": _why(x, y, state), "state": state})  # fmt: skip
    return sorted(rows, key=lambda r: -abs(r["change_ns"]))


def _why(x, y, state):
    if state != "changed":
        return "only after" if state == "new" else "only before"
    if x["why"] != y["why"]:
        return f"bound by {y['why']}, was {x['why']}"
    if x["count"] != y["count"]:
        return f"{y['count']:,} times, was {x['count']:,}"
    return f"{y['why']}" if x["ns"] != y["ns"] else "same"


def text(found) -> str:
    a, b = found["before"], found["after"]
    change = 100 * found["change_ns"] / a["time_ns"] if a["time_ns"] else 0.0
    head = [f"{a['path']} → {b['path']}: {duration(a['time_ns'])} → {duration(b['time_ns'])} ({change:+.1f} %) on {b['instance']}"]
    if a["step_ns"] and b["step_ns"]:
        head.append(f"  step      {duration(a['step_ns'])} → {duration(b['step_ns'])}")
    for what in ("programs", "operators"):
        moved = [r for r in found[what] if abs(r["change_ns"]) >= 1][:SHOWN]
        table = [(f"  {r['name'][:60]}", duration(r["before_ns"]), duration(r["after_ns"]), f"{r['change_ns'] / 1000:+,.1f} µs", r["why"]) for r in moved]
        head += ["", f"{what} that changed" if table else f"{what}: none changed"]
        head += aligned([("  name", "before", "after", "change", "why"), *table], right=(1, 2, 3)).split("\n") if table else []
    return "\n".join(head)
