"""torch_neuronx.profiling: what torch.profiler is given for the device."""

from trine.torch.old.profiles import NeuronConfig, NeuronProfiler, ProfileMode

__all__ = ["NeuronConfig", "NeuronProfiler", "ProfileMode"]
