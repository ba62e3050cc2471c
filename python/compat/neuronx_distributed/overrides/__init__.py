"""neuronx_distributed.overrides."""
