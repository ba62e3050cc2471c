"""Time of a compiled function: one program, or several with what the host runs between them, added up."""

from trine import _core

SUMS = ("time_ns", "launch_ns", "instructions", "flops", "transfers", "hbm_read_bytes", "hbm_write_bytes",
        "sbuf_read_bytes", "sbuf_write_bytes", "psum_read_bytes", "psum_write_bytes", "spill_save_bytes",
        "spill_reload_bytes", "table_loads", "throttled_ns", "energy_j", "cost_usd")  # fmt: skip
PEAKS = ("sbuf_peak_bytes", "psum_banks_used", "hbm_used_bytes")


def programs_of(compiled):
    """The programs of its parts, in order; an error where the host runs everything."""
    found = [part["program"] for part in compiled.parts if not part["on_host"]]
    if not found:
        raise ValueError("nothing of it runs on the device: " + "; ".join(notes_of(compiled)))
    return found


def notes_of(compiled):
    """A line for each op that stays on the host, and one for what that moves."""
    lines = [
        f"{h['op']} {h['type']} runs on the host: {h['reason']}" + (f" ({h['where']})" if h["where"] else "")
        for h in compiled.host_placed
    ]
    if lines:
        lines.append(f"{moved_bytes(compiled):,} bytes go between chip and host in {len(compiled.parts)} parts; that time is not counted")
    return lines


def report_of(compiled, instance):
    """The numbers of `_core.time(…).report()`, added up over the parts; what bounds the longest bounds all."""
    return added([_core.time(program, instance).report() for program in programs_of(compiled)], instance)


def lines_of(timed):
    """`_core.time(…).lines` of parts that run one after the other."""
    out, begin = [], 0.0
    for part in timed:
        out += [line | {"end_ns": line["end_ns"] + begin} for line in part.lines]
        begin += part.time_fs / 1e6
    return out


def moved_bytes(compiled):
    """What goes between chip and host from part to part."""
    return sum(part["bytes_written"] for part in compiled.parts[:-1])


def added(reports, instance):
    whole = dict(max(reports, key=lambda r: r["time_ns"]))
    if len(reports) == 1:
        return whole
    total = sum(r["time_ns"] for r in reports)
    for share in ("mfu_pct", "mbu_pct", "watts"):
        whole[share] = sum(r[share] * r["time_ns"] for r in reports) / total
    for key in SUMS:
        if whole.get(key) is not None:  # what no price is known for has none
            whole[key] = sum(r[key] for r in reports)
    for key in PEAKS:
        whole[key] = max(r[key] for r in reports)
    whole["notes"] = [note for r in reports for note in r["notes"]]
    whole["band_ns"] = [sum(r["band_ns"][side] for r in reports) for side in (0, 1)]
    whole["engines"] = {name: _engine([r["engines"][name] for r in reports], total) for name in whole["engines"]}
    whole["cost"] = _core.cost_of(instance, total, 0.0, 1, max(whole["mfu_pct"], whole["mbu_pct"]) / 100)
    return whole


def _engine(parts, total):
    waits = {}
    for part in parts:
        for what, ns in part["waits_ns"].items():
            waits[what] = waits.get(what, 0) + ns
    busy = sum(p["busy_ns"] for p in parts)
    return {"busy_ns": busy, "busy_pct": 100 * busy / total, "instructions": sum(p["instructions"] for p in parts),
            "waits_ns": dict(sorted(waits.items(), key=lambda w: -w[1]))}  # fmt: skip
