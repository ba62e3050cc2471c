"""What the GPU does with the model: a measured row, or a roofline of the maker's peaks; always said which."""

import json

from trine.command import USAGE, Stop
from trine.decide.prices import HERE
from trine.decide.tco_speed import BASELINES, REPEATS, SHARE, baseline_files


DEFAULT = "p5.4xlarge"  # one H100: the smallest GPU of this kind that is rented


def machine_row(name, gpu=""):
    """The machine by its name, or the smallest with that GPU; a measured GPU is priced as itself."""
    rows = [r for r in json.loads((HERE / "machines.json").read_text())["machines"] if not r.get("modelled")]
    if not name:
        fit = [r for r in rows if r["family"] in gpu.split()] if gpu else [r for r in rows if r["name"] == DEFAULT]
        if not fit:
            raise Stop(USAGE, f"[baseline] no machine has the GPU that was measured, {gpu!r}; machine names one of {', '.join(r['name'] for r in rows)}")
        return min(fit, key=lambda r: r["chips"])
    found = next((r for r in rows if r["name"] == name), None)
    if not found:
        raise Stop(USAGE, f"[baseline] machine: found {name!r}, expected one of {', '.join(r['name'] for r in rows)}")
    if gpu and found["family"] not in gpu.split():
        raise Stop(USAGE, f"[baseline] machine: found {name}, which has {found['family']}, expected one with what was measured, {gpu}")
    return found


def flops_of(module, args, kwargs, train):
    """FLOPs of one call, counted by torch as it runs on the CPU; with the gradients where it trains."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    module.train(train)
    with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(train):
        out = module(*args, **kwargs)
        if train:
            first_tensor(out).float().sum().backward()
    module.zero_grad(set_to_none=True)
    return counter.get_total_flops()


def first_tensor(out):
    import torch

    if isinstance(out, torch.Tensor):
        return out
    values = out.values() if isinstance(out, dict) else out
    return next(first_tensor(v) for v in values if v is not None)


def shortest_call_s():
    """Of every row measured here: what no call of a GPU was below, which small models meet before any peak."""
    rows = [r for path in sorted(BASELINES.glob("*.json")) for r in json.loads(path.read_text())["rows"] if r.get("ok")]
    return min(1 / r["steady"]["calls_per_s"] for r in rows)


def measured_row(wanted, extra):
    """(row, report, path) of the row by its name; a file of one row needs no name."""
    for path, report in baseline_files(extra)[::-1]:
        fit = [r for r in report["rows"] if r["ok"] and (r["row"] == wanted or (not wanted and extra))]
        if wanted and fit:
            return fit[0], report, path
        if fit and str(path) == str(extra):
            return max(fit, key=lambda r: r["steady"]["items_per_s"]), report, path
    raise Stop(USAGE, f"[baseline] row: found {wanted!r}, expected a row of {extra or 'the measured files that come with Trine'}, such as bert-base/infer-b8-s128/bf16/cuda-graph")


def baseline(project, module, args, kwargs):
    """{"kind", "basis", "machine", "items_per_s": [low, likely, high] of one GPU, "call_ms", "bound"}."""
    if project.baseline["file"] or project.baseline["row"]:
        extra = str(project.file.parent / project.baseline["file"]) if project.baseline["file"] else None
        row, report, path = measured_row(project.baseline["row"], extra)
        rate, gpu = row["steady"]["items_per_s"], (report.get("machine") or {}).get("gpu", "")
        machine = machine_row(project.baseline["machine"], gpu)
        return {"kind": "measured", "machine": machine["name"], "items_per_s": [rate / (1 + REPEATS), rate, rate * (1 + REPEATS)],
                "call_ms": row["latency_ms"]["p50"], "p99_ms": row["latency_ms"]["p99"], "watts": row["steady"].get("watts"), "bound": row.get("bound", ""),
                "basis": f"measured, {gpu}, {report['date'][:10]}, {row['row']} of {path.name}"}  # fmt: skip
    machine = machine_row(project.baseline["machine"])
    flops, train = flops_of(module, args, kwargs, project.project["train"]), project.project["train"]
    weights = sum(p.numel() * 2 for p in module.parameters()) * (3 if train else 1)  # bf16; gradients and their update read and write them
    floor, seconds = shortest_call_s(), []
    for reach, moves in zip(SHARE["prefill"], SHARE["decode"], strict=True):
        seconds.append(max(flops / (machine["bf16_tflops"] * 1e12 * reach), weights / (machine["hbm_tb_per_s"] * 1e12 * moves), floor))
    rates = [project.batch / s for s in seconds]
    bound = "launches" if seconds[1] == floor else "FLOPs" if flops / (machine["bf16_tflops"] * 1e12 * SHARE["prefill"][1]) == seconds[1] else "memory"
    basis = (f"roofline of {machine['family']}: {SHARE['prefill'][0]:.2f}-{SHARE['prefill'][2]:.2f} of the maker's peaks, no call below "
             f"{1e3 * floor:.2f} ms, the shortest of our measured rows; `trine baseline` measures yours")  # fmt: skip
    return {"kind": "roofline", "machine": machine["name"], "items_per_s": rates, "call_ms": 1e3 * seconds[1], "bound": bound, "flops_per_call": flops, "basis": basis}
