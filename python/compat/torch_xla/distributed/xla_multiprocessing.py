"""torch_xla.distributed.xla_multiprocessing."""

from trine.torch.old.launch import MpModelWrapper, MpSerialExecutor, spawn

__all__ = ["MpModelWrapper", "MpSerialExecutor", "spawn"]
