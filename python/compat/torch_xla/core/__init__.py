"""torch_xla.core."""

from torch_xla.core import xla_model  # noqa: F401 scripts reach it without importing it
