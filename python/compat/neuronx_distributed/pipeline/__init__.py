"""neuronx_distributed.pipeline."""

from neuronx_distributed.pipeline.model import NxDPPModel

__all__ = ["NxDPPModel"]
