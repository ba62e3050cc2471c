"""neuronx_distributed.scripts."""
