"""neuronx_distributed.modules.moe.shared_experts: experts that every token goes to: one gated layer over tensor parallel ranks."""

import torch

from neuronx_distributed.modules.moe.expert_mlps import ACT2FN
from neuronx_distributed.parallel_layers.layers import ColumnParallelLinear, RowParallelLinear


class SharedExperts(torch.nn.Module):
    def __init__(self, hidden_size, intermediate_size, num_shared_experts, hidden_act, dtype=torch.float32, reduce_dtype=torch.float32,
                 sequence_parallel_enabled=False, **_):  # fmt: skip
        super().__init__()
        width, options = intermediate_size * num_shared_experts, {"bias": False, "dtype": dtype, "reduce_dtype": reduce_dtype,
                                                                  "sequence_parallel_enabled": sequence_parallel_enabled}  # fmt: skip
        self.gate_proj, self.up_proj = (ColumnParallelLinear(hidden_size, width, gather_output=False, **options) for _ in range(2))
        self.down_proj = RowParallelLinear(width, hidden_size, input_is_parallel=True, **options)
        self._act = ACT2FN[hidden_act]

    def forward(self, x):
        return self.down_proj(self._act(self.gate_proj(x)) * self.up_proj(x))
