"""Tensors of our devices given to another process (queues, loaders' workers): a copy, made on the same device there."""

from multiprocessing.reduction import ForkingPickler

import torch
from torch.multiprocessing import reductions


def _arrive(tensor, device, requires_grad, is_parameter):
    tensor = tensor.to(device)
    return torch.nn.Parameter(tensor, requires_grad) if is_parameter else tensor.requires_grad_(requires_grad)


def _reduce(tensor):
    if tensor.device.type not in ("neuron", "xla"):
        return reductions.reduce_tensor(tensor)
    return _arrive, (tensor.detach().cpu(), str(tensor.device), tensor.requires_grad, isinstance(tensor, torch.nn.Parameter))


def register():
    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, _reduce)
