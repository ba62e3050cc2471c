"""The name `torch_xla` of the older stack, served by trine.torch.old."""

import importlib
import os

from trine.torch import installed

installed.need_device()
import torch  # noqa: E402, F401 makes the device known

from trine.torch.old.launch import *  # noqa: E402, F403

__version__ = "2.9.0"
os.environ.setdefault("PJRT_DEVICE", "NEURON")  # as the real one does where it finds NeuronCores; neuronx_distributed reads it


def __getattr__(name):
    """Its parts are there without being imported by name: torch_xla._XLAC, torch_xla.core."""
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
