"""torch_xla.debug.metrics: counters of what eager ops did."""

import torch


def counter_names():
    return ["programs", *[f"aten fallback {n}" for n in sorted(torch.neuron.fallbacks())]]


def counter_value(name):
    return torch.neuron.programs() if name == "programs" else torch.neuron.fallbacks().get(name.removeprefix("aten fallback "))


def metrics_report():
    rows = [f"Counter: {name}\n  Value: {counter_value(name)}" for name in counter_names()]
    return "\n".join(rows) + "\n"


short_metrics_report = metrics_report


def metric_names():
    return []


def metric_data(name):
    return None


def clear_all():
    from trine import _torch

    _torch.clear_cache()


clear_counters = clear_metrics = clear_all
