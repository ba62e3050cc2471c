"""The name `torch_xla` of the older stack, served by trine.torch.old."""

import torch  # noqa: F401 makes the device known

from trine.torch.old.launch import *  # noqa: F403

__version__ = "2.9.0"
