"""Parts of torch_xla that its examples share."""
