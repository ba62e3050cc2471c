"""Context and expert parallel: every rank has a part of each sequence, or experts of its own."""

import torch
import torch.distributed as dist
from models import model, tokens
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.nn.functional import all_to_all_single
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._attention import context_parallel_unshard, set_rotate_method
from torch.nn import functional


def _attention_over(device, method):
    """Attention whose sequence is spread; on CPUs, whose attention torch cannot spread, whole."""
    q, k, v, grad = (torch.randn(2, 4, 32, 8, generator=torch.Generator().manual_seed(i)).to(device) for i in range(4))
    q, k, v = (t.requires_grad_() for t in (q, k, v))
    if device == "cpu":
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        out.backward(grad)
        return {"out": out, "q": q.grad, "k": k.grad, "v": v.grad}
    mesh = init_device_mesh(device, (4,))
    set_rotate_method(method)
    parts = [t.detach().clone() for t in (q, k, v, grad)]
    with context_parallel(mesh, buffers=parts, buffer_seq_dims=[2] * 4):
        ours = [t.detach().requires_grad_() for t in parts[:3]]
        out = functional.scaled_dot_product_attention(*ours, is_causal=True)
        out.backward(parts[3])
        found = context_parallel_unshard(mesh, [out.detach(), *(t.grad for t in ours)], [2] * 4)
    return dict(zip(("out", "q", "k", "v"), found))


def ring_attention(device):
    return _attention_over(device, "alltoall")


def gathered_attention(device):
    return _attention_over(device, "allgather")


def sequences(device):
    """A whole model, its sequences spread."""
    network = model().to(device)
    data = tokens(2, 32).to(device)
    target = data.roll(-1, 1)
    positions = torch.zeros(32, device=device)
    if device == "cpu":
        loss = functional.cross_entropy(network(data).flatten(0, 1), target.flatten())
        loss.backward()
        return {"loss": loss, "q": network.layers[0].q.weight.grad}
    mesh = init_device_mesh(device, (4,))
    with context_parallel(mesh, buffers=[data, target, positions], buffer_seq_dims=[1, 1, 0]):
        loss = functional.cross_entropy(network(data).flatten(0, 1), target.flatten())
        loss.backward()
    loss, grad = loss.detach(), network.layers[0].q.weight.grad
    dist.all_reduce(loss, op=dist.ReduceOp.AVG)
    dist.all_reduce(grad, op=dist.ReduceOp.AVG)
    return {"loss": loss, "q": grad}


def experts(device):
    """Tokens go to the ranks of their experts and back, as many as were routed there."""
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7)
    router, every = nn.Linear(16, size), [nn.Linear(16, 16) for _ in range(size)]
    router, expert = router.to(device), every[rank].to(device)
    x = torch.randn(24, 16, generator=torch.Generator().manual_seed(rank)).to(device).requires_grad_()
    scores = router(x).softmax(-1)
    top, chosen = scores.max(-1)
    order = chosen.argsort(stable=True)
    sent = torch.bincount(chosen, minlength=size)
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)
    sent, received = sent.tolist(), received.tolist()
    there = all_to_all_single(torch.empty(sum(received), 16, device=device), x[order], received, sent)
    back = all_to_all_single(torch.empty_like(x), functional.gelu(expert(there)), sent, received)
    out = torch.zeros_like(x).index_copy(0, order, back) * top.unsqueeze(-1)
    out.square().sum().backward()
    return {"out": out, "x": x.grad, "router": router.weight.grad, "expert": expert.weight.grad, "counts": sent}
