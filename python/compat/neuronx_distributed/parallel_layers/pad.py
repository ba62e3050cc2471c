"""neuronx_distributed.parallel_layers.pad: layers of attention made larger by zeros, so that the tensor parallel ranks divide its heads."""

import torch
from torch import nn
from torch.nn import functional as F

from neuronx_distributed.parallel_layers.layers import ColumnParallelLinear, RowParallelLinear
from neuronx_distributed.parallel_layers.utils import copy_tensor_model_parallel_attributes
from neuronx_distributed.utils.utils import get_platform_target, hardware


def get_number_of_extra_heads(n_head, tp_degree):
    return -n_head % tp_degree


def generate_padding_mask(num_heads, num_heads_with_pad, num_kv_heads, tp_degree, tp_rank, hardware_type=None):
    """True for those of this rank's query heads that are real. Copies of key and value heads lie far apart on Trainium1,
    side by side on Trainium2."""
    chip = hardware_type or hardware(get_platform_target())
    on_rank, of_one = num_heads_with_pad // tp_degree, num_heads // num_kv_heads
    if chip is hardware.TRN1:
        number, real = tp_rank // num_kv_heads, of_one
    elif chip is hardware.TRN2:
        copies = max(tp_degree // num_kv_heads, 1)
        number, real = tp_rank % copies, of_one * (num_kv_heads * copies // tp_degree)
    else:
        raise ValueError(f"generate_padding_mask: found {chip}, expected Trainium1 or Trainium2")
    return torch.arange(on_rank * number, on_rank * (number + 1)) < real


def pad_model(model, tp_degree, n_heads, wrapped_classes=(), pad_hook_fn=None):
    """The cut dim of parallel layers, in these classes or everywhere, as it is for the padded heads."""
    ratio = (n_heads + get_number_of_extra_heads(n_heads, tp_degree)) / n_heads
    classes = tuple(wrapped_classes)

    def walk(module, inside):
        for child in module.children():
            walk(child, inside or isinstance(child, classes))
        if inside:
            if pad_hook_fn is not None:
                pad_hook_fn(module, ratio)
            _enlarge(module, ratio)

    walk(model, not classes or isinstance(model, classes))
    return model


def _enlarge(layer, ratio):
    if isinstance(layer, ColumnParallelLinear):
        more = int(layer.weight.size(0) * ratio) - layer.weight.size(0)
        _replace(layer, "weight", (0, 0, 0, more))
        if layer.bias is not None:
            _replace(layer, "bias", (0, more))
    elif isinstance(layer, RowParallelLinear):
        _replace(layer, "weight", (0, int(layer.weight.size(1) * ratio) - layer.weight.size(1)))


def _replace(layer, name, sizes):
    before = getattr(layer, name)
    made = nn.Parameter(F.pad(before.detach(), sizes), requires_grad=before.requires_grad)
    copy_tensor_model_parallel_attributes(made, before)
    setattr(layer, name, made)
