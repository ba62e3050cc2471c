"""The name `neuronxcc` that kernels of SDK 2.26 and before import; only its `nki` is here."""
