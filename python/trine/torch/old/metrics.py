"""torch_xla.debug.metrics: how often and how long steps were compiled and run, and which ops the CPU ran.

Metrics are times (CompileTime, ExecuteTime); counters count (MarkStep, CachedCompile, UncachedCompile, `aten::x` for an
op that torch's CPU ran, CacheFound for programs of an earlier process).
"""

import torch

from trine import _torch

_PERCENTS = (1, 5, 10, 20, 50, 80, 90, 95, 99)


def _counters():
    from trine.torch import cache

    found = {"CacheFound": cache.COUNTS["found"], "CacheMade": cache.COUNTS["made"]}
    return {**_torch.counters(), **{n: c for n, c in found.items() if c}, **torch.neuron.fallbacks()}


def counter_names():
    return sorted(_counters())


def counter_value(name):
    return _counters().get(name)


def metric_names():
    return sorted(_torch.metrics())


def metric_data(name):
    """(samples, sum in ns, [(when, ns), ...]), as torch_xla gives it; None for a name that was not met."""
    found = _torch.metrics().get(name)
    return found and (found[0], found[1] * 1e9, [(when, took * 1e9) for when, took in found[2]])


def _time(seconds):
    parts = []
    for unit, size in (("h", 3600.0), ("m", 60.0), ("s", 1.0)):
        count = int(seconds // size)
        if count or parts:
            parts.append(f"{count:02}{unit}")
        seconds -= count * size
    ms = int(seconds * 1e3)
    return "".join(parts) + f"{ms:03}ms{(seconds * 1e3 - ms) * 1e3:07.3f}us"


def metrics_report():
    lines = []
    for name, (samples, total, last) in sorted(_torch.metrics().items()):
        took = sorted(t for _, t in last)
        lines += [f"Metric: {name}", f"  TotalSamples: {samples}", f"  Accumulator: {_time(total)}"]
        if len(last) > 1 and last[-1][0] > last[0][0]:
            lines.append(f"  Rate: {len(last) / (last[-1][0] - last[0][0]):.6g} / second")
        at = [f"{p}%={_time(took[min(len(took) * p // 100, len(took) - 1)])}" for p in _PERCENTS]
        lines.append("  Percentiles: " + "; ".join(at))
    for name, value in sorted(_counters().items()):
        lines += [f"Counter: {name}", f"  Value: {value}"]
    return "\n".join(lines) + "\n"


def short_metrics_report(counter_names=None, metric_names=None):
    """Those of the names given; without names, the whole report."""
    if not counter_names and not metric_names:
        return metrics_report()
    keep, out, on = set(counter_names or ()) | set(metric_names or ()), [], False
    for line in metrics_report().splitlines():
        if not line.startswith(" "):
            on = line.split(": ")[1] in keep
        out += [line] * on
    return "\n".join(out) + "\n"


def clear_all():
    _torch.clear_metrics()


clear_counters = clear_metrics = clear_all


def executed_fallback_ops():
    return sorted(torch.neuron.fallbacks())
