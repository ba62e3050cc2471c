"""torch_xla.utils.serialization: tensors moved to the CPU and saved in one file; loaded to the CPU."""

import torch

from trine.torch.old import xla_model


def save(data, path, master_only=True, global_master=False):
    xla_model.save(data, path, master_only, global_master)


def load(path):
    return torch.load(path, map_location="cpu", weights_only=True)
