"""neuronx_distributed.kernels."""
