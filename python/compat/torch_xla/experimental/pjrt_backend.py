"""torch_xla.experimental.pjrt_backend: the process group `xla`, whose processes meet at pjrt:// too."""

from trine.torch.old import xla_backend  # noqa: F401 makes both known
