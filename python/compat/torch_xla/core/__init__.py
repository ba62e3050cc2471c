"""torch_xla.core."""
