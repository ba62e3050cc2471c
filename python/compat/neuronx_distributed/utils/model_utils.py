"""neuronx_distributed.utils.model_utils: models made without memory, moved to the device, their shared weights kept shared."""

import contextlib
import os
from enum import IntEnum

import torch

from neuronx_distributed.parallel_layers.utils import copy_tensor_model_parallel_attributes
from neuronx_distributed.utils.utils import get_platform_target


def is_hf_pretrained_model(model):
    try:
        from transformers import PreTrainedModel
    except ImportError:
        return False
    return isinstance(model, PreTrainedModel)


def init_on_device(device, include_buffers=False, force_custom_init_on_device=False):
    """A block in which parameters are made on a device, such as meta."""
    return _made_on(torch.device(device), include_buffers)


@contextlib.contextmanager
def _made_on(device, include_buffers):
    plain, plain_buffer = torch.nn.Module.register_parameter, torch.nn.Module.register_buffer

    def register_parameter(module, name, param):
        if param is not None and param.device != device:
            moved = torch.nn.Parameter(param.data.to(device), requires_grad=param.requires_grad)
            copy_tensor_model_parallel_attributes(moved, param)
            param = moved
        plain(module, name, param)

    def register_buffer(module, name, tensor, persistent=True):
        plain_buffer(module, name, tensor.to(device) if tensor is not None and include_buffers else tensor, persistent)

    torch.nn.Module.register_parameter, torch.nn.Module.register_buffer = register_parameter, register_buffer
    try:
        yield
    finally:
        torch.nn.Module.register_parameter, torch.nn.Module.register_buffer = plain, plain_buffer


def _shared(model):
    """Lists of (module, name) that are one parameter."""
    found = {}
    for module in model.modules():
        for name, p in module._parameters.items():
            if p is not None:
                found.setdefault(id(p), (p, []))[1].append((module, name))
    return found.values()


def move_model_to_device(model, device):
    """Each parameter once, with what parallel layers know of it; weights that modules share stay shared."""
    for p, owners in list(_shared(model)):
        if p.device == torch.device(device):
            continue
        data = torch.empty_like(p, device=device) if p.device.type == "meta" else p.detach().to(device)
        moved = torch.nn.Parameter(data, requires_grad=p.requires_grad)
        copy_tensor_model_parallel_attributes(moved, p)
        if len(owners) > 1:
            moved.shared_weight = True
        for module, name in owners:
            module._parameters[name] = moved
    for module in model.modules():
        for name, b in module._buffers.items():
            if b is not None and b.device.type == "meta":
                raise ValueError(f"found buffer {name!r} of a {type(module).__name__} on meta, expected values: param_init_fn makes its module anew")
            if b is not None:
                module._buffers[name] = b.to(device)


def reinit_model(model, device, param_init_fn):
    """Parameters without memory get it; param_init_fn(module, device) then sees every module, those that only hold others too, as it may
    replace what they hold. Weights that modules share stay shared."""
    shared = [owners for _, owners in _shared(model) if len(owners) > 1]
    for module in model.modules():
        for name, p in module._parameters.items():
            if p is not None and p.device.type == "meta":
                made = torch.nn.Parameter(torch.empty_like(p, device=device), requires_grad=p.requires_grad)
                copy_tensor_model_parallel_attributes(made, p)
                module._parameters[name] = made
        with torch.no_grad():
            param_init_fn(module, device)
    for (first, its_name), *others in shared:
        for module, name in others:
            module._parameters[name] = first._parameters[its_name]


def get_model_sequential(model, device, sequential_move_factor=11, param_init_fn=None):
    if param_init_fn is not None:
        reinit_model(model, torch.device("cpu"), param_init_fn)
    move_model_to_device(model, device)
    return model


class LogicalNCConfig(IntEnum):
    LNC_1 = 1
    LNC_2 = 2


def get_platform_lnc():
    asked = os.environ.get("NEURON_LOGICAL_NC_CONFIG")
    return LogicalNCConfig(int(asked) if asked else 1 if get_platform_target().startswith(("trn1", "inf2")) else 2)


def recursive_filter(item, predicate):
    """What of nested lists, dicts and parameter groups fulfils a condition."""
    if isinstance(item, dict):
        return {k: recursive_filter(v, predicate) if k == "params" else v for k, v in item.items()}
    if isinstance(item, torch.Tensor):
        return item if predicate(item) else None
    found = [recursive_filter(v, predicate) for v in item]
    return [v for v in found if v is not None]
