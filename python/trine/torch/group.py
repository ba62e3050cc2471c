"""The process groups `neuron` and `xla` of torch.distributed: collectives between processes, over the devices' own memory.

torch's own group for CPUs (gloo) carries the bytes: a device's memory is this machine's memory, so it is given an alias.
What is recorded on `xla` runs first. A collective has happened when its call returns; send and recv have not.
"""

import atexit
import weakref

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _create_work_from_future
from torch.futures import Future

from trine import _torch
from trine.torch import neuron


def _aliased(value):
    """The same memory under the CPU's name; lists as they are nested."""
    if isinstance(value, torch.Tensor):
        return _torch.cpu_alias(value) if value.device.type in ("neuron", "xla") else value
    return [_aliased(v) for v in value]


def _first(value):
    while isinstance(value, (list, tuple)):
        if not value:
            return None
        value = value[0]
    return value


def _handle(done, results):
    """Work that is done and gives the device's tensors."""
    tensor = _first(results)
    on_device = tensor is not None and tensor.device.type in ("neuron", "xla")
    future = Future(devices=[tensor.device] if on_device else None)

    done.wait()  # here, not in a callback: a thread of gloo's has no business in Python when the interpreter ends
    future.set_result(results)
    return _create_work_from_future(future)


_groups = weakref.WeakSet()


@atexit.register
def _end_threads():
    """Gloo's threads let go of Python's tensors a moment after their work is done: they end before the interpreter does."""
    for group in list(_groups):
        group._gloo.abort()
        group._gloo = None


class Group(dist.ProcessGroup):
    """One process of those that talk to each other."""

    def __init__(self, name, gloo, rank, size):
        super().__init__(rank, size)
        self._name, self._gloo = name, gloo
        _groups.add(self)

    def getBackendName(self):
        return self._name

    def barrier(self, opts=None):
        return self._gloo.barrier(opts) if opts else self._gloo.barrier()

    def send(self, tensors, to, tag):
        return self._gloo.send(_aliased(tensors), to, tag)

    def recv(self, tensors, source, tag):
        return self._gloo.recv(_aliased(tensors), source, tag)

    def recv_anysource(self, tensors, tag):
        return self._gloo.recv_anysource(_aliased(tensors), tag)


def _collective(name, inputs):
    """A method that hands its tensors on to gloo's of a name; what it writes comes first."""

    def call(self, *args):
        tensors, options = args[: 1 + inputs], args[1 + inputs :]
        return _handle(getattr(self._gloo, name)(*map(_aliased, tensors), *options), tensors[0])

    return call


def _coalesced(name):
    """One after the other: each pair of lists' tensors."""

    def call(self, outputs, given, *options):
        for o, i in zip(outputs, given):
            handle = getattr(self, name)(o, i, *options)
            handle.wait()
        return handle

    return call


for _name in ("allreduce", "broadcast", "reduce", "allreduce_coalesced"):
    setattr(Group, _name, _collective(_name, 0))
for _name in ("allgather", "allgather_coalesced", "gather", "scatter", "reduce_scatter", "alltoall"):
    setattr(Group, _name, _collective(_name, 1))
for _theirs, _name in (("_allgather_base", "all_gather_single"), ("_reduce_scatter_base", "reduce_scatter_single"), ("alltoall_base", "all_to_all_single")):
    setattr(Group, _theirs, _collective(_theirs, 1))
    setattr(Group, _name, _collective(_theirs, 1))
for _name in ("all_gather_single_coalesced", "allgather_into_tensor_coalesced"):
    setattr(Group, _name, _coalesced("all_gather_single"))
for _name in ("reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced"):
    setattr(Group, _name, _coalesced("reduce_scatter_single"))


def _make(name):
    def make(store, rank, size, timeout):
        neuron.say_if_crowded()
        return Group(name, dist.ProcessGroupGloo(store, rank, size, timeout=timeout), rank, size)

    return make


def register():
    """Makes both names known to torch.distributed."""
    for name in ("neuron", "xla"):
        if name.upper() not in dist.Backend._plugins:
            dist.Backend.register_backend(name, _make(name), devices=[name, "cpu", *({"neuron", "xla"} - {name})])
