"""torch_xla.distributed.xla_backend: the process group `xla`, and the address `xla://` where its processes meet."""

import os
import socket

from torch.distributed.rendezvous import register_rendezvous_handler, rendezvous

from trine.torch import group

group.register()


def free_port():
    with socket.socket() as s:
        s.bind(("localhost", 0))
        return s.getsockname()[1]


def _meet(url, timeout=None, **options):
    """By what torchrun or spawn put into the environment; without it, this process alone."""
    if "WORLD_SIZE" not in os.environ:
        os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())}
    yield from rendezvous("env://", timeout=timeout, **options)


try:
    register_rendezvous_handler("xla", _meet)
except RuntimeError:
    pass  # known already
