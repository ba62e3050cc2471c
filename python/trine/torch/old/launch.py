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


@contextlib.contextmanager
def _one_program(full_graph, name):
    from trine import _torch

    sync()
    before = _torch.metrics().get("ExecuteTime", (0,))[0]
    yield
    if full_graph and _torch.metrics().get("ExecuteTime", (0,))[0] > before:
        raise RuntimeError(f"torch_xla.compile: {name or 'the function'} reads a value inside, found with full_graph=True; "
                           "read it after the function returns")
    sync()


def compile(f=None, full_graph=False, name=None, num_different_graphs_allowed=None):
    """What a function records is one program of its own. A decorator, or without a function a context."""
    import functools

    if f is None:
        return _one_program(full_graph, name)

    @functools.wraps(f)
    def call(*args, **kwargs):
        with _one_program(full_graph, name or getattr(f, "__name__", None)):
            return f(*args, **kwargs)

    return call


def spawn(fn, args=(), nprocs=None, join=True, daemon=False, start_method="spawn"):
    """One process: this one. For more, start the script with torchrun."""
    if nprocs not in (None, 1):
        raise NotImplementedError(f"spawn: found nprocs={nprocs}; one process is what there is here, start several with torchrun")
    return fn(0, *args)


def launch(fn, args=(), start_method="spawn", debug_single_process=False):
    return spawn(fn, args)
