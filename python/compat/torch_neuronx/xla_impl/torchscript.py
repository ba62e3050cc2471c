"""torch_neuronx.xla_impl.torchscript."""

from torch_neuronx import replace_weights

__all__ = ["replace_weights"]
