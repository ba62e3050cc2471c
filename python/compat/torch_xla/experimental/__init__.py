"""torch_xla.experimental."""
