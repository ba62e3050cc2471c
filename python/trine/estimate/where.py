"""Where a program's time goes: its source lines gathered by layer and part, as the models name them.

A part's `ms` is how much later the program is because of it: from the end of all parts before it to its own end. These
add up to the device time, whatever engines do in advance; `bound` is the unit the part keeps busy longest. No part takes
longer than its units' work one after the other: what it ends later by it has waited, and that time is of what ends next.
"""

import re

OUTER = re.compile(r"(?:transpose|jvp|vmap|checkpoint|rematted_computation)\(([^()]*)\)")
PARTS = ("attention", "cross attention", "mlp", "residual")


def scopes(where):
    """("layer 3", "attention", is backward) of what an instruction says of its source."""
    path, found, _ = where.partition(": ")
    backward = "transpose(" in path
    while OUTER.search(path):
        path = OUTER.sub(r"\1", path)
    names = [n for n in path.split("/") if n and n not in ("while", "body", "cond", "checkpoint", "shard_map")] if found else []
    outer = names[0] if names else "other"
    inner = next((n for n in names[1:] if n in PARTS or n.startswith("block ")), names[1] if len(names) > 1 else "")
    return outer, inner, backward


def by_layer(lines):
    """[{layer, part, ms, bound, busy_ms}] in the order in which the parts end."""
    groups = {}
    for row in lines:
        layer, part, backward = scopes(row["where"])
        key = (layer + (" (backward)" if backward else ""), part)
        group = groups.setdefault(key, {"end": 0.0, "busy": {}})
        group["end"] = max(group["end"], row["end_ns"])
        for unit, ns in row["busy_ns"].items():
            group["busy"][unit] = group["busy"].get(unit, 0.0) + ns
    out, reached, left = [], 0.0, 0.0
    for (layer, part), group in sorted(groups.items(), key=lambda item: item[1]["end"]):
        busy = {unit: ns / 1e6 for unit, ns in group["busy"].items()}
        open_ms = left + max(0.0, group["end"] - reached) / 1e6
        ms = min(open_ms, sum(busy.values()))
        out.append({"layer": layer, "part": part, "ms": ms, "bound": max(busy, key=busy.get) if busy else "none", "busy_ms": busy})
        reached, left = max(reached, group["end"]), open_ms - ms
    if out:
        max(out, key=lambda row: row["ms"])["ms"] += left
    return out


def extended(few, more, layers):
    """The rows of a program of `layers` layers, from those of two shorter ones: each further layer is the mean of what
    the longer one has more."""

    def number(row):
        found = re.search(r"\blayer (\d+)", row["layer"])
        return int(found[1]) if found else -1

    def summed(rows):
        groups = {}
        for row in rows:
            if number(row) < 0:
                continue
            group = groups.setdefault((re.sub(r"\blayer \d+", "layer #", row["layer"]), row["part"]), {})
            for key, value in {"ms": row["ms"], **row["busy_ms"]}.items():
                group[key] = group.get(key, 0.0) + value
        return groups

    have = max((number(r) for r in more), default=-1) + 1
    less, much = summed(few), summed(more)
    added = have - max((number(r) for r in few), default=-1) - 1
    out = [r for r in more if number(r) < 0 or number(r) < have]
    for i in range(have, layers):
        for (name, part), sums in much.items():
            each = {k: max(0.0, v - less.get((name, part), {}).get(k, 0.0)) / max(1, added) for k, v in sums.items()}
            ms = each.pop("ms")
            out.append({"layer": name.replace("#", str(i)), "part": part, "ms": ms, "bound": max(each, key=each.get, default="none"), "busy_ms": each})
    return out


def line(one, two, times):
    """one + times × (two - one), row by row."""
    had = {(r["layer"], r["part"]): r for r in one}

    def further(a, b):
        return max(0.0, a + times * (b - a))

    def row(b):
        a = had.get((b["layer"], b["part"]), b)
        busy = {unit: further(a["busy_ms"].get(unit, 0.0), ms) for unit, ms in b["busy_ms"].items()}
        return b | {"ms": further(a["ms"], b["ms"]), "busy_ms": busy}

    return [row(b) for b in two]


def by_kind(rows):
    """The same with layers of one name taken together: "layer 0" to "layer 31" are "32 layers"."""
    groups = {}
    for row in rows:
        kind = re.sub(r" \d+\b", "", row["layer"])
        group = groups.setdefault((kind, row["part"]), {"layers": set(), "ms": 0.0, "bound": row["bound"], "busy": {}})
        group["layers"].add(row["layer"])
        group["ms"] += row["ms"]
        for unit, ms in row["busy_ms"].items():
            group["busy"][unit] = group["busy"].get(unit, 0.0) + ms
    return [{"layer": kind if len(g["layers"]) == 1 else f"{len(g['layers'])} × {kind}", "part": part, "ms": g["ms"],
             "bound": max(g["busy"], key=g["busy"].get, default=g["bound"]), "busy_ms": g["busy"]}
            for (kind, part), g in groups.items()]  # fmt: skip
