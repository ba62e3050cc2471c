"""neuronx_distributed.modules."""
