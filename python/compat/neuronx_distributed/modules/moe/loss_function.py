"""neuronx_distributed.modules.moe.loss_function: what unequal use of experts costs (Switch Transformer, equations 4 to 6)."""

import torch


def load_balancing_loss_func(router_logits, num_experts, top_k):
    """Of (tokens of all layers, experts)."""
    affinities = router_logits.softmax(-1, dtype=torch.float32)
    chosen = affinities.topk(top_k).indices
    share = torch.nn.functional.one_hot(chosen, num_experts).float().mean(0)  # (top_k, experts)
    return (share * affinities.mean(0)).sum() * (num_experts / top_k)
