"""Files of torch.save with tensors of `xla` in them, or loaded to `xla`: torch has a way for each of its own devices."""

import functools

import torch


def _tag(storage):
    return str(storage.device) if storage.device.type == "xla" else None


def _restore(storage, location):
    """A storage read from a file, where map_location says."""
    if not str(location).startswith("xla"):
        return None
    return torch.tensor([], dtype=torch.uint8).set_(storage).to(location).untyped_storage()


def register():
    torch.serialization.register_package(30, _tag, _restore)
    made = torch._utils._rebuild_device_tensor_from_cpu_tensor

    @functools.wraps(made)  # torch's own moves a tensor with a gradient, and then asks the result to be a leaf
    def _rebuild_device_tensor_from_cpu_tensor(data, dtype, device, requires_grad):
        return made(data.detach(), dtype, device, requires_grad)

    torch._utils._rebuild_device_tensor_from_cpu_tensor = _rebuild_device_tensor_from_cpu_tensor
