"""torch_xla.distributed.xla_multiprocessing."""

from trine.torch.old.launch import spawn

__all__ = ["spawn"]
