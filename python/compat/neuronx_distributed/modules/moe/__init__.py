"""neuronx_distributed.modules.moe."""

from neuronx_distributed.modules.moe.expert_mlps import ExpertMLPs
from neuronx_distributed.modules.moe.loss_function import load_balancing_loss_func
from neuronx_distributed.modules.moe.model import MoE
from neuronx_distributed.modules.moe.routing import GroupLimitedRouter, RouterSinkhorn, RouterTopK

__all__ = ["ExpertMLPs", "GroupLimitedRouter", "MoE", "RouterSinkhorn", "RouterTopK", "load_balancing_loss_func"]
