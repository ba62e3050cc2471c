"""torch_xla.runtime."""

from trine.torch.old.runtime import *  # noqa: F403
