"""neuronxcc.nki._private_kernels."""
