"""neuronx_distributed.parallel_layers.grads: gradients averaged over batches, summed over sequences, and clipped by the norm of
all ranks' parameters, those that all tensor parallel ranks have counted once."""

import os

import torch
import torch.distributed as dist

from neuronx_distributed.parallel_layers import parallel_state as state
from neuronx_distributed.parallel_layers.utils import param_is_not_tensor_parallel_duplicate  # noqa: F401


def param_is_not_shared(param):
    return not getattr(param, "shared", False)


def _is_expert(t):
    return getattr(t, "expert_model_parallel", False)


@torch.no_grad()
def get_grad_norm(parameters, norm_type=2, zero1_optimizer=False, zero1_optimizer_groups=None, force_spmd=True):
    params = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
    if zero1_optimizer_groups is not None and not zero1_optimizer:
        raise ValueError("get_grad_norm: found zero1_optimizer_groups with zero1_optimizer=False, expected True")
    power, is_max = float(norm_type), float(norm_type) == float("inf")
    tp = state.get_tensor_model_parallel_size()
    device = params[0].device
    totals = [torch.zeros((), device=device), torch.zeros((), device=device)]  # plain, experts'
    for p in params:
        if p.grad is None or not param_is_not_shared(p):
            continue
        found = p.grad.float().abs()
        at = 1 if _is_expert(p) else 0
        if is_max:
            totals[at] = torch.maximum(totals[at], found.amax())
        else:
            totals[at] += found.pow(power).sum() / (1 if getattr(p, "tensor_model_parallel", False) else tp)
    op = dist.ReduceOp.MAX if is_max else dist.ReduceOp.SUM
    for name in ("expert", "tensor", "pipeline", "zero"):
        totals = _over(name, totals, op, is_max, zero1_optimizer, zero1_optimizer_groups)
    total = totals[0]
    return (total if is_max else total.pow(1.0 / power)).reshape(1)


def _over(name, totals, op, is_max, zero1, zero1_groups):
    """The totals after a reduction over one kind of ranks."""
    plain, experts = totals
    if name == "expert":
        if state.get_expert_model_parallel_size() > 1:
            dist.all_reduce(experts, op, group=state.get_expert_model_parallel_group())
        return [torch.maximum(plain, experts) if is_max else plain + experts, experts]
    if name == "zero":
        if zero1:
            from trine.torch.old import groups as replica

            group = state.get_data_parallel_group() if zero1_groups is None else replica.mine(zero1_groups)[1]
            dist.all_reduce(plain, op, group=group)
        return [plain, experts]
    size, group = {"tensor": (state.get_tensor_model_parallel_size, state.get_tensor_model_parallel_group),
                   "pipeline": (state.get_pipeline_model_parallel_size, state.get_pipeline_model_parallel_group)}[name]  # fmt: skip
    if size() > 1:
        dist.all_reduce(plain, op, group=group())
    return [plain, experts]


@torch.no_grad()
def clip_grads_with_norm(parameters, total_norm, max_norm):
    factor = (float(max_norm) / (total_norm.reshape(()) + 1e-6)).clamp(max=1.0)
    for p in parameters:
        if p.grad is not None:
            p.grad.mul_(factor.to(p.grad.dtype))


def clip_grad_norm(parameters, max_norm, norm_type=2, zero1_optimizer=False, zero1_optimizer_groups=None, force_spmd=True):
    """In place; gives the norm before."""
    params = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
    norm = get_grad_norm(params, norm_type, zero1_optimizer, zero1_optimizer_groups, force_spmd)
    clip_grads_with_norm(params, norm, max_norm)
    return norm


def _flat_reduced(tensors, group):
    flat = torch.cat([t.reshape(-1) for t in tensors]) if len(tensors) > 1 or not tensors[0].is_contiguous() else tensors[0]
    dist.all_reduce(flat, group=group)
    if flat is not tensors[0]:
        for t, part in zip(tensors, flat.split([t.numel() for t in tensors])):
            t.copy_(part.view_as(t))


@torch.no_grad()
def bucket_allreduce_gradients(grads_list, reduce_over_ep_group=False):
    """Averaged over the batches, in buckets from the last layer on (ALLREDUCE_BUCKET_CAP_MB)."""
    cap = int(os.environ.get("ALLREDUCE_BUCKET_CAP_MB", 512)) * 2**20
    group = state.get_expert_model_parallel_group() if reduce_over_ep_group else state.get_expert_data_parallel_group()
    by_dtype = {}
    for g in reversed(list(grads_list)):
        if not reduce_over_ep_group:
            g.div_(state.get_data_parallel_size())
        by_dtype.setdefault(g.dtype, []).append(g)
    if group.size() == 1:
        return
    for same in by_dtype.values():
        bucket, total = [], 0
        for g in same:
            if bucket and total + g.nbytes > cap:
                _flat_reduced(bucket, group)
                bucket, total = [], 0
            bucket.append(g)
            total += g.nbytes
        _flat_reduced(bucket, group)


def _gradients(optimizer, chosen):
    params = [p for g in optimizer.param_groups for p in g["params"] if chosen(p)]
    found = [p.grad if p.grad is not None else getattr(p, "main_grad", None) for p in params]
    return [g for g in found if g is not None]


@torch.no_grad()
def allreduce_sequence_parallel_gradients(optimizer):
    """Of parameters that see a part of the sequence on each tensor parallel rank."""
    grads = _gradients(optimizer, lambda p: getattr(p, "sequence_parallel_enabled", False))
    if grads and state.get_tensor_model_parallel_size() > 1:
        _flat_reduced(grads, state.get_tensor_model_parallel_group())


@torch.no_grad()
def allreduce_context_parallel_gradients(optimizer):
    """Averaged over the ranks that have parts of a context."""
    n = state.get_context_model_parallel_size()
    for g in _gradients(optimizer, lambda p: True) if n > 1 else ():
        g.div_(n)
        _flat_reduced([g], state.get_context_model_parallel_group())
