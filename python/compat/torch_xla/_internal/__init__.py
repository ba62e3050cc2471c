"""torch_xla._internal: what libraries look into."""
