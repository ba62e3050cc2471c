"""`torch.xla`: the devices of `torch.neuron` under their older name, whose ops are recorded.

torch looks for it where it keeps and puts back random numbers (torch.utils.checkpoint, fork_rng).
"""

import torch

from trine import _torch
from trine.torch import imports, neuron


def synchronize(device=None):
    """Runs what is recorded, as one program."""
    _torch.end_step()


def _bytes_of(storage):
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def register():
    """torch keeps addresses and sizes of storages to devices of its own list; FSDP2 asks for both."""
    address, resize = torch.UntypedStorage.data_ptr, torch.UntypedStorage.resize_

    def data_ptr(self):
        if self.device.type == "xla" and self.nbytes():
            _torch.settle(_bytes_of(self))  # what is recorded for it runs first
        return address(self)

    def resize_(self, size):
        if self.device.type != "xla":
            return resize(self, size)
        _torch.resize_storage(_bytes_of(self), size)
        return self

    torch.UntypedStorage.data_ptr, torch.UntypedStorage.resize_ = data_ptr, resize_
    imports.when_imported("torch._subclasses.fake_tensor", _number_fake_devices)


def _number_fake_devices(module):
    """torch numbers the device of a fake tensor for types of its own list alone. DTensor's rules make fake tensors of a mesh's
    device, "xla", and of a tensor's, "xla:0", and an op of both would be refused."""
    numbered = module._is_indexed_device_type
    module._is_indexed_device_type = lambda device_type: device_type == "xla" or numbered(device_type)


def __getattr__(name):
    return getattr(neuron, name)


def __dir__():
    return dir(neuron)
