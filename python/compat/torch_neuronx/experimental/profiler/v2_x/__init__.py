"""torch_neuronx.experimental.profiler.v2_x."""
