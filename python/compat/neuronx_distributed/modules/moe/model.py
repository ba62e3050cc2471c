"""neuronx_distributed.modules.moe.model: a layer of experts behind a router."""

import torch

from neuronx_distributed.modules.moe.token_shuffling import token_shuffle, token_unshuffle
from neuronx_distributed.parallel_layers import mappings, parallel_state


class MoE(torch.nn.Module):
    """forward gives a tuple: the output in the shape of the input, then router_logits and expert_index where asked for."""

    def __init__(self, router, expert_mlps, shared_experts=None, sequence_parallel_enabled=False, sequence_dimension=None, return_router_logits=False,
                 return_expert_index=False, token_shuffle_group_size=1, token_shuffle_seed=None, **_):  # fmt: skip
        super().__init__()
        for name in ("num_experts", "top_k"):
            if getattr(router, name) != getattr(expert_mlps, name):
                raise ValueError(f"MoE: found {name}={getattr(router, name)} of the router, expected {getattr(expert_mlps, name)}, that of the experts")
        self.router, self.expert_mlps, self.shared_experts = router, expert_mlps, shared_experts
        self.sequence_parallel_enabled, self.sequence_dimension = sequence_parallel_enabled, sequence_dimension or 0
        self.return_router_logits, self.return_expert_index = return_router_logits, return_expert_index
        self.shuffles = token_shuffle_group_size > 1
        if self.shuffles:
            parallel_state.initialize_token_shuffle_group(token_shuffle_group_size)

    def forward(self, hidden_states, padding_mask=None):
        given, order = hidden_states, None
        if self.shuffles:
            flat, order = token_shuffle(hidden_states.reshape(-1, hidden_states.size(-1)))
            hidden_states = flat.view_as(hidden_states)
        logits, affinities, index = self.router(hidden_states)
        if self.sequence_parallel_enabled:
            x = mappings.gather_from_sequence_parallel_region(hidden_states, self.sequence_dimension)
        else:
            x = mappings.copy_to_tensor_model_parallel_region(hidden_states)
        affinities = mappings.copy_to_tensor_model_parallel_region(affinities)  # each rank scales its part of the sum
        if padding_mask is not None:
            affinities = affinities * padding_mask.reshape(-1, 1).to(affinities.dtype)
        out = self.expert_mlps(x.reshape(-1, x.size(-1)), affinities, index, x.size(self.sequence_dimension)).view(x.shape)
        if self.sequence_parallel_enabled:
            out = mappings.reduce_scatter_to_sequence_parallel_region(out, self.sequence_dimension)
        else:
            out = mappings.reduce_from_tensor_model_parallel_region(out)
        if order is not None:
            out = token_unshuffle(out.reshape(-1, out.size(-1)), order).view_as(out)
        if self.shared_experts is not None:
            out = out + self.shared_experts(given)
        return (out, *([logits] if self.return_router_logits else []), *([index] if self.return_expert_index else []))
