"""torch_xla.distributed.spmd.xla_sharded_tensor."""

from trine.torch.old.spmd import XLAShard, XLAShardedTensor

__all__ = ["XLAShard", "XLAShardedTensor"]
