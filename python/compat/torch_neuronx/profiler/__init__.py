"""torch_neuronx.profiler: a profile of a block."""

from trine.torch.old.profiles import NeuronConfig, NeuronProfiler, ProfileMode, profile

__all__ = ["NeuronConfig", "NeuronProfiler", "ProfileMode", "profile"]
