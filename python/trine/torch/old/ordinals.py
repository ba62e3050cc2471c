"""Who this process is among those that torchrun, mpirun or spawn started, and where they wait for each other."""

import contextlib
import datetime
import os
import sys

import torch
import torch.distributed as dist


def distributed():
    """Whether there are other processes; those that were started together meet when it is first asked for."""
    if not dist.is_available():
        return False
    if not dist.is_initialized() and int(os.environ.get("WORLD_SIZE", 1)) > 1:
        dist.init_process_group("xla")
    return dist.is_initialized()


def get_ordinal(defval=0):
    return dist.get_rank() if distributed() else defval


def get_local_ordinal(defval=0):
    return int(os.environ.get("LOCAL_RANK", defval))


def xrt_world_size(defval=1):
    return dist.get_world_size() if distributed() else defval


def take_core():
    """Makes the core of this process, by its place among those of the host, the current one; gives its number."""
    index = get_local_ordinal() % torch.neuron.device_count()
    if torch.neuron.current_device() != index and "LOCAL_RANK" in os.environ:
        torch.neuron.set_device(index)
    return index


def is_master_ordinal(local=True):
    return (get_local_ordinal() if local else get_ordinal()) == 0


def master_print(*args, fd=None, local=False, flush=False):
    if is_master_ordinal(local):
        print(*args, file=fd or sys.stdout, flush=flush)


_rounds = {}


def rendezvous(tag, payload=b"", replicas=()):
    """Waits for the ranks named, or all; gives what each of them brought, in their order. What is recorded runs first."""
    if not distributed():
        return [payload]
    if hasattr(torch, "xla"):
        torch.xla.synchronize()
    ranks = tuple(replicas) or tuple(range(dist.get_world_size()))
    me, store = dist.get_rank(), dist.distributed_c10d._get_default_store()
    if me not in ranks:
        raise ValueError(f"rendezvous {tag!r}: found rank {me}, expected one of {list(ranks)}, who wait for each other")
    n = _rounds[tag, ranks] = _rounds.get((tag, ranks), -1) + 1

    def key(rank, number):
        return f"rendezvous/{tag}/{'-'.join(map(str, ranks)) if replicas else ''}/{number}/{rank}"

    store.set(key(me, n), b"+" + bytes(payload))
    found = [store.get(key(r, n))[1:] for r in ranks]
    if n > 1:
        store.delete_key(key(me, n - 2))  # all have read it: they have come to n - 1
    return found


def leave():
    """At a rank's end: the first, whose process holds the store, stays until the others have read what they wait for in it."""
    if not dist.is_initialized():
        return
    me, store = dist.get_rank(), dist.distributed_c10d._get_default_store()
    with contextlib.suppress(RuntimeError):  # one of them has ended: whoever started them says which
        if me:
            store.set(f"left/{me}", b"+")
        else:
            store.wait([f"left/{r}" for r in range(1, dist.get_world_size())], datetime.timedelta(seconds=60))
