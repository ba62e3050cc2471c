"""A torch model trained on the virtual chip and on the CPU, step by step: losses, norms of gradients, and the first op."""

import copy
import math

import torch

from trine.debug.comparison import compare
from trine.torch.export import _loss_of


def train_compare(model, args, count, baseline=None, kwargs=None, rate=1e-4, tolerance=None, **options):
    """`count` steps of AdamW of both on the same inputs; then the ops of the first step that is past the tolerance."""
    allowed = tolerance or 1e-3
    sides = [copy.deepcopy(model).to("neuron"), copy.deepcopy(model if baseline is None else baseline)]
    optimizers = [torch.optim.AdamW(side.parameters(), lr=rate) for side in sides]
    rows, first = [], None
    for step in range(count):
        before = [copy.deepcopy(side.state_dict()) for side in sides] if first is None else None
        found = [one_step(side, optimizer, args, kwargs) for side, optimizer in zip(sides, optimizers)]
        row = {"step": step, "loss": found[0][0], "baseline_loss": found[1][0], "gradient_norm": found[0][1], "baseline_gradient_norm": found[1][1]}
        apart = max(gap(found[0][0], found[1][0]), gap(found[0][1], found[1][1]))
        worst = max(found[0][2], key=lambda n: gap(found[0][2][n], found[1][2].get(n, math.nan)), default="")
        row["text"] = (f"step {step}  loss {found[0][0]:.6g} ({found[1][0]:.6g})  gradient norm {found[0][1]:.6g} ({found[1][1]:.6g})"
                       f"  apart {apart:.1e}, most {worst}" + ("   PAST TOLERANCE" if apart > allowed else ""))  # fmt: skip
        rows.append(row | {"apart": apart, "worst": worst, "passed": apart <= allowed})
        if first is None and (apart > allowed or step == count - 1):
            first = before
    for side, state in zip(sides, first):
        side.load_state_dict(state)
    c = compare(sides[0].cpu(), *args, baseline=sides[1] if baseline is not None else None, kwargs=kwargs, train=True, tolerance=tolerance, **options)
    c.steps, c.passed = rows, c.passed and all(r["passed"] for r in rows)
    return c


def one_step(side, optimizer, args, kwargs):
    device = next(side.parameters()).device
    place = [a.to(device) if isinstance(a, torch.Tensor) else a for a in args]
    optimizer.zero_grad()
    loss = _loss_of(side(*place, **{k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in (kwargs or {}).items()}))
    loss.backward()
    norms = {n: float(p.grad.float().norm()) for n, p in side.named_parameters() if p.grad is not None}
    optimizer.step()
    return loss.item(), math.sqrt(sum(n * n for n in norms.values())), norms


def gap(a, b):
    """Relative; infinite where one of them is no number."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf if a != b else 0.0
    return abs(a - b) / max(abs(b), 1e-12)
