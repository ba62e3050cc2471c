"""torch_xla.distributed.xla_backend: the process group `xla`, and the address `xla://` where its processes meet."""

import os
import socket

import torch.distributed as dist
from torch.distributed.rendezvous import register_rendezvous_handler, rendezvous

from trine.torch import group
from trine.torch.old import groups

group.register()
groups.register()


class _Xla(type):
    def __instancecheck__(cls, value):
        return isinstance(value, dist.ProcessGroup) and "xla" in (value.name() if callable(getattr(value, "name", None)) else "", dist.get_backend(value))


class ProcessGroupXla(metaclass=_Xla):
    """What groups of the backend `xla` are, for isinstance."""


new_xla_process_group = groups.new_group


def free_port():
    with socket.socket() as s:
        s.bind(("localhost", 0))
        return s.getsockname()[1]


def _meet(url, timeout=None, **options):
    """By what torchrun or spawn put into the environment; without it, this process alone."""
    if "WORLD_SIZE" not in os.environ:
        os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())}
    yield from rendezvous("env://", timeout=timeout, **options)


for _scheme in ("xla", "pjrt"):
    try:
        register_rendezvous_handler(_scheme, _meet)
    except RuntimeError:
        pass  # known already
