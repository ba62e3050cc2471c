"""`torch.neuron.memory`, in the shape of `torch.cuda.memory`: what is in use, and who allocated it."""

import pickle

import torch

from trine import _torch

__all__ = (
    "memory_allocated", "max_memory_allocated", "memory_reserved", "reset_peak_memory_stats", "memory_stats", "mem_get_info",
    "memory_summary", "max_memory_reserved", "reset_max_memory_allocated", "reset_accumulated_memory_stats",
    "memory_stats_as_nested_dict", "memory_usage", "empty_cache", "ipc_collect",
)


def _index(device):
    index = device if isinstance(device, int) or device is None else torch.device(device).index
    return torch.accelerator.current_device_index() if index is None else index


def _stats(device):
    return _torch.memory_stats(_index(device))


def memory_allocated(device=None):
    """Bytes in use on the device."""
    return _stats(device)["in_use_bytes"]


def max_memory_allocated(device=None):
    """Most bytes in use so far, or since reset_peak_memory_stats."""
    return _stats(device)["peak_bytes"]


def memory_reserved(device=None):
    """The same as memory_allocated: nothing is reserved ahead."""
    return memory_allocated(device)


def reset_peak_memory_stats(device=None):
    """Starts counting the peak anew."""
    _torch.reset_peak(_index(device))


def memory_stats(device=None):
    """The counts under torch.cuda's names (`active_bytes.all.peak`, `num_ooms`), and in_use_bytes, peak_bytes, limit_bytes, allocations."""
    return {**torch.accelerator.memory_stats(_index(device)), **_stats(device)}


def mem_get_info(device=None):
    """(free bytes, all bytes) of the device."""
    stats = _stats(device)
    return stats["limit_bytes"] - stats["in_use_bytes"], stats["limit_bytes"]


def memory_summary(device=None, abbreviated=False):
    """The counts as text."""
    stats = _stats(device)
    mib = {k: v / 2**20 for k, v in stats.items()}
    return (
        f"{_torch.device_name(_index(device))}\n  in use  {mib['in_use_bytes']:12,.1f} MiB\n  peak    {mib['peak_bytes']:12,.1f} MiB\n"
        f"  limit   {mib['limit_bytes']:12,.1f} MiB\n  allocations ever  {stats['allocations']:,}"
    )


def max_memory_reserved(device=None):
    """The same as max_memory_allocated."""
    return max_memory_allocated(device)


def reset_max_memory_allocated(device=None):
    """The same as reset_peak_memory_stats."""
    reset_peak_memory_stats(device)


def reset_accumulated_memory_stats(device=None):
    """The same as reset_peak_memory_stats."""
    reset_peak_memory_stats(device)


def memory_stats_as_nested_dict(device=None):
    """The same counts, a dict in a dict for each point of their names."""
    out = {}
    for name, value in memory_stats(device).items():
        *groups, last = name.split(".")
        at = out
        for group in groups:
            at = at.setdefault(group, {})
        at[last] = value
    return out


def memory_usage(device=None):
    """Percent of the device's memory in use."""
    return round(100 * memory_allocated(device) / _stats(device)["limit_bytes"])


def empty_cache():
    """What was kept of the memory of compiled programs' results goes back to the system."""
    _torch.clear_stored()


def ipc_collect():
    """Nothing to do: there is no memory shared between processes."""
    pass


def _record_memory_history(enabled="all", context="all", stacks="python", max_entries=2**31 - 1, **_):
    """Starts to record what is allocated and given back, with the lines of Python that did (context=None: without); None stops."""
    _torch.record_history(bool(enabled), bool(context), max_entries)


def _snapshot(device=None):
    """What lives and what happened since _record_memory_history, as torch.cuda's: {"segments": …, "device_traces": …}."""
    return _torch.history()


def _dump_snapshot(filename="dump_snapshot.pickle"):
    """Keeps _snapshot() in a file that pytorch.org/memory_viz shows."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)
