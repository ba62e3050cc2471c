"""torch_xla.debug."""
