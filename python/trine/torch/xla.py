"""`torch.xla`: the devices of `torch.neuron` under their older name, whose ops are recorded.

torch looks for it where it keeps and puts back random numbers (torch.utils.checkpoint, fork_rng).
"""

from trine import _torch
from trine.torch import neuron


def synchronize(device=None):
    """Runs what is recorded, as one program."""
    _torch.end_step()


def __getattr__(name):
    return getattr(neuron, name)


def __dir__():
    return dir(neuron)
