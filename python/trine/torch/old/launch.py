"""torch_xla's ways to begin and end: spawn, launch, sync, step, device."""

import contextlib
import os

from trine.torch import launcher, rank_server, threads
from trine.torch.old import ordinals, xla_backend, xla_model

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


def _rank(index, fn, args, count, port, env):
    os.environ |= env | {"RANK": str(index), "LOCAL_RANK": str(index), "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count),
                   "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}  # fmt: skip
    threads.take()
    ordinals.take_core()
    fn(index, *args)
    ordinals.leave()


def spawn(fn, args=(), nprocs=None, join=True, daemon=False, start_method="spawn"):
    """fn(rank, *args) in as many processes; without a number, in one for each core. One runs here."""
    from torch import multiprocessing

    count = len(devices()) if nprocs is None else nprocs
    if not 1 <= count <= max(len(devices()), 1):
        raise ValueError(f"spawn: found nprocs={nprocs}, expected 1 to {len(devices())}, the cores of this machine, or None for all")
    if count == 1:
        return fn(0, *args)
    if start_method == "spawn" and not launcher.is_recorded(os.environ):  # as fresh a process, but forked from one that has imported torch
        start_method = "forkserver"
        multiprocessing.set_forkserver_preload([*rank_server.LOADED, "trine.torch.old.launch"])
    every = (fn, args, count, xla_backend.free_port(), dict(os.environ))
    return multiprocessing.start_processes(_rank, every, count, join, daemon, start_method)


def launch(fn, args=(), start_method="spawn", debug_single_process=False):
    """Under torchrun this process is one of them."""
    if "WORLD_SIZE" in os.environ:
        return fn(xla_model.get_local_ordinal(), *args)
    return spawn(fn, args, 1 if debug_single_process else None, start_method=start_method)


class MpModelWrapper:
    """A model made before spawn, whose weights the processes share until they go to their devices."""

    def __init__(self, model):
        self._model = model.share_memory()

    def to(self, device):
        return self._model.to(device)


class MpSerialExecutor:
    """run(f): one process after the other, so that the first may fetch what all need."""

    def __init__(self):
        import multiprocessing

        self._lock = multiprocessing.get_context("spawn").Lock()

    def run(self, fn):
        with self._lock:
            return fn()
