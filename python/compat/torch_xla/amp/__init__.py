"""torch_xla.amp."""

from trine.torch.old.amp import GradScaler, autocast

__all__ = ["GradScaler", "autocast"]
