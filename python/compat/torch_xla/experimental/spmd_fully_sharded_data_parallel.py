"""torch_xla.experimental.spmd_fully_sharded_data_parallel."""

from trine.torch.old.spmd_fsdp import SpmdFullyShardedDataParallel

__all__ = ["SpmdFullyShardedDataParallel"]
