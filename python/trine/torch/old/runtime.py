"""torch_xla.runtime: who this process is among the others."""

import os

import torch

from trine import _torch
from trine.torch.old import xla_model

world_size = xla_model.xrt_world_size
global_ordinal = xla_model.get_ordinal
local_ordinal = xla_model.get_local_ordinal


xla_device = xla_model.xla_device


def process_count():
    return world_size()


def process_index():
    return global_ordinal()


def local_process_count():
    return int(os.environ.get("LOCAL_WORLD_SIZE", 1))


def local_device_count():
    return local_process_count() * addressable_device_count()


def host_index():
    return int(os.environ.get("GROUP_RANK", 0))


def get_master_ip():
    return os.environ.get("MASTER_ADDR", "localhost")


def using_pjrt():
    return True


def device_attributes(device=None):
    """What is known of a core."""
    return {"name": torch.neuron.get_device_name(torch.device(device).index if device else None), "local_ordinal": local_ordinal()}


runtime_device_attributes = device_attributes


def is_bf16_supported():
    return True


def global_runtime_device_attributes():
    return [device_attributes(d) for d in xla_model.get_xla_supported_devices()]


def get_num_cached_compilation_graph():
    """Programs of steps that this process made."""
    return int(_torch.counters().get("UncachedCompile", 0))


def device_type():
    return "NEURON"


def addressable_device_count():
    return torch.neuron.device_count()


addressable_runtime_device_count = addressable_device_count


def global_runtime_device_count():
    return max(world_size(), addressable_device_count())


global_device_count = global_runtime_device_count
_spmd = False


def use_spmd(auto=False):
    """One process has all devices, and marked tensors are dealt over them; see torch_xla.distributed.spmd."""
    global _spmd
    if world_size() > 1:
        raise RuntimeError(f"use_spmd: found {world_size()} processes, expected one that has all devices")
    _spmd = True


def is_spmd():
    return _spmd


def initialize_cache(path, readonly=False):
    pass


def set_device_type(name):
    if name.upper() != "NEURON":
        raise ValueError(f"set_device_type: found {name!r}, expected NEURON")
