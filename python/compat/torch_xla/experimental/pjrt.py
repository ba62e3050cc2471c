"""torch_xla.experimental.pjrt: torch_xla.runtime under its first name."""

from trine.torch.old.runtime import *  # noqa: F403
