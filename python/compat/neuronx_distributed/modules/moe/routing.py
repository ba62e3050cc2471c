"""neuronx_distributed.modules.moe.routing: which experts a token goes to, and with what weight.

forward gives (logits, affinities, index of the experts chosen) of (tokens, experts), of the whole sequence on every rank.
"""

import torch
from torch import nn

from neuronx_distributed.parallel_layers import mappings


class RouterBase(nn.Module):
    def __init__(self, num_experts, top_k, hidden_size, act_fn="softmax", sequence_parallel_enabled=False, sequence_dimension=None,
                 dtype=torch.float32, device=None, bias=False, tensor_model_parallel_group=None, jitter_eps=0.0, **_):  # fmt: skip
        super().__init__()
        if not 0 < top_k <= num_experts or act_fn not in ("softmax", "sigmoid"):
            raise ValueError(f"router: found top_k={top_k}, act_fn={act_fn!r}, expected 1 to {num_experts}, and softmax or sigmoid")
        self.num_experts, self.top_k, self.hidden_size, self.act_fn, self.jitter_eps = num_experts, top_k, hidden_size, act_fn, jitter_eps
        self.sequence_parallel_enabled, self.sequence_dimension = sequence_parallel_enabled, sequence_dimension or 0
        self.tensor_parallel_group = tensor_model_parallel_group
        self.linear_router = nn.Linear(hidden_size, num_experts, dtype=dtype, device=device, bias=bias)
        for p in self.linear_router.parameters():
            p.sequence_parallel_enabled = sequence_parallel_enabled

    def get_router_logits(self, hidden_states):
        x = hidden_states.to(self.linear_router.weight.dtype)
        if self.jitter_eps and self.training:
            x = x * torch.empty_like(x).uniform_(1 - self.jitter_eps, 1 + self.jitter_eps)
        logits = self.linear_router(x)
        if self.sequence_parallel_enabled:
            logits = mappings.gather_from_sequence_parallel_region(logits, self.sequence_dimension, to_model_parallel=False, process_group=self.tensor_parallel_group)
        return logits.reshape(-1, self.num_experts)

    def apply_activation_fn(self, weights):
        return weights.float().sigmoid() if self.act_fn == "sigmoid" else weights.float().softmax(1)


class RouterTopK(RouterBase):
    def __init__(self, num_experts, top_k, hidden_size, *args, act_fn="softmax", apply_act_fn_over_topk=False, **kwargs):
        names = ("sequence_parallel_enabled", "sequence_dimension", "dtype", "device", "bias", "tensor_model_parallel_group")
        super().__init__(num_experts, top_k, hidden_size, act_fn, **dict(zip(names, args)), **kwargs)
        self.over_chosen = apply_act_fn_over_topk

    def forward(self, hidden_states):
        logits = self.get_router_logits(hidden_states)
        top, index = logits.topk(self.top_k, 1)
        if self.over_chosen:
            affinities = torch.zeros_like(logits, dtype=torch.float32).scatter(1, index, self.apply_activation_fn(top))
        else:
            affinities = self.apply_activation_fn(logits)
        return logits, affinities.to(hidden_states.dtype), index.detach()


class RouterSinkhorn(RouterBase):
    """One expert for each token, balanced over the batch while training."""

    def __init__(self, num_experts, top_k, hidden_size, act_fn="sigmoid", *args, sinkhorn_iterations=None, sinkhorn_tol=None, **kwargs):
        if top_k != 1:
            raise NotImplementedError(f"RouterSinkhorn: found top_k={top_k}, expected 1")
        names = ("sequence_parallel_enabled", "sequence_dimension", "dtype", "device")
        super().__init__(num_experts, top_k, hidden_size, act_fn, **dict(zip(names, args)), **kwargs)
        self.iterations, self.tolerance = 30 if sinkhorn_iterations is None else sinkhorn_iterations, sinkhorn_tol

    def forward(self, hidden_states):
        logits = self.get_router_logits(hidden_states)
        with torch.no_grad():
            cost = self._sinkhorn(logits.detach().float(), self.iterations, self.tolerance) if self.training else logits.detach()
            index = cost.argmax(1, keepdim=True)
        return logits, self.apply_activation_fn(logits).to(hidden_states.dtype), index

    @staticmethod
    def _sinkhorn(cost, num_iters, tol=None):
        if num_iters == 0:
            return cost
        cost = cost.exp()
        rows, columns = torch.ones_like(cost[:, 0]), torch.ones_like(cost[0])
        for _ in range(num_iters):
            before = columns
            rows = 1 / (rows.numel() * ((columns * cost).sum(1) + 1e-8))
            columns = 1 / (columns.numel() * ((rows[:, None] * cost).sum(0) + 1e-8))
        if tol is not None and (error := (before - columns).abs().mean().item()) >= tol:
            raise RuntimeError(f"RouterSinkhorn: found an error of {error} after {num_iters} iterations, expected less than {tol}")
        return columns * cost * rows[:, None]


class GroupLimitedRouter(RouterBase):
    """Experts in groups: a token chooses groups by the sum of their two best experts, then experts in them (DeepSeek-V3)."""

    def __init__(self, num_experts, top_k, hidden_size, n_group, topk_group, act_fn="sigmoid", **kwargs):
        super().__init__(num_experts, top_k, hidden_size, act_fn, **kwargs)
        if num_experts % n_group or topk_group > n_group:
            raise ValueError(f"GroupLimitedRouter: found n_group={n_group}, topk_group={topk_group}, expected a divisor of {num_experts} and at most as many")
        self.n_group, self.topk_group = n_group, topk_group
        self.e_score_correction_bias = nn.Parameter(torch.zeros(num_experts), requires_grad=False)

    def forward(self, hidden_states):
        logits = self.get_router_logits(hidden_states)
        affinities = self.apply_activation_fn(logits)
        scores = (affinities + self.e_score_correction_bias).detach().unflatten(1, (self.n_group, -1))
        groups = scores.topk(min(2, scores.size(-1)), -1).values.sum(-1).topk(self.topk_group, -1).indices
        allowed = torch.zeros_like(scores[..., 0], dtype=torch.bool).scatter(1, groups, True)[..., None].expand_as(scores).flatten(1)
        index = scores.flatten(1).masked_fill(~allowed, float("-inf")).topk(self.top_k, 1).indices
        return logits, affinities.to(hidden_states.dtype), index
