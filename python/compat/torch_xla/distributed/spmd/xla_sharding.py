"""torch_xla.distributed.spmd.xla_sharding."""

from torch_xla.distributed.spmd import *  # noqa: F403
from torch_xla.distributed.spmd import __all__  # noqa: F401
