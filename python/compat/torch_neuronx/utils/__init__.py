"""torch_neuronx.utils."""

from torch_neuronx.utils.utils import get_platform_target

__all__ = ["get_platform_target"]
