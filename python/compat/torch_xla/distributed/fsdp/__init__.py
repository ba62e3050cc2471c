"""torch_xla.distributed.fsdp."""

from trine.torch.old.checkpoint import checkpoint_module
from trine.torch.old.fsdp import XlaFullyShardedDataParallel, consolidate_sharded_model_checkpoints, consolidate_sharded_state_dicts

__all__ = ["XlaFullyShardedDataParallel", "checkpoint_module", "consolidate_sharded_model_checkpoints", "consolidate_sharded_state_dicts"]
