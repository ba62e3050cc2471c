"""What scripts for the older stack import: torch_xla and torch_neuronx. `python/compat` holds the names alone.

The device `xla` is `neuron` under its older name, and ops run when they are called: `mark_step` has nothing left to do.
"""
