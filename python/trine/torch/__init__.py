"""PyTorch on virtual NeuronCores: the emitter from ATen to StableHLO, and what runs its programs.

Needs torch; `import trine` does not. See docs/torch.md.
"""
