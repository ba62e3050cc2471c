"""torch_xla.core.xla_model: devices, steps, saving, and the collectives of one process or of torch.distributed."""

import torch

from trine import _torch

REDUCE_SUM, REDUCE_MUL, REDUCE_MIN, REDUCE_MAX, REDUCE_AND, REDUCE_OR = "sum", "mul", "min", "max", "and", "or"
_closures = []


def xla_device(n=None, devkind=None):
    """The device of this process, or number n."""
    return torch.device("xla", get_local_ordinal() if n is None else n)


def get_xla_supported_devices(devkind=None, max_devices=None):
    return [f"xla:{i}" for i in range(torch.neuron.device_count())][:max_devices]


def xla_device_hw(device):
    return "NEURON"


def xla_real_devices(devices):
    return [str(torch.device(d)) for d in devices]


def mark_step(wait=False, reset_scope=True):
    """Runs what is recorded, as one program; then what add_step_closure left for the end of the step."""
    _torch.end_step()
    closures = list(_closures)
    _closures.clear()
    for function, args in closures:
        function(*args)


def wait_device_ops(devices=()):
    pass


def add_step_closure(closure, args=(), run_async=False):
    _closures.append((closure, args))


def unlazy(tensors):
    pass


# ranks


def _distributed():
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def get_ordinal(defval=0):
    return torch.distributed.get_rank() if _distributed() else defval


def get_local_ordinal(defval=0):
    import os

    return int(os.environ.get("LOCAL_RANK", defval))


def xrt_world_size(defval=1):
    return torch.distributed.get_world_size() if _distributed() else defval


def is_master_ordinal(local=True):
    return (get_local_ordinal() if local else get_ordinal()) == 0


def master_print(*args, fd=None, local=False, flush=False):
    import sys

    if is_master_ordinal(local):
        print(*args, file=fd or sys.stdout, flush=flush)


def rendezvous(tag, payload=b"", replicas=()):
    if _distributed():
        torch.distributed.barrier()
    return [payload] * xrt_world_size()


# collectives

_OPS = {REDUCE_SUM: "SUM", REDUCE_MUL: "PRODUCT", REDUCE_MIN: "MIN", REDUCE_MAX: "MAX", REDUCE_AND: "BAND", REDUCE_OR: "BOR"}


def all_reduce(reduce_type, inputs, scale=1.0, groups=None, cctx=None, pin_layout=True):
    """In place for a list of tensors, a new tensor for one."""
    if reduce_type not in _OPS:
        raise ValueError(f"all_reduce: found {reduce_type!r}, expected one of {sorted(_OPS)}")
    tensors = [inputs.clone()] if isinstance(inputs, torch.Tensor) else list(inputs)
    for t in tensors:
        if _distributed():
            torch.distributed.all_reduce(t, getattr(torch.distributed.ReduceOp, _OPS[reduce_type]))
        if scale != 1.0:
            t.mul_(scale)
    return tensors[0] if isinstance(inputs, torch.Tensor) else None


def all_gather(value, dim=0, groups=None, output=None, pin_layout=True):
    parts = [value]
    if _distributed():
        parts = [torch.empty_like(value) for _ in range(xrt_world_size())]
        torch.distributed.all_gather(parts, value)
    return torch.cat(parts, dim)


def mesh_reduce(tag, data, reduce_fn):
    return reduce_fn([data] if not _distributed() else _gathered(data))


def _gathered(data):
    out = [None] * xrt_world_size()
    torch.distributed.all_gather_object(out, data)
    return out


def reduce_gradients(optimizer, groups=None, pin_layout=True):
    grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
    if xrt_world_size() > 1:
        all_reduce(REDUCE_SUM, grads, 1.0 / xrt_world_size())


def optimizer_step(optimizer, barrier=False, optimizer_args=None, groups=None, pin_layout=True):
    """Gradients averaged over the ranks, then the optimizer's step."""
    reduce_gradients(optimizer, groups)
    loss = optimizer.step(**(optimizer_args or {}))
    if barrier:
        mark_step()
    return loss


# saving


def _to_cpu(data):
    from torch.utils._pytree import tree_map

    return tree_map(lambda v: v.cpu() if isinstance(v, torch.Tensor) else v, data)


def save(data, file_or_path, master_only=True, global_master=False):
    """torch.save of tensors moved to the CPU, by the master alone unless told."""
    if not master_only or is_master_ordinal(not global_master):
        torch.save(_to_cpu(data), file_or_path)
    rendezvous("torch_xla.core.xla_model.save")


def send_cpu_data_to_device(data, device, input_sharding=None):
    from torch.utils._pytree import tree_map

    return tree_map(lambda v: v.to(device) if isinstance(v, torch.Tensor) else v, data)


def set_rng_state(seed, device=None):
    torch.neuron.manual_seed_all(int(seed))


def get_rng_state(device=None):
    return torch.neuron.initial_seed()


def get_memory_info(device=None):
    stats = torch.neuron.memory_stats(device)
    return {"bytes_used": stats["in_use_bytes"], "bytes_limit": stats["limit_bytes"], "peak_bytes_used": stats["peak_bytes"]}
