"""neuronx_distributed.parallel_layers.layers: linear layers and embeddings whose weights are cut over the tensor parallel ranks.

Weights are drawn whole and then cut, so that a seed gives the same model on any number of ranks. Sums go in `reduce_dtype`.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.parameter import Parameter

from neuronx_distributed.parallel_layers import mappings, parallel_state
from neuronx_distributed.parallel_layers.utils import divide, get_padding_length, set_tensor_model_parallel_attributes


def create_local_weight(full_weight, partition_dim, per_partition_size, stride, rank=None, world_size=None, rank_ordering=None):
    """This rank's part: of a stride of n, every n-th of n times as many pieces."""
    rank = parallel_state.get_tensor_model_parallel_rank() if rank is None else rank
    world_size = world_size or parallel_state.get_tensor_model_parallel_size()
    if rank_ordering is not None:
        rank = list(rank_ordering).index(rank)
    pieces = full_weight.split(divide(per_partition_size, stride), partition_dim)
    return torch.cat(pieces[rank::world_size], partition_dim).contiguous()


def _kaiming(weight):
    nn.init.kaiming_uniform_(weight, a=math.sqrt(5))


class BaseParallelLayer(nn.Module):
    def __init__(self, device=None, group=None):
        super().__init__()
        self.device = device
        self.tensor_parallel_group = group if group is not None else parallel_state.get_tensor_model_parallel_group()
        self.world_size, self.rank = self.tensor_parallel_group.size(), self.tensor_parallel_group.rank()

    def _part(self, shape, dim, init_method, dtype, stride=1, ordering=None):
        """A parameter that is a part along a dim of one of a shape."""
        self._cut = (list(shape), dim, init_method, stride, ordering)
        if self.device is not None and torch.device(self.device).type == "meta":
            local = list(shape)
            local[dim] = divide(shape[dim], self.world_size)
            weight, self._whole = torch.empty(local, dtype=dtype, device="meta"), None
        else:
            weight, self._whole = self._draw()
            weight = weight.to(dtype).to(self.device)
        weight = Parameter(weight)
        set_tensor_model_parallel_attributes(weight, True, dim, stride, self.world_size, ordering)
        return weight

    def _draw(self):
        """(this rank's part of the weight, the whole of it)"""
        shape, dim, init_method, stride, ordering = self._cut
        whole = torch.empty(shape, dtype=torch.float32)
        with torch.no_grad():
            init_method(whole)
        return create_local_weight(whole, dim, divide(shape[dim], self.world_size), stride, self.rank, self.world_size, ordering), whole

    def init_weight_cpu(self):
        """Draws the weight anew: what a param_init_fn calls once a layer of the meta device has memory."""
        part, whole = self._draw()
        with torch.no_grad():
            self.weight.copy_(part)
        if getattr(self, "keep_master_weight", False):
            self.master_weight = whole

    def preshard_hook(self, model_state_dict, prefix):
        """Changes a checkpoint's whole weights before they are cut."""


class ParallelEmbedding(BaseParallelLayer):
    """Cut over the vocabulary, or over the width of its vectors. With sequence parallel ranks (batch, sequence) becomes
    (part of the sequence, batch, width)."""

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False,
                 init_method=nn.init.normal_, device=None, dtype=torch.float32, shard_across_embedding=False, pad=False,
                 sequence_parallel_enabled=False, tensor_model_parallel_group=None, use_spmd_rank=False, sequence_dimension=None, tile_cc=False,
                 rank_ordering=None, collect_output=True):  # fmt: skip
        super().__init__(device, tensor_model_parallel_group)
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse = max_norm, norm_type, scale_grad_by_freq, sparse
        self.shard_across_embedding, self.sequence_parallel_enabled = shard_across_embedding, sequence_parallel_enabled
        self.sequence_dim, self.collect_output = sequence_dimension, collect_output
        dim = 1 if shard_across_embedding else 0
        shape = [num_embeddings, embedding_dim]
        self.pad_size = get_padding_length(shape[dim], self.world_size) if pad else 0
        shape[dim] += self.pad_size
        self.weight = self._part(shape, dim, init_method, dtype, ordering=rank_ordering)
        rank = self.rank if rank_ordering is None else list(rank_ordering).index(self.rank)
        self.start_index, self.end_index = rank * self.weight.size(0), (rank + 1) * self.weight.size(0)

    def _looked_up(self, index, padding):
        return F.embedding(index, self.weight, padding, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse)

    def forward(self, input_):
        group = self.tensor_parallel_group
        if self.shard_across_embedding:
            out = self._looked_up(input_, self.padding_idx)
            return mappings.gather_from_tensor_model_parallel_region(out, group)[..., : self.embedding_dim] if self.collect_output else out
        if self.world_size == 1:
            out = self._looked_up(input_, self.padding_idx)
            return out.transpose(0, 1).contiguous() if self.sequence_parallel_enabled and not self.sequence_dim else out
        outside = (input_ < self.start_index) | (input_ >= self.end_index)
        out = self._looked_up((input_ - self.start_index).masked_fill(outside, 0), None)
        out = out.masked_fill(outside[..., None], 0.0)
        if self.padding_idx is not None:  # its gradient is zero
            out = torch.where((input_ == self.padding_idx)[..., None], out.detach(), out)
        if not self.collect_output or (self.sequence_parallel_enabled and self.sequence_dim):
            return out  # a part of the sum, for who scatters it along another dim
        if self.sequence_parallel_enabled:
            return mappings.reduce_scatter_to_sequence_parallel_region(out.transpose(0, 1).contiguous(), 0, group)
        return mappings.reduce_from_tensor_model_parallel_region(out, group)


class BaseParallelLinear(BaseParallelLayer):
    def _biases(self, count, bound_by, dtype):
        """Drawn as torch's, whole."""
        bias = torch.empty(count, dtype=torch.float32)
        if self.device is not None and torch.device(self.device).type == "meta":
            return bias.to("meta")
        bound = 1 / math.sqrt(bound_by) if bound_by > 0 else 0
        return nn.init.uniform_(bias, -bound, bound).to(dtype)

    def _gradient_of_input(self, x):
        """What enters a layer that is cut over its outputs: gradients are summed."""
        if self.sequence_parallel_enabled:
            return mappings.gather_from_sequence_parallel_region(x, self.sequence_dim, process_group=self.tensor_parallel_group)
        group, to = self.tensor_parallel_group, self.reduce_dtype
        return mappings._Map.apply(x, mappings._same, lambda g: mappings._reduce(g.to(to), process_group=group).to(g.dtype)) if group.size() > 1 else x

    def _summed(self, x):
        """What leaves a layer that is cut over its inputs."""
        group, to = self.tensor_parallel_group, self.reduce_dtype
        if self.sequence_parallel_enabled:
            return mappings.reduce_scatter_to_sequence_parallel_region(x, self.sequence_dim, group, to)
        return mappings.reduce_from_tensor_model_parallel_region(x.to(to), group).to(x.dtype) if group.size() > 1 else x


class ColumnParallelLinear(BaseParallelLinear):
    """Cut over its outputs."""

    def __init__(self, input_size, output_size, bias=True, gather_output=True, dtype=torch.float32, device=None, stride=1, init_method=None,
                 sequence_parallel_enabled=False, sequence_dimension=None, keep_master_weight=False, skip_bias_add=False, pad=False,
                 pad_alignment_size_per_rank=1, keep_padded_output=False, tensor_model_parallel_group=None, reduce_dtype=torch.float32,
                 rank_ordering=None):  # fmt: skip
        super().__init__(device, tensor_model_parallel_group)
        if sequence_parallel_enabled and gather_output:
            raise ValueError("ColumnParallelLinear: found gather_output=True with sequence_parallel_enabled=True, expected gather_output=False")
        self.input_size, self.gather_output, self.stride, self.dtype = input_size, gather_output, stride, dtype
        self.sequence_parallel_enabled, self.sequence_dim = sequence_parallel_enabled, sequence_dimension or 0
        self.skip_bias_add, self.keep_padded_output, self.reduce_dtype = skip_bias_add, keep_padded_output, reduce_dtype
        self.pad, self.pad_size = pad, get_padding_length(output_size, self.world_size * pad_alignment_size_per_rank) if pad else 0
        self.output_size = output_size + self.pad_size
        self.output_size_per_partition = divide(self.output_size, self.world_size)
        self.weight = self._part([self.output_size, input_size], 0, init_method or _kaiming, dtype, stride, rank_ordering)
        self.keep_master_weight, self.master_weight = keep_master_weight, self._whole if keep_master_weight else None
        del self._whole
        if not bias:
            self.register_parameter("bias", None)
            return
        whole = self._biases(self.output_size, input_size, dtype)
        if not gather_output and whole.device.type != "meta":
            whole = create_local_weight(whole, 0, self.output_size_per_partition, stride, self.rank, self.world_size, rank_ordering)
        elif not gather_output:
            whole = whole[: self.output_size_per_partition]
        self.bias = Parameter(whole.to(dtype).to(device))
        set_tensor_model_parallel_attributes(self.bias, not gather_output, 0, stride, self.world_size if not gather_output else 1)

    def forward(self, input, *_):
        out = F.linear(self._gradient_of_input(input), self.weight)
        if self.gather_output:
            out = mappings.gather_from_tensor_model_parallel_region(out, self.tensor_parallel_group)
        if self.bias is not None and not self.skip_bias_add:
            out = out + self.bias
        if self.gather_output and self.pad_size and not self.keep_padded_output:
            out = out[..., : self.output_size - self.pad_size]
        return (out, self.bias) if self.skip_bias_add else out

    def preshard_hook(self, model_state_dict, prefix):
        """A checkpoint's weight is padded as the layer is."""
        for name, sizes in (("weight", (0, 0, 0, self.pad_size)), ("bias", (0, self.pad_size))):
            key = prefix if prefix.endswith(name) else f"{prefix.rsplit('.', 1)[0]}.{name}"
            if self.pad_size and prefix.endswith("weight") and key in model_state_dict and model_state_dict[key].size(0) != self.output_size:
                model_state_dict[key] = F.pad(model_state_dict[key], sizes)


class RowParallelLinear(BaseParallelLinear):
    """Cut over its inputs; the bias is whole, and added once."""

    def __init__(self, input_size, output_size, bias=True, input_is_parallel=False, dtype=torch.float32, device=None, stride=1, init_method=None,
                 sequence_parallel_enabled=False, sequence_dimension=None, keep_master_weight=False, skip_bias_add=False, pad=False,
                 reduce_output=True, tensor_model_parallel_group=None, reduce_dtype=torch.float32, tile_cc=False, rank_ordering=None):  # fmt: skip
        super().__init__(device, tensor_model_parallel_group)
        if sequence_parallel_enabled and not input_is_parallel:
            raise ValueError("RowParallelLinear: found input_is_parallel=False with sequence_parallel_enabled=True, expected input_is_parallel=True")
        self.output_size, self.input_is_parallel, self.stride, self.dtype = output_size, input_is_parallel, stride, dtype
        self.sequence_parallel_enabled, self.sequence_dim = sequence_parallel_enabled, sequence_dimension or 0
        self.skip_bias_add, self.reduce_output, self.reduce_dtype = skip_bias_add, reduce_output, reduce_dtype
        self.pad, self.pad_size = pad, get_padding_length(input_size, self.world_size) if pad else 0
        self.input_size = input_size + self.pad_size
        self.input_size_per_partition = divide(self.input_size, self.world_size)
        self.weight = self._part([output_size, self.input_size], 1, init_method or _kaiming, dtype, stride, rank_ordering)
        self.keep_master_weight, self.master_weight = keep_master_weight, self._whole if keep_master_weight else None
        del self._whole
        if not bias:
            self.register_parameter("bias", None)
            return
        self.bias = Parameter(self._biases(output_size, input_size, dtype).to(dtype).to(device))
        self.bias.sequence_parallel_enabled = sequence_parallel_enabled  # each rank sees a part of the sequence

    def forward(self, input_, *_):
        if not self.input_is_parallel:
            if self.pad_size:
                input_ = F.pad(input_, (0, self.pad_size))
            input_ = mappings.scatter_to_tensor_model_parallel_region(input_, self.tensor_parallel_group)
        out = F.linear(input_, self.weight)
        if self.reduce_output:
            out = self._summed(out)
        if self.skip_bias_add:
            return out, self.bias
        return out if self.bias is None else out + self.bias

    def preshard_hook(self, model_state_dict, prefix):
        if self.pad_size and prefix.endswith("weight") and model_state_dict[prefix].size(1) != self.input_size:
            model_state_dict[prefix] = F.pad(model_state_dict[prefix], (0, self.pad_size))


class SPMDRank(BaseParallelLayer):
    """The rank as a tensor, so that ranks share one program."""

    def __init__(self, world_size, tensor_model_parallel_size=None):
        super().__init__()
        self.rank = Parameter(torch.tensor([self.tensor_parallel_group.rank() % world_size], dtype=torch.int32), requires_grad=False)
        set_tensor_model_parallel_attributes(self.rank, True, 0, 1, world_size)

    def forward(self):
        return self.rank

    get_rank = forward

from neuronx_distributed.parallel_layers.conv import InputChannelParallelConv2d, OutputChannelParallelConv2d  # noqa: E402, F401 - NxD has them here
