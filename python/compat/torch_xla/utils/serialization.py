"""torch_xla.utils.serialization."""

from trine.torch.old.serialization import load, save

__all__ = ["load", "save"]
