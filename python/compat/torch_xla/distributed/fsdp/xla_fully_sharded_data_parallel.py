"""torch_xla.distributed.fsdp.xla_fully_sharded_data_parallel."""

from trine.torch.old.fsdp import XlaFullyShardedDataParallel

__all__ = ["XlaFullyShardedDataParallel"]
