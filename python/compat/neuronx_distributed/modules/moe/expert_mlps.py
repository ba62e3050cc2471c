"""neuronx_distributed.modules.moe.expert_mlps: all experts' layers as one weight each, cut over experts (EP) and widths (TP).

Without a capacity no token is dropped. With one, an expert takes the first so many tokens that chose it; shapes are then static.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from neuronx_distributed.modules.moe.moe_parallel_layers import ExpertFusedColumnParallelLinear, ExpertFusedRowParallelLinear
from neuronx_distributed.parallel_layers import mappings, parallel_state

ACT2FN = {"gelu": F.gelu, "leaky_relu": F.leaky_relu, "relu": F.relu, "sigmoid": torch.sigmoid, "silu": F.silu, "swish": F.silu, "tanh": torch.tanh}


class Experts(nn.Module):
    def __init__(self, num_experts, hidden_size, intermediate_size, glu, activation_fn, dtype, device, bias, input_init, output_init):
        super().__init__()
        self._glu, self._act = glu, activation_fn
        parts = 2 if glu else 1
        wide = ExpertFusedColumnParallelLinear(num_experts, hidden_size, intermediate_size * parts, dtype, device, parts, input_init, bias)
        self.add_module("gate_up_proj" if glu else "up_proj", wide)
        self.down_proj = ExpertFusedRowParallelLinear(num_experts, intermediate_size, hidden_size, dtype=dtype, device=device, init_method=output_init, bias=bias)

    def forward(self, x):
        if self._glu:
            gate, up = self.gate_up_proj(x).chunk(2, -1)
            return self.down_proj(self._act(gate) * up)
        return self.down_proj(self._act(self.up_proj(x)))


class ExpertMLPs(nn.Module):
    def __init__(self, num_experts, top_k, hidden_size, intermediate_size, hidden_act, glu_mlp, capacity_factor, sequence_parallel_enabled=False,
                 block_size=None, normalize_top_k_affinities=False, bias=False, return_bias=False, init_method=nn.init.kaiming_uniform_,
                 output_layer_init_method=nn.init.kaiming_uniform_, dtype=torch.float32, device=None, **_):  # fmt: skip
        super().__init__()
        if hidden_act not in ACT2FN:
            raise ValueError(f"ExpertMLPs: found hidden_act={hidden_act!r}, expected one of {sorted(ACT2FN)}")
        if bias and parallel_state.get_tensor_model_parallel_size() > 1:
            raise NotImplementedError("ExpertMLPs: found bias=True with tensor parallel ranks, expected bias=False")
        self.num_experts, self.top_k, self.capacity_factor, self.normalize = num_experts, top_k, capacity_factor, normalize_top_k_affinities
        self.sequence_parallel_enabled, self.return_bias = sequence_parallel_enabled, return_bias
        self.mlp_op = Experts(num_experts, hidden_size, intermediate_size, glu_mlp, ACT2FN[hidden_act], dtype, device, bias, init_method, output_layer_init_method)

    def forward(self, hidden_states, expert_affinities, expert_index, seq_len=None):
        """(tokens, width): a part of the sum over the tensor parallel ranks."""
        mask = F.one_hot(expert_index, self.num_experts).sum(1).to(expert_affinities.dtype)
        tokens = hidden_states.size(0)
        if self.capacity_factor is None and parallel_state.get_expert_model_parallel_size() == 1:
            weights = self._weights(expert_affinities, mask)
            out = self.mlp_op(hidden_states[None].expand(self.num_experts, -1, -1))
            return torch.einsum("eth,te->th", out, weights)
        capacity = tokens if self.capacity_factor is None else min(tokens, math.ceil(tokens * self.top_k * self.capacity_factor / self.num_experts))
        order = mask.float().cumsum(0) * mask  # from 1: which of an expert's tokens it is
        mask = mask * (order <= capacity)
        weights = self._weights(expert_affinities, mask)
        slot = (order.long() - 1).clamp(min=0, max=capacity - 1)  # (tokens, experts)
        rows = torch.zeros(self.num_experts, capacity, dtype=torch.long, device=hidden_states.device)
        numbers = torch.arange(tokens, device=hidden_states.device)[:, None].expand_as(slot) + 1
        rows = rows.scatter_reduce(1, slot.T, (numbers * mask.long()).T, "amax")  # 0: empty
        given = hidden_states[(rows - 1).clamp(min=0)] * (rows > 0)[..., None].to(hidden_states.dtype)
        out = mappings.exit_expert_parallel_region(self.mlp_op(mappings.enter_expert_parallel_region(given)))
        chosen = out.gather(1, slot.T[..., None].expand(-1, -1, out.size(-1)))  # (experts, tokens, width)
        return torch.einsum("eth,te->th", chosen, weights)

    def _weights(self, affinities, mask):
        found = affinities * mask
        return F.normalize(found, p=1.0, dim=1) if self.normalize else found
