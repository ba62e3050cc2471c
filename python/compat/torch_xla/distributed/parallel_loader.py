"""torch_xla.distributed.parallel_loader."""

from trine.torch.old.parallel_loader import MpDeviceLoader, ParallelLoader

__all__ = ["MpDeviceLoader", "ParallelLoader"]
