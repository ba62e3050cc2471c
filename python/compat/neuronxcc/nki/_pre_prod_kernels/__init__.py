"""neuronxcc.nki._pre_prod_kernels."""
