"""A profile as Kineto's Chrome JSON, one file a rank, which HTA and torch's tools read: device rows are kernels, transfers are
gpu_memcpy, each run has a host row that launches it."""

import json
import pathlib

from trine.profile import rows, slices


def write(profile, path) -> str:
    """One file for one rank; for several the name gets their numbers."""
    ranks, count = profile.info["ranks"], 0
    for r in ranks:
        target = path if len(ranks) == 1 else pathlib.Path(str(path).removesuffix(".json") + f"_rank{r['rank']}.json")
        events = events_of(profile, r["rank"])
        count += len(events)
        whole = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": profile.info["instance"]}], "displayTimeUnit": "ms",
                 "distributedInfo": {"backend": "neuron", "rank": r["rank"], "world_size": len(ranks)}, "traceName": str(target), "traceEvents": events}  # fmt: skip
        with open(target, "w") as f:
            json.dump(whole, f)
    return f"{count:,} rows" + (f" in {len(ranks)} files" if len(ranks) > 1 else "")


def events_of(profile, rank) -> list:
    names, out, pid = profile.names(), [], profile.info["ranks"][rank].get("pid") or 1
    tracks = {t["id"]: t for t in profile.tracks()}
    for n, r in enumerate(profile.runs):
        if r["rank"] != rank:
            continue
        begin, took = int(r["begin"]) / 1e6, int(r["end"] - r["begin"]) / 1e6
        if r["lane"] == 1:
            out.append(_row("kernel", f"ncclDevKernel {names[r['name']]}", int(r["device"]), 1000, begin, took, n))
        out.append(_row("cuda_runtime", "cudaLaunchKernel", pid, pid, begin, 0.001, n))
        if r["step"] and (n == 0 or profile.runs[n - 1]["step"] != r["step"]):
            same = profile.runs[(profile.runs["rank"] == rank) & (profile.runs["step"] == r["step"])]
            out.append(_row("user_annotation", f"ProfilerStep#{int(r['step'])}", pid, pid, begin, float(same["end"].max()) / 1e6 - begin, n))
    for part in slices.parts(profile):
        run = profile.runs[part.run]
        if run["rank"] != rank:
            continue
        insns = profile.table(part.program, "insns")
        for i in range(len(part.begin)):
            if part.track[i] < 0:
                continue
            track = tracks[int(part.track[i])]
            kind, name = ("gpu_memcpy", "Memcpy DtoD ") if track["kind"] == "dma" else ("kernel", "")  # the words by which HTA tells them apart
            out.append(_row(kind, name + names[insns[part.insn[i]]["name"]], track["device"], track["id"], part.begin[i] / 1e6, (part.end[i] - part.begin[i]) / 1e6, part.run))
    return sorted(out, key=lambda e: e["ts"])


def _row(category, name, pid, tid, ts, dur, correlation):
    on_device = category in ("kernel", "gpu_memcpy")
    args = {"correlation": correlation} | ({"device": pid, "stream": tid} if on_device else {})
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": round(float(ts), 4), "dur": round(float(dur), 4), "args": args}


__all__ = ["write", "events_of", "rows"]
