"""torch_xla.utils.utils."""

from trine.torch.old.instances import *  # noqa: F403
