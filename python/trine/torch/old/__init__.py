"""What scripts for the older stack import: torch_xla and torch_neuronx. `python/compat` holds the names alone.

The device `xla` is `neuron` under its older name; its ops are recorded, and `mark_step` runs them as one program.
"""
