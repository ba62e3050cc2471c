"""torch_xla's ways to begin and end: spawn, launch, sync, step, device."""

import contextlib

from trine.torch.old import xla_model

device = xla_model.xla_device


def devices():
    import torch

    return [torch.device(d) for d in xla_model.get_xla_supported_devices()]


real_devices = xla_model.get_xla_supported_devices
device_count = xla_model.xrt_world_size


def sync(wait=False, reset_scope=True):
    xla_model.mark_step(wait)


@contextlib.contextmanager
def step():
    yield
    sync()


def manual_seed(seed, device=None):
    import torch

    torch.manual_seed(seed)


def compile(f=None, full_graph=False, name=None, num_different_graphs_allowed=None):
    """As a decorator or by call; torch.compile with the backend neuron."""
    import torch

    if f is None:
        return lambda g: compile(g, full_graph, name)
    return torch.compile(f, backend="neuron", fullgraph=full_graph)


def spawn(fn, args=(), nprocs=None, join=True, daemon=False, start_method="spawn"):
    """One process: this one. For more, start the script with torchrun."""
    if nprocs not in (None, 1):
        raise NotImplementedError(f"spawn: found nprocs={nprocs}; one process is what there is here, start several with torchrun")
    return fn(0, *args)


def launch(fn, args=(), start_method="spawn", debug_single_process=False):
    return spawn(fn, args)
