"""torch_neuronx.parallel_compile."""
