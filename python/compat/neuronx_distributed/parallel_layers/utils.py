"""neuronx_distributed.parallel_layers.utils: what a parameter of a parallel layer knows of itself, splits, casts, moves."""

import os

import torch

_DEFAULTS = {"tensor_model_parallel": False, "partition_dim": -1, "partition_stride": 1, "num_partitions": 1, "rank_ordering": None}


def param_is_not_tensor_parallel_duplicate(param):
    from neuronx_distributed.parallel_layers import parallel_state

    return getattr(param, "tensor_model_parallel", False) or parallel_state.get_tensor_model_parallel_rank() == 0


def set_tensor_model_parallel_attributes(tensor, is_parallel, dim, stride, num_partitions=-1, rank_ordering=None):
    if num_partitions == -1:
        from neuronx_distributed.parallel_layers import parallel_state

        num_partitions = parallel_state.get_tensor_model_parallel_size() if is_parallel else 1
    for name, value in zip(_DEFAULTS, (is_parallel, dim, stride, num_partitions, rank_ordering)):
        setattr(tensor, name, value)


def set_defaults_if_not_set_tensor_model_parallel_attributes(tensor):
    for name, value in _DEFAULTS.items():
        if not hasattr(tensor, name):
            setattr(tensor, name, value)


def copy_tensor_model_parallel_attributes(destination_tensor, source_tensor):
    for name in (*_DEFAULTS, "sequence_parallel_enabled", "expert_model_parallel", "shared"):
        if hasattr(source_tensor, name):
            setattr(destination_tensor, name, getattr(source_tensor, name))


def divide(numerator, denominator):
    if numerator % denominator:
        raise ValueError(f"parallel layer: found a size of {numerator}, expected a multiple of {denominator}, or pad=True")
    return numerator // denominator


def ensure_divisibility(numerator, denominator):
    divide(numerator, denominator)


def get_padding_length(numerator, denominator):
    return -numerator % denominator


def split_tensor_along_dim(tensor, dim, num_partitions, contiguous_split_chunks=False):
    parts = tensor.split(divide(tensor.size(dim), num_partitions), dim)
    return tuple(p.contiguous() for p in parts) if contiguous_split_chunks else parts


def split_tensor_along_last_dim(tensor, num_partitions, contiguous_split_chunks=False):
    return split_tensor_along_dim(tensor, -1, num_partitions, contiguous_split_chunks)


def split_tensor_along_second_dim(tensor, num_partitions, contiguous_split_chunks=False):
    return split_tensor_along_dim(tensor, 1, num_partitions, contiguous_split_chunks)


class EmbeddingUtility:
    """Which rows of a vocabulary a rank has."""

    @staticmethod
    def range_from_per_partition_vocab_size(per_partition_vocab_size, rank, world_size=None):
        return rank * per_partition_vocab_size, (rank + 1) * per_partition_vocab_size

    @staticmethod
    def range_from_global_vocab_size(global_vocab_size, rank, world_size):
        return EmbeddingUtility.range_from_per_partition_vocab_size(divide(global_vocab_size, world_size), rank)


def is_torch_version_greater_than_2():
    return True


def is_pjrt_device():
    return True


def requires_init_pg_override():
    return True


def cast_tensor(tensor, from_dtype=torch.float32, to_dtype=torch.bfloat16):
    return tensor.to(to_dtype) if tensor.dtype == from_dtype else tensor


def cast_all(state, from_dtype=torch.float32, to_dtype=torch.bfloat16):
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: cast_tensor(t, from_dtype, to_dtype), state)


def cast_if_autocast_enabled(*args):
    if not torch.is_autocast_enabled("xla"):
        return args
    to = torch.get_autocast_dtype("xla")
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.to(to) if t.is_floating_point() else t, args)


def move_all_tensor_to_cpu(data, convert=True):
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.cpu(), data) if convert else data


def get_local_world_size():
    return int(os.environ.get("LOCAL_WORLD_SIZE", 1))


def move_model_to_device(model, device):
    from neuronx_distributed.utils.model_utils import move_model_to_device as move

    move(model, device)
