"""What torch.distributed.tensor asks of torch_xla for meshes of `xla`: distribute_tensor and distribute_module.

Where ranks are processes, a mesh has their groups (trine.torch.group) and tensors become DTensors, as on any device. In
one process the mesh is of its devices, and tensors are marked (spmd.py).
"""

import inspect

import torch
from torch.distributed.tensor import DTensor, Replicate, Shard

from trine.torch.old import spmd


def _has_groups(mesh):
    return bool(getattr(mesh, "_dim_group_names", None))


def convert_to_xla_mesh(device_mesh):
    return spmd.Mesh(device_mesh.mesh.reshape(-1).numpy(), tuple(device_mesh.mesh.shape), device_mesh.mesh_dim_names)


def convert_placements(rank, placements):
    """A partition spec of torch's placements: of each dim the mesh axes that cut it."""
    spec = [()] * rank
    for axis, placement in enumerate(placements):
        if isinstance(placement, Shard):
            spec[placement.dim] = (*spec[placement.dim], axis)
        elif not isinstance(placement, Replicate):
            raise ValueError(f"distribute_tensor: found {placement}, expected Shard or Replicate")
    return tuple(axes or None for axes in spec)


def xla_distribute_tensor(tensor, device_mesh, placements=None):
    """The first rank's values, as a DTensor of all; in one process a marked tensor."""
    placements = placements or [Replicate()] * device_mesh.mesh.ndim
    if not _has_groups(device_mesh):
        return spmd.mark_sharding(tensor.to("xla"), convert_to_xla_mesh(device_mesh), convert_placements(tensor.dim(), placements))
    if not tensor.is_leaf:
        raise RuntimeError("distribute_tensor: found a tensor that was computed, expected a leaf")
    whole = [Replicate()] * device_mesh.ndim
    with torch.no_grad():
        made = DTensor.from_local(tensor.detach().to("xla"), device_mesh, whole, run_check=True).redistribute(placements=placements)
    return made.detach().requires_grad_(tensor.requires_grad)


def xla_distribute_module(module, device_mesh, partition_fn=None, input_fn=None, output_fn=None):
    """Every parameter and buffer that `partition_fn` leaves is on every rank."""
    for name, inner in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, inner, device_mesh)
        if _has_groups(device_mesh):
            _replicate(inner, device_mesh)
    if input_fn is not None:
        with_module = len(inspect.signature(input_fn).parameters) == 3
        module.register_forward_pre_hook(lambda m, inputs: input_fn(m, inputs, device_mesh) if with_module else input_fn(inputs, device_mesh))
    if output_fn is not None:
        of_module = len(inspect.signature(output_fn).parameters) == 3
        module.register_forward_hook(lambda m, _, outputs: output_fn(m, outputs, device_mesh) if of_module else output_fn(outputs, device_mesh))
    module._distribute_module_applied = True
    return module


def _replicate(module, mesh):
    whole = [Replicate()] * mesh.ndim
    for key, param in list(module._parameters.items()):
        if param is not None and not isinstance(param, DTensor):
            made = xla_distribute_tensor(param.data, mesh, whole)
            module.register_parameter(key, torch.nn.Parameter(made, requires_grad=param.requires_grad))
    for key, buffer in module._buffers.items():
        if buffer is not None and not isinstance(buffer, DTensor):
            module._buffers[key] = xla_distribute_tensor(buffer, mesh, whole)
