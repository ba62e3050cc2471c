"""torch_neuronx.experimental: on which core a trace runs."""

from trine.torch.old.trace import set_neuron_cores

__all__ = ["set_neuron_cores"]
