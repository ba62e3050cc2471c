"""neuronx_distributed.utils.adamw_fp32_optim_params: AdamW whose state is wider than bf16 gradients."""

import math

import torch


class AdamW_FP32OptimParams(torch.optim.Optimizer):  # noqa: N801 - NxD's name
    """State and arithmetic in f32 at least; the decay comes after the step, as transformers' AdamW had it."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0, correct_bias=True, no_deprecation_warning=True,
                 differentiable=False, capturable=False):  # fmt: skip
        if lr < 0 or eps < 0 or not all(0 <= b < 1 for b in betas):
            raise ValueError(f"AdamW_FP32OptimParams: found lr={lr}, betas={betas}, eps={eps}, expected lr and eps of 0 or more and betas in [0, 1)")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, correct_bias=correct_bias, capturable=capturable))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._update(p, group)
        return loss

    def _update(self, p, group):
        grad = p.grad if p.grad.dtype == torch.float64 else p.grad.float()
        state, (b1, b2) = self.state[p], group["betas"]
        if not state:
            state.update(step=0, exp_avg=torch.zeros_like(grad), exp_avg_sq=torch.zeros_like(grad))
        state["step"] += 1
        state["exp_avg"].mul_(b1).add_(grad, alpha=1 - b1)
        state["exp_avg_sq"].mul_(b2).addcmul_(grad, grad, value=1 - b2)
        size = group["lr"]
        if group["correct_bias"]:
            size = size * math.sqrt(1 - b2 ** state["step"]) / (1 - b1 ** state["step"])
        p.add_((state["exp_avg"] / (state["exp_avg_sq"].sqrt() + group["eps"])).to(p.dtype), alpha=-size)
        if group["weight_decay"] > 0:
            p.mul_(1 - group["lr"] * group["weight_decay"])
