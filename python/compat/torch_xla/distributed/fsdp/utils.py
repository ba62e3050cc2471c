"""torch_xla.distributed.fsdp.utils."""

from trine.torch.old.checkpoint import checkpoint_module

__all__ = ["checkpoint_module"]
