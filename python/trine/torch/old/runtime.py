"""torch_xla.runtime: who this process is among the others."""

import torch

from trine.torch.old import xla_model

world_size = xla_model.xrt_world_size
global_ordinal = xla_model.get_ordinal
local_ordinal = xla_model.get_local_ordinal


def device_type():
    return "NEURON"


def addressable_device_count():
    return torch.neuron.device_count()


global_runtime_device_count = addressable_device_count
global_device_count = addressable_device_count


def is_spmd():
    return False


def initialize_cache(path, readonly=False):
    pass


def set_device_type(name):
    if name.upper() != "NEURON":
        raise ValueError(f"set_device_type: found {name!r}, expected NEURON")
