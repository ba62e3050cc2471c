"""One row's measurements: latency, throughput, bursts, time on the device, memory, FLOPs, samples of outputs."""

import math
import time

from trine.decide.baseline.models import torch
from trine.decide.baseline.work import built_work, own_work

SAMPLE = 32768  # elements of an output that are saved


def percentiles(values):
    ordered = sorted(values)

    def at(share):
        return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]

    return {"p50": at(0.5), "p95": at(0.95), "p99": at(0.99), "min": ordered[0], "mean": sum(ordered) / len(ordered), "calls": len(ordered)}


def latencies(work, seconds):
    """Milliseconds of single calls, each waited for."""
    out, end = [], time.perf_counter() + seconds
    while (time.perf_counter() < end or len(out) < 5) and len(out) < 5000:
        begin = time.perf_counter()
        work.call()
        work.sync()
        out.append(1e3 * (time.perf_counter() - begin))
    return percentiles(out)


def steady(work, seconds, call_s, meter):
    """Calls back to back, waited for in groups so that no more than a fifth of a second is queued."""
    group, calls = max(1, min(1000, int(0.2 / call_s))), 0
    work.sync()
    begin, energy = time.perf_counter(), meter.begin()
    while True:
        for _ in range(group):
            work.call()
        work.sync()
        calls += group
        took = time.perf_counter() - begin
        if took >= seconds:
            break
    watts = meter.watts(energy, took)
    per_second = calls / took
    return {
        "calls_per_s": per_second, "items_per_s": per_second * work.items, "seconds": took, "watts": watts,
        "joules_per_item": watts / (per_second * work.items) if watts else None,
    }  # fmt: skip


def bursts(work, call_s):
    """16 calls at once after a pause: when the last of them is done."""
    calls, took = 16, []
    for _ in range(5 if call_s < 0.1 else 2):
        time.sleep(0.1)
        begin = time.perf_counter()
        for _ in range(calls):
            work.call()
        work.sync()
        took.append(time.perf_counter() - begin)
    ordered = sorted(took)
    middle = ordered[len(ordered) // 2]
    return {"calls": calls, "bursts": len(took), "last_ms_p50": 1e3 * middle, "last_ms_max": 1e3 * ordered[-1], "items_per_s": calls * work.items / middle}


def device_time(work, call_s, steady_call_s):
    """How long kernels ran, by the profiler, over what a call takes without it."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    calls = max(2, min(20, int(0.1 / call_s)))
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(calls):
            work.call()
        work.sync()
    spans, launches = [], 0
    for event in profiler.events():
        if event.device_type == DeviceType.CUDA:
            annotation = getattr(event, "is_user_annotation", False) or event.name.startswith(("Optimizer.", "## Call", "Torch-Compiled"))
            if not annotation:
                spans.append((event.time_range.start, event.time_range.end))
        elif event.name.startswith("cudaGraphLaunch"):
            launches += 1
    busy, until = 0.0, 0.0
    for begin, end in sorted(spans):
        busy += max(0.0, end - max(begin, until))
        until = max(until, end)
    busy /= calls
    share = busy * 1e-6 / steady_call_s
    bound = "device" if share >= 0.9 else "host" if share < 0.7 else "host and device"
    kernels, graphs = len(spans) / calls, launches / calls
    return {"busy_us_per_call": busy, "busy_share": share, "kernels_per_call": kernels, "graph_launches_per_call": graphs}, bound


def flops_of(work):
    """FLOPs of one call, counted by PyTorch over the plain call."""
    try:
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter:
            work.plain()
        work.sync()
        return counter.get_total_flops()
    except Exception:  # an older PyTorch, or an op it cannot count
        return None


def sampled(out):
    """Up to SAMPLE evenly spread elements of each output, as f32 on the host."""
    found = []
    for tensor in out if isinstance(out, (tuple, list)) else [out]:
        if isinstance(tensor, torch.Tensor):
            step = max(1, tensor.numel() // SAMPLE)
            values = tensor.detach().reshape(-1)[::step][:SAMPLE].float().cpu().tolist()
            found.append({"shape": list(tensor.shape), "step": step, "values": values})
    return found


def difference(values, reference):
    top = sum(abs(a - b) ** 2 for x, y in zip(values, reference) for a, b in zip(x["values"], y["values"]))
    bottom = sum(b * b for y in reference for b in y["values"])
    return math.sqrt(top / bottom) if bottom else math.sqrt(top)


def measure(job, meter):
    """One row, all of it; `outputs` travel with it to whoever writes the files."""
    cuda = job["device"] == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    work = own_work(job) if job.get("own") else built_work(job)
    work.sync()
    built = time.perf_counter()
    out = work.call()
    work.sync()
    first = time.perf_counter()
    outputs = sampled(out) if work.framework == "torch" else []
    del out
    for _ in range(4):
        work.call()
    work.sync()
    warm = time.perf_counter()
    work.call()
    work.sync()
    call_s = max(1e-6, time.perf_counter() - warm)
    row = {
        "unit": work.unit, "items_per_call": work.items, "weight_bytes": work.weight_bytes,
        "cold_start_s": {"build": built - begin, "first_call": first - built, "next_four_calls": warm - first},
        "latency_ms": latencies(work, job["seconds"]), "burst": bursts(work, call_s), "steady": steady(work, job["seconds"], call_s, meter),
    }  # fmt: skip
    if cuda:
        row["memory_bytes"] = {"peak": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
        row["clock_mhz"] = meter.clock()
    if cuda and work.framework == "torch":
        row["device"], row["bound"] = device_time(work, call_s, 1 / row["steady"]["calls_per_s"])
    row["flops_per_call"] = flops_of(work) if work.framework == "torch" else None
    if row["flops_per_call"]:
        row["tflops"] = row["flops_per_call"] * row["steady"]["calls_per_s"] * 1e-12
    row["outputs"] = outputs
    return row
