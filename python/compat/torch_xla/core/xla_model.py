"""torch_xla.core.xla_model."""

from trine.torch.old.xla_model import *  # noqa: F403
