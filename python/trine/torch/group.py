"""The process groups `neuron` and `xla` of torch.distributed, and what of torch asks for a group by name.

The group itself is C++ (src/api/torch/group/group.h): ranks of a host share memory, sums have the order of the chips' schedule.
"""

import atexit
import datetime
import functools
import os

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.distributed.device_mesh import DeviceMesh

from trine import _core, _torch
from trine.torch import neuron

# Threads of groups let go of Python's objects: they end before the interpreter does.
atexit.register(_torch.end_groups)


def _make(name):
    def make(options, _):
        neuron.say_if_crowded()
        timeout = options.timeout.total_seconds()
        _record()
        numbers = list(options.global_ranks_in_group)
        return _torch.make_group(name, options.store, options.group_rank, options.group_size, timeout, numbers)

    return make


@functools.lru_cache(maxsize=None)
def _record():
    """Collectives go to the log of runs, where there is one."""
    if _core.is_logging():
        _torch.exchanged_start()


def _give_groups():
    """torch makes meshes of `xla` without groups, for SPMD in one process. Where ranks are processes they have groups."""
    known = DeviceMesh.__init__

    @functools.wraps(known)
    def __init__(self, device_type, *args, **options):
        has_groups = device_type == "xla" and dist.is_initialized() and dist.get_world_size() > 1
        known(self, "neuron" if has_groups else device_type, *args, **options)
        self._device_type = device_type

    DeviceMesh.__init__ = __init__


def _monitor_barriers():
    """torch refuses monitored_barrier for every group but gloo's. Ours names the ranks that did not come, all of them."""
    known = c10d.monitored_barrier

    @functools.wraps(known)
    def monitored_barrier(group=dist.GroupMember.WORLD, timeout=None, wait_all_ranks=False):
        if c10d._rank_not_in_group(group) or dist.get_backend(group) not in ("neuron", "xla"):
            return known(group, timeout, wait_all_ranks)
        timeout = timeout or c10d._get_default_timeout(dist.get_backend(group))
        timeout = timeout if isinstance(timeout, datetime.timedelta) else datetime.timedelta(seconds=timeout)
        (group or c10d._get_default_group()).monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)

    dist.monitored_barrier = c10d.monitored_barrier = monitored_barrier


def register():
    """Makes both names known to torch.distributed."""
    _give_groups()
    _monitor_barriers()
    folders = (torch.__file__, __file__)
    _torch.set_library_folders([os.path.dirname(folders[0]), os.path.dirname(os.path.dirname(folders[1]))])
    for name in ("neuron", "xla"):
        if name.upper() not in dist.Backend._plugins:
            devices = [name, "cpu", *({"neuron", "xla"} - {name})]
            dist.Backend.register_backend(name, _make(name), extended_api=True, devices=devices)
