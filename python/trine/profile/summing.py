"""Numbers of a whole profile: the fields that Neuron's tools print as Summary, by rank and in all. Times are seconds and shares
0 to 1, as summary-json of neuron-explorer has them (docs/profile.md says how that is known); everything is what the programs' reports say, times how often each ran."""

from trine import _core
from trine.profile import rows

BYTES = ("hbm_read_bytes", "hbm_write_bytes", "sbuf_read_bytes", "sbuf_write_bytes", "psum_read_bytes", "psum_write_bytes")


def summary(profile) -> dict:
    """{version, instance, steps, node: {…Summary fields…} for each rank, in_all}."""
    info = profile.info
    nodes = {f"rank_{r['rank']}": _of_rank(profile, r) for r in info["ranks"]}
    out = {"version": 1, "report": "profile", "instance": info["instance"], "chip": info["chip"], "command": info["command"], "created": info["created"],
           "ranks": len(info["ranks"]), "steps": info["steps"], "step_time": step_ns(profile) / 1e9, "total_time": info["time_ns"] / 1e9}  # fmt: skip
    out["programs"] = [{k: p[k] for k in ("name", "runs", "devices", "each_ns", "total_ns", "device_ns", "launch_ns", "collectives_ns", "bound", "flops",
                                          "events", "whole", "why_not")} for p in sorted(info["programs"], key=lambda p: -p["total_ns"])]  # fmt: skip
    out["exchanges"] = info["exchanges"]
    out["nodes"] = nodes
    return out


def step_ns(profile) -> float:
    """A step of the first rank that has steps: the mean of them all; 0 where nothing repeats."""
    for r in profile.info["ranks"]:
        if r["steps"]:
            own = profile.runs[(profile.runs["rank"] == r["rank"]) & (profile.runs["step"] > 0)]
            if len(own):
                return float(own["end"].max() - own["begin"].min()) / 1000 / r["steps"]
    return 0.0


def runs_of(profile, rank) -> dict:
    """How often each of info's programs ran on a rank, by index."""
    own = profile.runs[(profile.runs["rank"] == rank) & (profile.runs["program"] != rows.NONE)]
    counts = {}
    for number in own["program"]:
        counts[int(number)] = counts.get(int(number), 0) + 1
    return {i: counts.get(p["numbers"][0], 0) for i, p in enumerate(profile.info["programs"]) if p["numbers"]}


def _of_rank(profile, rank) -> dict:
    info = profile.info
    ran = [(info["programs"][i], n) for i, n in runs_of(profile, rank["rank"]).items() if n]
    total = rank["time_ns"] or 1.0
    chip = _core.chip(info["chip"])

    def over(get):
        return sum(n * get(p["report"]) for p, n in ran if p["report"])

    flops = over(lambda r: r["flops"])
    out = {"total_time": rank["time_ns"] / 1e9, "total_active_time": rank["device_ns"] / 1e9, "launch_time": rank["launch_ns"] / 1e9,
           "neuroncore_cycle_count": round(rank["time_ns"] * chip["scalar.clock_ghz"]),
           "model_flops": flops, "hardware_flops": flops, "execution_count": rank["runs"], "steps": rank["steps"], "wait_time": rank["waits_ns"] / 1e9}  # fmt: skip
    for engine in rows.ENGINES:
        busy, count = over(lambda r: r["engines"][engine]["busy_ns"]), over(lambda r: r["engines"][engine]["instructions"])
        out |= {f"{engine}_engine_active_time": busy / 1e9, f"{engine}_engine_active_time_percent": busy / total,
                f"{engine}_engine_instruction_time": busy / 1e9, f"{engine}_engine_instruction_count": count}  # fmt: skip
    active = sum(n * p["dma_active_ns"] for p, n in ran)
    packets = sum(n * p["dma_packet_ns"] for p, n in ran)
    for field in BYTES:
        out[field] = over(lambda r, field=field: r[field])
    out |= {"dma_active_time": active / 1e9, "dma_active_time_percent": active / total, "dma_packet_time": packets / 1e9,
            "dma_transfer_count": over(lambda r: r["transfers"]), "dma_transfer_total_bytes": out["hbm_read_bytes"] + out["hbm_write_bytes"],
            "spill_save_bytes": over(lambda r: r["spill_save_bytes"]), "spill_reload_bytes": over(lambda r: r["spill_reload_bytes"]),
            "mfu_estimated_percent": over(lambda r: r["mfu_pct"] * r["time_ns"]) / 100 / total,
            "hfu_estimated_percent": over(lambda r: r["mfu_pct"] * r["time_ns"]) / 100 / total,
            "mbu_estimated_percent": over(lambda r: r["mbu_pct"] * r["time_ns"]) / 100 / total,
            "throttled_time": over(lambda r: r["throttled_ns"]) / 1e9,
            "matmul_instruction_count": _count(profile, ran, "MATMUL"),
            "mm_arithmetic_intensity": flops / max(1, out["hbm_read_bytes"] + out["hbm_write_bytes"]),
            "sbuf_peak_bytes": max([p["report"]["sbuf_peak_bytes"] for p, _ in ran if p["report"]], default=0),
            "hbm_used_bytes": max([p["report"]["hbm_used_bytes"] for p, _ in ran if p["report"]], default=0),
            "cc_op_count": sum(n * sum(c["count"] for c in p["collectives"]) for p, n in ran) + _exchanged(profile, rank["rank"]),
            "cc_op_active_time": rank["collectives_ns"] / 1e9, "cc_op_active_time_percent": rank["collectives_ns"] / total,
            "energy_joules": over(lambda r: r["energy_j"]), "band": band(profile, rank)}  # fmt: skip
    return out


def band(profile, rank) -> list:
    """[low, high] of total_time, in seconds: bands of the programs, added."""
    ran = [(profile.info["programs"][i], n) for i, n in runs_of(profile, rank["rank"]).items()]
    low, high = (sum(n * p["report"]["band_ns"][k] for p, n in ran if p["report"]) for k in (0, 1))
    return [(low + rank["collectives_ns"]) / 1e9, (high + rank["collectives_ns"]) / 1e9]


def _count(profile, ran, name):
    total = 0
    for p, n in ran:
        for number in p["numbers"]:
            insns = profile.table(number, "insns")
            wanted = {i for i in set(insns["name"].tolist()) if profile.names()[i].startswith(name)}
            total += n * int(sum(insns["count"][insns["name"] == w].sum() for w in wanted))
    return total


def _exchanged(profile, rank):
    own = profile.runs[(profile.runs["rank"] == rank) & (profile.runs["lane"] == 1) & (profile.runs["program"] == rows.NONE)]
    inside = sum(n * sum(c["count"] for c in profile.info["programs"][i]["collectives"]) for i, n in runs_of(profile, rank).items())
    return max(0, len(own) - inside)
