"""A profile as tables with the names that Neuron Explorer's schema gives them: one row a field, times in ns.

Of each program one execution is listed, its first; SystemProfileEvents lists every run. Fields that mean nothing here are left
out, and SchemaFields says of each column what it is.
"""

import numpy as np

from trine.profile import explaining, hosting, origin, rows

SCHEMA = "7.4.0"  # of Neuron Explorer, whose names these are
MEANING = {
    "id": ("number of the row's event, as `event` of trine.profile takes it", ""), "start_ts": ("begins, from the start of the profile", "ns"),
    "end_ts": ("ends", "ns"), "duration_ns": ("end_ts less start_ts", "ns"), "engine": ("unit that does it", ""), "pcore_idx": ("physical core in the program", ""),
    "opcode": ("the profiler's name of the instruction", ""), "operands": ("the instruction in full", ""), "pc": ("number of the instruction in its program", ""),
    "evt_wait_time_ns": ("its unit waited, since it was free", "ns"), "waited_for": ("for this", ""), "hlo_name": ("the graph's op", ""),
    "framework_op": ("the framework's op", ""), "bir_debug_info_source_location": ("the user's line", ""), "raw_flops": ("of one execution", "flop"),
    "in_id": ("the event that let it begin", ""), "out_id": ("the event that begins", ""), "gap_time": ("from the one's end to the other's begin", "ns"),
    "transfer_bytes": ("bytes that the transfer moves", "bytes"), "throughput": ("transfer_bytes over its time", "GB/s"), "bytes": ("in use from here on", "bytes"),
    "timestamp": ("from the start of the profile", "ns"), "semaphore_id": ("number of the semaphore on its core", ""),
    "value": ("what it holds from here on", ""), "instruction_id": ("id of the row that changed it", ""),
    "host_start_ts": ("on this machine, ns of the wall clock", "ns"), "host_duration_ns": ("on this machine", "ns"),
    "host_gap_ns": ("this machine gave the devices nothing to do before it", "ns"),
    "operation": ("kind of collective", ""), "program": ("name of the program", ""), "rank": ("process", ""), "step": ("number of the step, 0: before the first", ""),
}  # fmt: skip


def all_of(profile) -> dict:
    """{table: {column: values}}."""
    instruction, dma, flow = _events(profile)
    made = {"Metadata": _metadata(profile), "Summary": _summary(profile), "Instruction": instruction, "DmaPacket": dma, "Flow": flow,
            "SemaphoreUpdate": _semaphores(profile), "CcOp": _ccops(profile),
            "SystemProfileEvents": _system(profile), "OpcodeSummary": _opcodes(profile), "FrameworkNode": _framework(profile)}  # fmt: skip
    for kind in rows.SPACES:
        made[f"{kind.capitalize()}Usage"] = _usage(profile, kind)
    made["SchemaFields"] = _schema(made)
    return made


def _columns(names):
    return {n: [] for n in names.split()}


def _text(profile, numbers):
    names = profile.names()
    return [names[n] if n < len(names) else "" for n in numbers]


def first_runs(profile):
    """(number of the run, its row) of each program's first execution."""
    numbers, at = np.unique(profile.runs["program"], return_index=True)
    return [(int(i), profile.runs[i]) for n, i in zip(numbers, at) if n != rows.NONE]


def _events(profile):
    instruction, dma, flow = _columns("id start_ts end_ts"), _columns("id"), _columns("in_id")
    parts = {"Instruction": [], "DmaPacket": [], "Flow": []}
    for number, run in first_runs(profile):
        program = int(run["program"])
        events, insns = profile.table(program, "events"), profile.table(program, "insns")
        events = events[events["insn"] < len(insns)]
        of = insns[events["insn"]]
        places = {int(a): origin.of(profile, program, profile.names()[a]) for a in np.unique(insns["at"])}
        ids = (np.int64(number) << 32) + np.arange(len(events))
        start, end = (int(run["begin"]) + events["begin"]) / 1000, (int(run["begin"]) + events["end"]) / 1000
        base = {"id": ids, "start_ts": start, "end_ts": end, "duration_ns": end - start, "rank": np.full(len(ids), int(run["rank"])),
                "program": [profile.names()[run["name"]]] * len(ids), "pcore_idx": of["core"].astype(np.int64), "opcode": _text(profile, of["name"]),
                "pc": events["insn"].astype(np.int64)}  # fmt: skip
        where = {"hlo_name": [places[int(a)]["graph_op"] for a in of["at"]], "framework_op": [places[int(a)]["framework_op"] for a in of["at"]],
                 "bir_debug_info_source_location": [_location(places[int(a)]) for a in of["at"]]}  # fmt: skip
        doing = np.where(events["doing"] == rows.EXECUTE, of["part"], np.minimum(of["part"], 4))
        is_dma = (events["doing"] == rows.EXECUTE) & (of["part"] == 5)
        waited = {"evt_wait_time_ns": events["waited_ns"].astype(float), "waited_for": [rows.PARTS[min(int(w), 11)] for w in events["waited_for"]]}
        work = base | where | {"engine": [rows.PARTS[int(p)] for p in doing], "operands": _text(profile, of["text"]), "raw_flops": of["flops"]} | waited
        work |= {f"{k}_bytes": of[k] for k in ("hbm_read", "hbm_write", "sbuf_read", "sbuf_write", "psum_read", "psum_write", "spill_save", "spill_reload")}
        parts["Instruction"].append(_pick(work, ~is_dma))
        moved = np.maximum(of["hbm_read"], of["hbm_write"]) + np.where((of["hbm_read"] == 0) & (of["hbm_write"] == 0), of["sbuf_write"], 0)
        packet = base | where | {"queue_type": ["data"] * len(ids), "queue": _queues(profile, program, len(events)), "transfer_bytes": moved,
                                 "throughput": moved / np.maximum(end - start, 1e-9), "operands": work["operands"]}  # fmt: skip
        parts["DmaPacket"].append(_pick(packet, is_dma))
        has = np.flatnonzero((events["cause"] != rows.NONE) & (events["cause"] < len(events)))
        cause = events["cause"][has].astype(np.int64)
        table = np.where(is_dma, "DmaPacket", "Instruction")
        parts["Flow"].append({"in_id": ids[cause], "out_id": ids[has], "in_table": table[cause].tolist(), "out_table": table[has].tolist(),
                              "dependency_type": np.where(is_dma[has], "dma", "semaphore").tolist(), "gap_time": start[has] - end[cause]})  # fmt: skip
    instruction, dma, flow = (_joined(parts[k]) for k in ("Instruction", "DmaPacket", "Flow"))
    return instruction, dma, flow


def _queues(profile, program, count):
    out = np.full(count, -1, np.int64)
    for t in profile.table(program, "tracks"):
        out[int(t["event"]) : int(t["event"] + t["count"])] = t["queue"] if t["part"] == 5 else -1
    return out


def _location(place):
    return f"{place['source']}:{place['line']}" if place["source"] else ""


def _pick(columns, mask):
    at = np.flatnonzero(mask)
    return {k: v[at] if isinstance(v, np.ndarray) else [v[i] for i in at] for k, v in columns.items()}


def _joined(tables):
    out = {}
    for k in tables[0] if tables else ():
        values = [t[k] for t in tables]
        out[k] = np.concatenate(values) if isinstance(values[0], np.ndarray) else sum(values, [])
    return out


def _ccops(profile):
    own = np.flatnonzero(profile.runs["lane"] == 1)
    r = profile.runs[own]
    names = _text(profile, r["name"])
    sizes = {f"{e['kind'].replace('_', '-')} of {e['ranks']} ranks": e for e in profile.info["exchanges"]}
    return {"id": (own.astype(np.int64) << 32) + rows.NONE, "start_ts": r["begin"] / 1000, "end_ts": r["end"] / 1000,
            "duration_ns": (r["end"] - r["begin"]) / 1000, "rank": r["rank"].astype(np.int64), "step": r["step"].astype(np.int64),
            "operation": [n.split(" of ")[0].replace("-", "_") for n in names], "replica_group": [n.partition(" of ")[2] for n in names],
            "input_size": np.array([sizes.get(n.split(",")[0], {}).get("bytes", 0) for n in names], np.int64)}  # fmt: skip


def _semaphores(profile):
    parts = []
    for number, run in first_runs(profile):
        table = profile.table(int(run["program"]), "semaphores")
        parts.append({"timestamp": (int(run["begin"]) + table["at"]) / 1000, "semaphore_id": table["semaphore"].astype(np.int64), "value": table["value"].astype(np.int64),
                      "pcore_idx": table["core"].astype(np.int64), "instruction_id": (np.int64(number) << 32) + table["event"].astype(np.int64),
                      "rank": np.full(len(table), int(run["rank"])), "program": [profile.names()[run["name"]]] * len(table)})  # fmt: skip
    return _joined(parts)


def _system(profile):
    """Runs and transfers, under the names that the runtime's events have."""
    r, t = profile.runs, profile.transfers
    names = np.array(("nc_exec_running", "cc_running", "host", "nrt_tensor_write", "nrt_tensor_read"))
    kind = np.concatenate([np.minimum(r["lane"], 2), 3 + np.minimum(t["direction"], 1)]).astype(np.int64)
    pids = {k["rank"]: k.get("pid", 0) for k in profile.info["ranks"]}
    rank = _both(r, t, "rank")
    return {"id": (np.arange(len(r) + len(t), dtype=np.int64) << 32) + rows.NONE, "name": names[kind].tolist(),
            "model_name": _text(profile, r["name"]) + [""] * len(t), "start_ts": np.concatenate([r["begin"], t["at"]]) / 1000,
            "end_ts": np.concatenate([r["end"], t["at"]]) / 1000, "trace_event_source": np.where(kind < 3, "hardware", "software").tolist(),
            "instance_id": ["i-virtual"] * len(kind), "process_id": np.array([pids.get(int(k), 0) for k in rank], np.int64),
            "nc_idx": _both(r, t, "device"), "worker_gid": rank, "step": _both(r, t, "step"),
            "transfer_bytes": np.concatenate([np.zeros(len(r), np.int64), t["bytes"]]), "host_start_ts": _both(r, t, "host_begin_ns"),
            "host_duration_ns": _both(r, t, "host_ns"), "host_gap_ns": _host_gaps(profile)}  # fmt: skip


def _both(r, t, field):
    return np.concatenate([r[field], t[field]]).astype(np.int64)


def _host_gaps(profile):
    """Of each run and transfer: how long nothing ran or moved on this machine before it."""
    out = np.zeros(len(profile.runs) + len(profile.transfers), np.int64)
    for r in profile.info["ranks"]:
        runs, moved = hosting.run_rows(profile, r["rank"]), np.flatnonzero(profile.transfers["rank"] == r["rank"])
        at = np.concatenate([runs, moved + len(profile.runs)]).astype(np.int64)
        begin = np.concatenate([profile.runs["host_begin_ns"][runs], profile.transfers["host_begin_ns"][moved]])
        end = begin + np.concatenate([profile.runs["host_ns"][runs], profile.transfers["host_ns"][moved]])
        order = np.argsort(begin, kind="stable")
        if len(order) > 1:
            until = np.maximum.accumulate(end[order])[:-1]
            out[at[order][1:]] = np.maximum(0, begin[order][1:] - until)
    return out


def _summary(profile):
    nodes = profile.summary()["nodes"]
    keys = [k for k in next(iter(nodes.values()), {}) if k != "band"]
    return {"node": list(nodes)} | {k: [n[k] for n in nodes.values()] for k in keys}


def _metadata(profile):
    i = profile.info
    one = {"profile_schema_version": SCHEMA, "instance_type": i["instance"], "chip": i["chip"], "is_simulation": True, "tool": i["tool"],
           "created": i["created"], "command": " ".join(map(str, i["command"])), "num_ranks": len(i["ranks"]), "steps": i["steps"]}  # fmt: skip
    return {k: [v] for k, v in one.items()}


def _opcodes(profile):
    sums = {}
    for row in profile.info["programs"]:
        for number in row["numbers"]:
            insns = profile.table(number, "insns")
            for name in np.unique(insns["name"]):
                same = insns[insns["name"] == name]
                found = sums.setdefault((profile.names()[name], rows.PARTS[int(same["part"][0])]), [0, 0.0])
                found[0] += row["runs"] * int(same["count"].sum())
                found[1] += row["runs"] * float(same["busy"].sum()) / 1000
    keys = sorted(sums, key=lambda k: -sums[k][1])
    return {"opcode": [k[0] for k in keys], "engine": [k[1] for k in keys], "count": [sums[k][0] for k in keys], "duration_ns": [sums[k][1] for k in keys]}


def _framework(profile):
    ops = explaining.operators(profile)
    return {"node_name": [o["framework_op"] for o in ops], "hlo_name": [o["graph_op"] for o in ops], "parent_name": [o["program"] for o in ops],
            "bir_debug_info_source_location": [_location(o) for o in ops], "instruction_count": [o["instructions"] for o in ops],
            "duration_ns": [o["ns"] for o in ops], "flops": [o["flops"] for o in ops], "hbm_bytes": [o["hbm_bytes"] for o in ops]}  # fmt: skip


def _usage(profile, kind):
    found = [(r["rank"], *row) for r in profile.info["ranks"][:1] for row in explaining.memory(profile, kind, r["rank"])]
    return {"rank": [f[0] for f in found], "timestamp": [f[1] for f in found], "bytes": [f[2] for f in found], "tensor_name": [f[3] for f in found]}


def _schema(made):
    listed = [(t, c, MEANING.get(c, ("", ""))) for t, columns in made.items() for c in columns]
    return {"table_name": [r[0] for r in listed], "field_name": [r[1] for r in listed], "description": [r[2][0] for r in listed], "unit": [r[2][1] for r in listed]}
