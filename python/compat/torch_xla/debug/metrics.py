"""torch_xla.debug.metrics."""

from trine.torch.old.metrics import *  # noqa: F403
