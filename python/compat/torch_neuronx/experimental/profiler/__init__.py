"""torch_neuronx.experimental.profiler: the older name."""

from trine.torch.old.profiles import profile

__all__ = ["profile"]
