"""torch_xla.core.xla_model: devices, steps, saving, and the collectives of one process or of torch.distributed."""

import os
import sys

import torch
from torch.utils._pytree import tree_map

from trine import _torch
from trine.torch.neuron import say_if_crowded

REDUCE_SUM, REDUCE_MUL, REDUCE_MIN, REDUCE_MAX, REDUCE_AND, REDUCE_OR = "sum", "mul", "min", "max", "and", "or"
_closures = []


def xla_device(n=None, devkind=None):
    """The device of this process, or number n."""
    say_if_crowded()
    return torch.device("xla", get_local_ordinal() % max(torch.neuron.device_count(), 1) if n is None else n)


def get_xla_supported_devices(devkind=None, max_devices=None):
    return [f"xla:{i}" for i in range(torch.neuron.device_count())][:max_devices]


def xla_device_hw(device):
    return "NEURON"


def is_xla_tensor(tensor):
    return tensor.device.type == "xla"


def parse_xla_device(device):
    """("XLA", 1) of "xla:1"; None of other devices."""
    found = torch.device(device)
    return ("XLA", found.index or 0) if found.type == "xla" else None


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


def set_replication(device, devices):
    pass  # who takes part in a collective is who called it


def add_step_closure(closure, args=(), run_async=False):
    _closures.append((closure, args))


def unlazy(tensors):
    pass


# ranks


def _distributed():
    """Whether there are other processes; those that torchrun or spawn started meet when it is first asked for."""
    if not torch.distributed.is_available():
        return False
    if not torch.distributed.is_initialized() and int(os.environ.get("WORLD_SIZE", 1)) > 1:
        torch.distributed.init_process_group("xla")
    return torch.distributed.is_initialized()


def get_ordinal(defval=0):
    return torch.distributed.get_rank() if _distributed() else defval


def get_local_ordinal(defval=0):
    return int(os.environ.get("LOCAL_RANK", defval))


def xrt_world_size(defval=1):
    return torch.distributed.get_world_size() if _distributed() else defval


def is_master_ordinal(local=True):
    return (get_local_ordinal() if local else get_ordinal()) == 0


def master_print(*args, fd=None, local=False, flush=False):
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
    _, group = _mine(groups)
    for t in tensors:
        if _distributed():
            torch.distributed.all_reduce(t, getattr(torch.distributed.ReduceOp, _OPS[reduce_type]), group=group)
        if scale != 1.0:
            t.mul_(scale)
    return tensors[0] if isinstance(inputs, torch.Tensor) else None


def _mine(groups):
    """The ranks that take part with this one, in order; and the group that torch knows them by."""
    if not _distributed():
        return [0], None
    if not groups:
        return list(range(xrt_world_size())), None
    key = tuple(map(tuple, groups))
    if key not in _groups:
        _groups[key] = [torch.distributed.new_group(list(g)) for g in key]  # every process makes every group
    at = next((i for i, g in enumerate(key) if get_ordinal() in g), None)
    if at is None:
        raise ValueError(f"groups: found {groups}, expected each rank in one of them; this is {get_ordinal()}")
    return list(key[at]), _groups[key][at]


_groups = {}


def all_gather(value, dim=0, groups=None, output=None, pin_layout=True):
    ranks, group = _mine(groups)
    parts = [value]
    if _distributed():
        parts = [torch.empty_like(value, memory_format=torch.contiguous_format) for _ in ranks]
        torch.distributed.all_gather(parts, value.contiguous(), group=group)
    found = torch.cat(parts, dim)
    return found if output is None else output.copy_(found)


def reduce_scatter(reduce_type, input, scale, scatter_dim, shard_count, groups=None, output=None, cctx=None, pin_layout=True):
    """This rank's part of the sum over the ranks, along a dim."""
    ranks, _ = _mine(groups)
    if shard_count != len(ranks):
        raise ValueError(f"reduce_scatter: found shard_count={shard_count}, expected the number of ranks, {len(ranks)}")
    whole = all_reduce(reduce_type, input, scale, groups)
    found = whole.chunk(shard_count, scatter_dim)[ranks.index(get_ordinal())].contiguous()
    return found if output is None else output.copy_(found)


def all_to_all(value, split_dimension, concat_dimension, split_count, groups=None, pin_layout=True):
    ranks, _ = _mine(groups)
    if split_count != len(ranks):
        raise ValueError(f"all_to_all: found split_count={split_count}, expected the number of ranks, {len(ranks)}")
    every = all_gather(value[None], 0, groups)
    mine = every.chunk(split_count, split_dimension % value.dim() + 1)[ranks.index(get_ordinal())]
    return torch.cat(mine.unbind(0), concat_dimension)


def collective_permute(value, pairs):
    """What the rank that is paired with this one has; zeros where there is none."""
    every = all_gather(value[None])
    source = next((s for s, t in pairs if t == get_ordinal()), None)
    return torch.zeros_like(value) if source is None else every[source].clone()


def collective_broadcast(tensors, root_ordinal=0, groups=None, pin_layout=True):
    for t in tensors:
        if _distributed():
            torch.distributed.broadcast(t.data, root_ordinal, group=_mine(groups)[1])


def broadcast_master_param(model):
    """Every rank's parameters and buffers are the first one's."""
    collective_broadcast([*model.parameters(), *model.buffers()])
    mark_step()


def do_on_ordinals(target, data=(), ordinals=(0,)):
    """target(*data) on the ranks named; the others wait."""
    if get_ordinal() in ordinals:
        target(*data)
    rendezvous("torch_xla.core.xla_model.do_on_ordinals")


def optimization_barrier_(tensors):
    pass  # for a compiler that would move ops across it; programs here are made of steps, whose order is kept


def mesh_reduce(tag, data, reduce_fn):
    return reduce_fn([data] if not _distributed() else _gathered(data))


def _gathered(data):
    out = [None] * xrt_world_size()
    torch.distributed.all_gather_object(out, data)
    return out


def _fetch_gradients(optimizer):
    return [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]


def all_reduce_bucketized_gradients(gradients, scale=1.0, groups=None, pin_layout=True, bucket_cap_mb=0):
    """In place, in runs of one dtype: one message for many gradients."""
    by_dtype = {}
    for g in gradients:
        by_dtype.setdefault(g.dtype, []).append(g)
    for same in by_dtype.values():
        flat = torch.cat([g.reshape(-1) for g in same])
        all_reduce(REDUCE_SUM, [flat], scale, groups)
        for g, part in zip(same, flat.split([g.numel() for g in same])):
            g.copy_(part.view_as(g))


def reduce_gradients(optimizer, groups=None, pin_layout=True):
    if xrt_world_size() > 1:
        all_reduce_bucketized_gradients(_fetch_gradients(optimizer), 1.0 / len(_mine(groups)[0]), groups)


bucketized_reduce_gradients = reduce_gradients


def optimizer_step(optimizer, barrier=False, optimizer_args=None, groups=None, pin_layout=True):
    """Gradients averaged over the ranks, then the optimizer's step."""
    reduce_gradients(optimizer, groups)
    loss = optimizer.step(**(optimizer_args or {}))
    if barrier:
        mark_step()
    return loss


# saving


def _maybe_convert_to_cpu(data, convert=True):
    return tree_map(lambda v: v.cpu() if convert and isinstance(v, torch.Tensor) else v, data)


def save(data, file_or_path, master_only=True, global_master=False):
    """torch.save of tensors moved to the CPU, by the master alone unless told."""
    if not master_only or is_master_ordinal(not global_master):
        torch.save(_maybe_convert_to_cpu(data), file_or_path)
    rendezvous("torch_xla.core.xla_model.save")


def send_cpu_data_to_device(data, device, input_sharding=None):
    """The data with its tensors on the device; lists and dicts are changed where they are, as scripts count on."""
    if isinstance(data, torch.Tensor):
        return data.to(device)
    if isinstance(data, (list, dict)):
        for key, value in list(data.items() if isinstance(data, dict) else enumerate(data)):
            data[key] = send_cpu_data_to_device(value, device)
        return data
    return tuple(send_cpu_data_to_device(v, device) for v in data) if type(data) is tuple else data


def set_rng_state(seed, device=None):
    torch.neuron.manual_seed_all(int(seed))


def get_rng_state(device=None):
    return torch.neuron.initial_seed()


def get_memory_info(device=None):
    stats = torch.neuron.memory_stats(device)
    return {"bytes_used": stats["in_use_bytes"], "bytes_limit": stats["limit_bytes"], "peak_bytes_used": stats["peak_bytes"]}
