"""neuronx_distributed.modules.moe.moe_parallel_layers: a layer of all experts as one weight, cut over experts (EP) and widths (TP)."""

import torch
from torch import nn

from neuronx_distributed.parallel_layers import parallel_state
from neuronx_distributed.parallel_layers.layers import BaseParallelLayer, ColumnParallelLinear, RowParallelLinear, create_local_weight
from neuronx_distributed.parallel_layers.utils import divide, set_tensor_model_parallel_attributes


class ExpertFusedLinear(BaseParallelLayer):
    """(experts, tokens, inputs) -> (experts, tokens, outputs)."""

    dim = None  # of (experts, inputs, outputs), which is cut over tensor parallel ranks

    def __init__(self, num_experts, input_size, output_size, dtype=torch.float32, device=None, stride=1, init_method=None, bias=False,
                 tensor_model_parallel_group=None):  # fmt: skip
        BaseParallelLayer.__init__(self, device, tensor_model_parallel_group)
        ep, self.num_experts, self.input_size, self.output_size = parallel_state.get_expert_model_parallel_size(), num_experts, input_size, output_size
        self.stride, self.dtype, self.init_method = stride, dtype, init_method or nn.init.kaiming_uniform_
        self._local = divide(num_experts, ep)
        is_meta = device is not None and torch.device(device).type == "meta"
        self.weight = nn.Parameter(torch.empty(self._local_shape(), dtype=dtype, device="meta") if is_meta else self._draw()[0].to(dtype).to(device))
        set_tensor_model_parallel_attributes(self.weight, True, self.dim, stride, self.world_size)
        self.weight.expert_model_parallel = ep > 1
        self.register_parameter("bias", None)
        if bias:
            width = divide(output_size, self.world_size) if self.dim == 2 else output_size
            self.bias = nn.Parameter(torch.zeros(self._local, width, dtype=dtype, device=device))
            set_tensor_model_parallel_attributes(self.bias, self.dim == 2, 1, stride)
            self.bias.expert_model_parallel = ep > 1

    def _local_shape(self):
        shape = [self._local, self.input_size, self.output_size]
        shape[self.dim] = divide(shape[self.dim], self.world_size)
        return shape

    def _draw(self):
        """(this rank's part of the weight, the whole of it); each expert is initialised as a matrix (outputs, inputs)."""
        whole = torch.empty(self.num_experts, self.input_size, self.output_size)
        with torch.no_grad():
            for expert in whole:
                drawn = torch.empty(expert.T.shape)
                self.init_method(drawn)
                expert.copy_(drawn.T)
        mine = whole.split(self._local)[parallel_state.get_expert_model_parallel_rank()]
        return create_local_weight(mine, self.dim, self._local_shape()[self.dim], self.stride, self.rank, self.world_size), whole

    def forward(self, x, *_):
        out = torch.bmm(x, self.weight)
        return out if self.bias is None else out + self.bias[:, None]

    def preshard_hook(self, model_state_dict, prefix):
        """Experts' weights are cut as they are."""


class ExpertFusedColumnParallelLinear(ExpertFusedLinear, ColumnParallelLinear):
    dim = 2


class ExpertFusedRowParallelLinear(ExpertFusedLinear, RowParallelLinear):
    dim = 1
