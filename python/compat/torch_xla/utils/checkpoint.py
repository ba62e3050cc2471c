"""torch_xla.utils.checkpoint."""

from trine.torch.old.checkpoint import checkpoint

__all__ = ["checkpoint"]
