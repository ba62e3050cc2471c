"""torch_xla's collectives: of one tensor, of a list as one message, in buckets; over all ranks or over replica groups."""

import os

import torch
import torch.distributed as dist

from trine.torch.old import groups as replica
from trine.torch.old.ordinals import distributed, get_ordinal, xrt_world_size

REDUCE_SUM, REDUCE_MUL, REDUCE_MIN, REDUCE_MAX, REDUCE_AND, REDUCE_OR = "sum", "mul", "min", "max", "and", "or"
_OPS = {REDUCE_SUM: "SUM", REDUCE_MUL: "PRODUCT", REDUCE_MIN: "MIN", REDUCE_MAX: "MAX", REDUCE_AND: "BAND", REDUCE_OR: "BOR"}


def _op(reduce_type, caller):
    if reduce_type not in _OPS:
        raise ValueError(f"{caller}: found {reduce_type!r}, expected one of {sorted(_OPS)}")
    return getattr(dist.ReduceOp, _OPS[reduce_type])


def _listed(value, output, caller):
    """As lists, and whether they were."""
    if isinstance(value, torch.Tensor):
        return [value], [output], False
    if not isinstance(value, (list, tuple)) or not all(isinstance(v, torch.Tensor) for v in value):
        raise TypeError(f"{caller}: found {type(value).__name__}, expected a tensor or a list of tensors")
    if output is not None and len(output) != len(value):
        raise ValueError(f"{caller}: found {len(output)} outputs, expected {len(value)}, one for each input")
    return list(value), [None] * len(value) if output is None else list(output), True


def _given(found, outputs, was_list):
    found = [f if o is None else o.copy_(f) for f, o in zip(found, outputs)]
    return found if was_list else found[0]


@torch.no_grad()
def all_reduce(reduce_type, inputs, scale=1.0, groups=None, cctx=None, pin_layout=True):
    """A new tensor for one; a list is reduced in place, as one message of each dtype, and comes back."""
    op, group = _op(reduce_type, "all_reduce"), replica.mine(groups)[1]
    if isinstance(inputs, torch.Tensor):
        return _reduced([inputs.clone()], op, scale, group)[0]
    by_dtype = {}
    for t in inputs:
        by_dtype.setdefault((t.dtype, t.device), []).append(t)
    for same in by_dtype.values():
        _reduced(same, op, scale, group)
    return inputs


def _reduced(tensors, op, scale, group):
    """Of one dtype, in place."""
    alone = len(tensors) == 1 and tensors[0].is_contiguous()
    flat = tensors[0] if alone else torch.cat([t.reshape(-1) for t in tensors])
    if distributed():
        dist.all_reduce(flat, op, group=group)
    if scale != 1.0:
        flat.mul_(scale)
    if not alone:
        for t, part in zip(tensors, flat.split([t.numel() for t in tensors])):
            t.copy_(part.view_as(t))
    return tensors


@torch.no_grad()
def all_gather(value, dim=0, groups=None, output=None, pin_layout=True, channel_id=None, use_global_device_ids=None):
    """The ranks' values one after the other along a dim."""
    ranks, group = replica.mine(groups)
    values, outputs, was_list = _listed(value, output, "all_gather")
    return _given([_gathered(v, dim, len(ranks), group) for v in values], outputs, was_list)


def _gathered(value, dim, count, group):
    if not distributed():
        return value.clone()
    whole = torch.empty((count, *value.shape), dtype=value.dtype, device=value.device)
    dist.all_gather_single(whole, value.contiguous()[None], group=group)
    if value.dim() == 0:
        return whole
    return whole.flatten(0, 1) if dim == 0 else torch.cat(whole.unbind(), dim)


@torch.no_grad()
def reduce_scatter(reduce_type, input, scale, scatter_dim, shard_count, groups=None, output=None, cctx=None, pin_layout=True,
                   channel_id=None, use_global_device_ids=None):  # fmt: skip
    """This rank's part of the sum over the ranks, along a dim."""
    op, (ranks, group) = _op(reduce_type, "reduce_scatter"), replica.mine(groups)
    if shard_count != len(ranks):
        raise ValueError(f"reduce_scatter: found shard_count={shard_count}, expected the number of ranks, {len(ranks)}")
    inputs, outputs, was_list = _listed(input, output, "reduce_scatter")
    return _given([_scattered(t, op, scale, scatter_dim, shard_count, group) for t in inputs], outputs, was_list)


def _scattered(value, op, scale, dim, count, group):
    _check_even(value, dim, count, "reduce_scatter")
    parts = torch.stack(value.chunk(count, dim))
    part = torch.empty_like(parts[0])
    if distributed():
        dist.reduce_scatter_single(part[None], parts, op, group=group)
    else:
        part = parts[0]
    return part.mul_(scale) if scale != 1.0 else part


def _check_even(value, dim, count, caller):
    if value.size(dim) % count:
        raise ValueError(f"{caller}: found dim {dim} of {list(value.shape)}, expected a multiple of {count}, the number of ranks")


@torch.no_grad()
def all_to_all(value, split_dimension, concat_dimension, split_count, groups=None, pin_layout=True):
    """Part i of the split goes to rank i; what comes is joined in the order of the ranks."""
    ranks, group = replica.mine(groups)
    if split_count != len(ranks):
        raise ValueError(f"all_to_all: found split_count={split_count}, expected the number of ranks, {len(ranks)}")
    _check_even(value, split_dimension, split_count, "all_to_all")
    parts = torch.stack(value.chunk(split_count, split_dimension))
    if distributed():
        found = torch.empty_like(parts)
        dist.all_to_all_single(found, parts, group=group)
        parts = found
    return torch.cat(parts.unbind(), concat_dimension)


@torch.no_grad()
def collective_permute(value, pairs):
    """What the rank that is paired with this one has; zeros where there is none."""
    me, value, found = get_ordinal(), value.contiguous(), torch.zeros_like(value, memory_format=torch.contiguous_format)
    for at, side in ((0, "source"), (1, "target")):
        if len({p[at] for p in pairs}) != len(pairs):
            raise ValueError(f"collective_permute: found pairs {pairs}, expected each rank at most once as a {side}")
    work = []
    for source, target in pairs:
        if source == target == me:
            found.copy_(value)
        elif source == me:
            work.append(dist.isend(value, target))
        elif target == me:
            work.append(dist.irecv(found, source))
    for w in work:
        w.wait()
    return found


@torch.no_grad()
def collective_broadcast(tensors, root_ordinal=0, groups=None, pin_layout=True):
    """In place; with groups the root's own group gets its values, the others zeros, as they are a sum."""
    ranks, group = replica.mine(groups)
    for t in tensors if distributed() else ():
        if root_ordinal in ranks:
            dist.broadcast(t.data, root_ordinal, group=group)
        else:
            t.zero_()


class CoalescingBuckets:
    """Calls a function of (inputs, outputs) with so many tensors at once as fill a bucket."""

    def __init__(self, func, input_list, output_list=None, bucket_cap_mb=160):
        inputs, outputs, was_list = _listed(input_list, output_list, "bucketized")
        if not was_list:
            raise TypeError("bucketized: found a tensor, expected a list of tensors")
        self._func, self._pairs, self._cap = func, list(zip(inputs, outputs)), bucket_cap_mb * 2**20

    def __call__(self):
        found, bucket, total = [], [], 0
        for pair in self._pairs:
            size = pair[0].nbytes
            joins = size > self._cap and total < 0.5 * self._cap and total + size <= 2 * self._cap  # a large one ends a small bucket
            if total + size > self._cap and not joins:
                found += self._flushed(bucket)
                bucket, total = [], 0
            bucket.append(pair)
            total += size
            if joins:
                found += self._flushed(bucket)
                bucket, total = [], 0
        return found + self._flushed(bucket)

    def _flushed(self, bucket):
        if not bucket:
            return []
        inputs, outputs = map(list, zip(*bucket))
        return self._func(inputs, None if outputs[0] is None else outputs)


def all_gather_bucketized(input_list, dim=0, groups=None, output=None, pin_layout=False, bucket_cap_mb=160):
    return CoalescingBuckets(lambda i, o: all_gather(i, dim, groups, o, pin_layout), input_list, output, bucket_cap_mb)()


def reduce_scatter_bucketized(reduce_type, input_list, scale, scatter_dim, shard_count, groups=None, output=None, pin_layout=False, bucket_cap_mb=160):
    def scattered(inputs, outputs):
        return reduce_scatter(reduce_type, inputs, scale, scatter_dim, shard_count, groups, outputs, pin_layout=pin_layout)

    return CoalescingBuckets(scattered, input_list, output, bucket_cap_mb)()


# gradients


def _fetch_gradients(optimizer):
    return [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]


def all_reduce_bucketized_gradients(gradients, scale=1.0, groups=None, pin_layout=True, bucket_cap_mb=0):
    """In place: a message as soon as a bucket is full."""
    bucket, total = [], 0
    for g in gradients:
        if bucket and total + g.nbytes > bucket_cap_mb * 2**20:
            all_reduce(REDUCE_SUM, bucket, scale, groups)
            bucket, total = [], 0
        bucket.append(g)
        total += g.nbytes
    if bucket:
        all_reduce(REDUCE_SUM, bucket, scale, groups)


def reduce_gradients(optimizer, groups=None, pin_layout=True):
    """Averaged over the ranks. ALLREDUCE_GRADIENTS_BUCKET_SIZE_MB makes buckets, those of the last layers first."""
    count = len(groups[0]) if groups else xrt_world_size()
    if count == 1:
        return
    gradients, cap = _fetch_gradients(optimizer), int(os.environ.get("ALLREDUCE_GRADIENTS_BUCKET_SIZE_MB", 0))
    if cap > 0:
        all_reduce_bucketized_gradients(list(reversed(gradients)), 1.0 / count, groups, pin_layout, cap)
    else:
        all_reduce(REDUCE_SUM, gradients, 1.0 / count, groups)


def bucketized_reduce_gradients(optimizer, groups=None, pin_layout=True):
    count = len(groups[0]) if groups else xrt_world_size()
    if count > 1:
        cap = int(os.environ.get("ALLREDUCE_GRADIENTS_BUCKET_SIZE_MB", 50))
        all_reduce_bucketized_gradients(list(reversed(_fetch_gradients(optimizer))), 1.0 / count, groups, pin_layout, cap)
