"""torch_xla.core.xla_model: devices, steps, saving. Its collectives are in collectives.py, who takes part in ordinals.py."""

import collections
import contextlib
import functools
import pickle
import time

import torch

from trine import _torch
from trine.torch.neuron import say_if_crowded
from trine.torch.old.collectives import *  # noqa: F403
from trine.torch.old.collectives import _fetch_gradients, collective_broadcast, reduce_gradients  # noqa: F401
from trine.torch.old.instances import ToXlaTensorArena, check_view_sharing  # noqa: F401
from trine.torch.old.ordinals import get_local_ordinal, get_ordinal, is_master_ordinal, master_print, rendezvous, take_core, xrt_world_size  # noqa: F401

_closures, _running = [], collections.deque()


def xla_device(n=None, devkind=None):
    """The device of this process, or number n. The first is then what "xla" without a number means."""
    say_if_crowded()
    if n is None and torch.neuron.device_count():
        n = take_core()
    return torch.device("xla", n or 0)


def get_xla_supported_devices(devkind=None, max_devices=None):
    return [f"xla:{i}" for i in range(torch.neuron.device_count())][:max_devices]


def xla_device_hw(device):
    return "NEURON"


def is_xla_tensor(tensor):
    return tensor.device.type == "xla"


def parse_xla_device(device):
    """("XLA", 1) of "xla:1"; None of other devices."""
    found = torch.device(device)
    return ("XLA", found.index or 0) if found.type == "xla" else None


def xla_device_kind(device=None):
    return torch.neuron.get_device_name(torch.device(device).index if device else None)


def xla_replication_devices(local_devices=None):
    return xla_real_devices(local_devices or get_xla_supported_devices())


def xla_real_devices(devices):
    return [str(torch.device(d)) for d in devices]


def mark_step(wait=False, reset_scope=True):
    """Runs what is recorded, as one program; then what add_step_closure left for the end of the step."""
    _torch.end_step()
    closures = list(_closures)
    _closures.clear()
    for function, args, run_async in closures:
        if run_async:
            _running.append(_thread().submit(function, *args))
        else:
            function(*args)
    while _running and (_running[0].done() or wait):
        _running.popleft().result()  # an error of one that ran meanwhile is raised here


def wait_device_ops(devices=()):
    pass


def set_replication(device, devices):
    pass  # who takes part in a collective is who called it


def add_step_closure(closure, args=(), run_async=False):
    """closure(*args) after the next step, when the values are there; run_async: one after the other in a thread."""
    _closures.append((closure, args, run_async))


@functools.cache
def _thread():
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(1)


def unlazy(tensors):
    """Runs what is recorded."""
    _torch.end_step()


class RateTracker:
    """Items a second, smoothed."""

    def __init__(self, smooth_factor=0.4):
        self._smooth, self._began, self._at, self._count, self._total, self._rate = smooth_factor, time.time(), time.time(), 0.0, 0.0, None

    def add(self, count):
        self._count += count

    def rate(self):
        now = time.time()
        if now > self._at:
            found = self._count / (now - self._at)
            self._rate = found if self._rate is None else (1 - self._smooth) * found + self._smooth * self._rate
            self._total, self._count, self._at = self._total + self._count, 0.0, now
        return self._rate or 0.0

    def global_rate(self):
        return (self._total + self._count) / max(time.time() - self._began, 1e-9)


def broadcast_master_param(model):
    """Every rank's parameters and buffers are the first one's."""
    collective_broadcast([*model.parameters(), *model.buffers()])
    mark_step()


def do_on_ordinals(target, data=(), ordinals=(0,)):
    """target(*data) on the ranks named; the others wait."""
    if get_ordinal() in ordinals:
        target(*data)
    rendezvous("torch_xla.core.xla_model.do_on_ordinals")


def optimization_barrier_(tensors):
    pass  # for a compiler that would move ops across it; programs here are made of steps, whose order is kept


def mesh_reduce(tag, data, reduce_fn):
    """reduce_fn of the list of what each rank has."""
    return reduce_fn([pickle.loads(b) for b in rendezvous(tag, pickle.dumps(_maybe_convert_to_cpu(data)))])


def optimizer_step(optimizer, barrier=False, optimizer_args=None, groups=None, pin_layout=True):
    """Gradients averaged over the ranks, then the optimizer's step."""
    reduce_gradients(optimizer, groups)
    loss = optimizer.step(**(optimizer_args or {}))
    if barrier:
        mark_step()
    return loss


# saving


def _maybe_convert_to_cpu(data, convert=True):
    """The data with its tensors of a device on the CPU; what is recorded runs once for all."""
    if not convert:
        return data
    return ToXlaTensorArena(lambda found: [v.cpu() for v in found], lambda v: isinstance(v, torch.Tensor) and v.device.type != "cpu").transform(data)


def save(data, file_or_path, master_only=True, global_master=False):
    """torch.save of tensors moved to the CPU, by the master alone unless told."""
    if not master_only or is_master_ordinal(not global_master):
        torch.save(_maybe_convert_to_cpu(data), file_or_path)
    rendezvous("torch_xla.core.xla_model.save")


def send_cpu_data_to_device(data, device, input_sharding=None):
    """The data with its tensors on the device; lists and dicts are changed where they are, as scripts count on."""
    if isinstance(data, torch.Tensor):
        return data.to(device)
    if isinstance(data, (list, dict)):
        for key, value in list(data.items() if isinstance(data, dict) else enumerate(data)):
            data[key] = send_cpu_data_to_device(value, device)
        return data
    return tuple(send_cpu_data_to_device(v, device) for v in data) if type(data) is tuple else data


def set_rng_state(seed, device=None):
    """Seeds the generator of a device, or of all."""
    if device is None:
        return torch.neuron.manual_seed_all(int(seed))
    with torch.neuron.device(torch.device(device).index or 0):
        torch.neuron.manual_seed(int(seed))


def get_rng_state(device=None):
    """One number that set_rng_state puts back: what was drawn since the seed makes a new seed."""
    index = torch.device(device).index or 0 if device is not None else torch.neuron.current_device()
    seed, drawn = _torch.get_state(index)
    if drawn:
        seed = (seed * 0x9E3779B97F4A7C15 + drawn) % 2**63
        _torch.set_state(index, seed, 0)
    return seed


@contextlib.contextmanager
def fork_rng(device=None, enabled=True):
    """What is drawn inside leaves the generator as it was."""
    index = torch.device(device).index if device is not None else torch.neuron.current_device()
    before = torch.neuron.get_rng_state(index) if enabled else None
    try:
        yield
    finally:
        if enabled:
            torch.neuron.set_rng_state(before, index)


def get_memory_info(device=None):
    stats = torch.neuron.memory_stats(device)
    return {"bytes_used": stats["in_use_bytes"], "bytes_limit": stats["limit_bytes"], "peak_bytes_used": stats["peak_bytes"]}
