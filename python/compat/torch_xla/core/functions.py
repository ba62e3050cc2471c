"""torch_xla.core.functions: collectives that gradients pass through."""

from trine.torch.old.functions import AllGather, AllReduce, all_gather, all_reduce

__all__ = ["AllGather", "AllReduce", "all_gather", "all_reduce"]
