"""torch_neuronx.pyhlo."""
