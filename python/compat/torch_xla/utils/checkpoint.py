"""torch_xla.utils.checkpoint."""

from torch.utils.checkpoint import checkpoint

__all__ = ["checkpoint"]
