"""torch_xla.distributed.zero_redundancy_optimizer."""

from trine.torch.old.zero import ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]
