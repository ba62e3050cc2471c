"""Files of torch.save and torch.distributed.checkpoint with tensors of `xla` in them, or loaded to `xla`: torch has a way for
each of its own devices.
"""

import contextvars
import functools

import torch

from trine.torch.imports import when_imported

# While a file of the format before zip is read: tensors of `xla`, each with that of the CPU it is made from.
_unfilled = contextvars.ContextVar("unfilled", default=None)


def _tag(storage):
    return str(storage.device) if storage.device.type == "xla" else None


def _restore(storage, location):
    """A storage read from a file, where map_location says."""
    if not str(location).startswith("xla"):
        return None
    return torch.tensor([], dtype=torch.uint8).set_(storage).to(location).untyped_storage()


def _fill_afterwards(load):
    """That format has the bytes behind all objects: tensors that were moved before they were read are moved again."""

    @functools.wraps(load)
    def filled(*args, **options):
        pairs = []
        token = _unfilled.set(pairs)
        try:
            loaded = load(*args, **options)
        finally:
            _unfilled.reset(token)
        with torch.no_grad():
            for tensor, data in pairs:
                tensor.copy_(data)
        return loaded

    return filled


def _write_from_cpu(filesystem):
    """torch.distributed.checkpoint copies tensors of the one device type that it finds, `neuron`; those of `xla` it leaves where they are."""
    loader = filesystem._OverlappingCpuLoader
    known = loader.__init__

    @functools.wraps(known)
    def __init__(self, resolve_fun, *args, **options):
        def resolve(item):
            tensor = resolve_fun(item)
            return tensor.cpu() if tensor.device.type == "xla" else tensor

        known(self, resolve, *args, **options)

    loader.__init__ = __init__


def _stage_from_cpu(stager):
    """The copy that async_save writes from is made storage by storage; one of `xla` has its bytes when its step has run."""
    known = stager.StateDictStager._offload_tensor

    @functools.wraps(known)
    def _offload_tensor(self, x, memo, *args, **options):
        if type(x) is torch.Tensor and x.device.type == "xla":
            x = x.cpu()
            memo.setdefault(id(memo), []).append((x, x.untyped_storage()))  # `memo` knows both by id: they live as long
        return known(self, x, memo, *args, **options)

    stager.StateDictStager._offload_tensor = _offload_tensor


def register():
    when_imported("torch.distributed.checkpoint.filesystem", _write_from_cpu)
    when_imported("torch.distributed.checkpoint._state_dict_stager", _stage_from_cpu)
    torch.serialization.register_package(30, _tag, _restore)
    torch.serialization._legacy_load = _fill_afterwards(torch.serialization._legacy_load)
    made = torch._utils._rebuild_device_tensor_from_cpu_tensor

    @functools.wraps(made)  # torch's own moves a tensor with a gradient, and then asks the result to be a leaf
    def _rebuild_device_tensor_from_cpu_tensor(data, dtype, device, requires_grad):
        tensor = made(data.detach(), dtype, device, requires_grad)
        if (pairs := _unfilled.get()) is not None:
            pairs.append((tensor, data.detach()))
        return tensor

    torch._utils._rebuild_device_tensor_from_cpu_tensor = _rebuild_device_tensor_from_cpu_tensor
