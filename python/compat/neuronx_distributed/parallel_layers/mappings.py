"""neuronx_distributed.parallel_layers.mappings: ways into and out of parallel regions, each with its gradient.

copy <-> sum; sum <-> copy; part <-> whole along a dim; whole <-> summed part (sequence parallel); all-to-all both ways (experts).
"""

import torch
import torch.distributed as dist
from torch.autograd import Function

from neuronx_distributed.parallel_layers import parallel_state

_OPS = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}


def _tp(group):
    return group if group is not None else parallel_state.get_tensor_model_parallel_group()


def _reduce(x, computation="sum", process_group=None):
    """A sum over the group, as a new tensor."""
    group = _tp(process_group)
    if group.size() == 1:
        return x
    x = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(x, _OPS[computation], group=group)
    return x


def _split_along_dim(x, partition_dim, process_group=None):
    group = _tp(process_group)
    n = group.size()
    if x.size(partition_dim) % n:
        raise ValueError(f"scatter: found dim {partition_dim} of {list(x.shape)}, expected a multiple of {n}, the size of the group")
    return x.chunk(n, partition_dim)[group.rank()].contiguous()


def _gather_along_dim(x, partition_dim, process_group=None, tile_cc=False):
    group = _tp(process_group)
    if group.size() == 1:
        return x
    whole = torch.empty((group.size(), *x.shape), dtype=x.dtype, device=x.device)
    dist.all_gather_single(whole, x.contiguous()[None], group=group)
    return torch.cat(whole.unbind(), partition_dim)


def _reduce_scatter_along_dim(x, partition_dim, computation="sum", process_group=None, dtype=None, tile_cc=False):
    group = _tp(process_group)
    n = group.size()
    if n == 1:
        return x
    if x.size(partition_dim) % n:
        raise ValueError(f"reduce-scatter: found dim {partition_dim} of {list(x.shape)}, expected a multiple of {n}, the size of the group")
    parts = torch.stack(x.to(dtype or x.dtype).chunk(n, partition_dim))
    out = torch.empty_like(parts[0])
    dist.reduce_scatter_single(out[None], parts, _OPS[computation], group=group)
    return out.to(x.dtype)


def _all_to_all(x, split_dim, concat_dim, group):
    n = group.size()
    if n == 1:
        return x
    parts = torch.stack(x.chunk(n, split_dim))
    out = torch.empty_like(parts)
    dist.all_to_all_single(out, parts, group=group)
    return torch.cat(out.unbind(), concat_dim)


def _split_along_last_dim(x, process_group=None):
    return _split_along_dim(x, -1, process_group)


def _split_along_first_dim(x, process_group=None):
    return _split_along_dim(x, 0, process_group)


def _gather_along_first_dim(x, process_group=None):
    return _gather_along_dim(x, 0, process_group)


def _gather_along_last_dim(x, process_group=None):
    return _gather_along_dim(x, -1, process_group)


def _reduce_scatter_along_first_dim(x, computation="sum", process_group=None):
    return _reduce_scatter_along_dim(x, 0, computation, process_group)


def _reduce_scatter_along_last_dim(x, computation="sum", process_group=None):
    return _reduce_scatter_along_dim(x, -1, computation, process_group)


class _Map(Function):
    """One function forward and another backward, both of a tensor."""

    @staticmethod
    def forward(ctx, x, there, back):
        ctx.back = back
        return there(x)

    @staticmethod
    def backward(ctx, grad):
        return ctx.back(grad), None, None


def _same(x):
    return x.view_as(x)


def copy_to_tensor_model_parallel_region(input_, process_group=None):
    return _Map.apply(input_, _same, lambda g: _reduce(g, process_group=process_group))


def reduce_from_tensor_model_parallel_region(input_, process_group=None):
    return _Map.apply(input_, lambda x: _same(_reduce(x, process_group=process_group)), lambda g: g)


def reduce_from_context_model_parallel_region(input_, process_group=None):
    """The mean of losses over a context's ranks, for reports: the gradient stays each rank's own."""
    return reduce_from_tensor_model_parallel_region(input_, process_group or parallel_state.get_context_model_parallel_group())


def scatter_to_tensor_model_parallel_region(input_, process_group=None):
    return _Map.apply(input_, lambda x: _split_along_dim(x, -1, process_group), lambda g: _gather_along_dim(g, -1, process_group))


def scatter_input_channels_to_tensor_model_parallel_region(input_):
    return _Map.apply(input_, lambda x: _split_along_dim(x, 1), lambda g: _gather_along_dim(g, 1))


def gather_from_tensor_model_parallel_region(input_, process_group=None):
    return gather_from_tensor_model_parallel_region_with_dim(input_, -1, process_group)


def gather_from_tensor_model_parallel_region_with_dim(input_, gather_dim, process_group=None):
    return _Map.apply(input_, lambda x: _same(_gather_along_dim(x, gather_dim, process_group)), lambda g: _split_along_dim(g, gather_dim, process_group))


def scatter_to_sequence_parallel_region(input_, sequence_dimension=0, process_group=None):
    return _Map.apply(input_, lambda x: _split_along_dim(x, sequence_dimension, process_group),
                      lambda g: _gather_along_dim(g, sequence_dimension, process_group))  # fmt: skip


def gather_from_sequence_parallel_region(input_, sequence_dimension=0, to_model_parallel=True, process_group=None, tile_cc=False):
    """Into a tensor parallel region the gradient is summed; else each rank's gradient is the whole one, and is cut."""

    def back(g):
        return (_reduce_scatter_along_dim if to_model_parallel else _split_along_dim)(g, sequence_dimension, process_group=process_group)

    return _Map.apply(input_, lambda x: _same(_gather_along_dim(x, sequence_dimension, process_group)), back)


def reduce_scatter_to_sequence_parallel_region(input_, sequence_dimension=0, process_group=None, dtype=None, tile_cc=False):
    return reduce_scatter_to_tensor_model_parallel_region_with_dim(input_, sequence_dimension, process_group, dtype)


def reduce_scatter_to_tensor_model_parallel_region_with_dim(input_, partition_dim, process_group=None, dtype=None):
    return _Map.apply(input_, lambda x: _same(_reduce_scatter_along_dim(x, partition_dim, process_group=process_group, dtype=dtype)),
                      lambda g: _gather_along_dim(g, partition_dim, process_group))  # fmt: skip


def enter_expert_parallel_region(x, scatter_gather=False):
    """(experts, capacity, width) of this rank's tokens -> (experts of this rank, all ranks' capacity, width)."""
    group = parallel_state.get_expert_model_parallel_group()
    if scatter_gather:
        x = scatter_to_tensor_model_parallel_region(x)
    x = _Map.apply(x, lambda v: _same(_all_to_all(v, 0, 1, group)), lambda g: _all_to_all(g, 1, 0, group))
    return gather_from_tensor_model_parallel_region(x) if scatter_gather else x


def exit_expert_parallel_region(x, scatter_gather=False):
    """The way back of enter_expert_parallel_region."""
    group = parallel_state.get_expert_model_parallel_group()
    if scatter_gather:
        x = scatter_to_tensor_model_parallel_region(x)
    x = _Map.apply(x, lambda v: _same(_all_to_all(v, 1, 0, group)), lambda g: _all_to_all(g, 0, 1, group))
    return gather_from_tensor_model_parallel_region(x) if scatter_gather else x


def scatter_to_process_group_spmd(x, partition_dim, rank, process_group=None):
    """The part of a rank that is a tensor, so that one program serves all."""
    group = _tp(process_group)
    size = x.size(partition_dim) // group.size()
    index = torch.arange(size, device=x.device) + rank.reshape(()).to(x.device) * size
    return _Map.apply(x, lambda v: v.index_select(partition_dim, index), lambda g: _gather_along_dim(g, partition_dim, group))
