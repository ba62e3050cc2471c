"""Run by torchrun, on the device named: every collective, and DDP's gradients against one process. Prints "rank N agrees"."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn

device = sys.argv[1]
dist.init_process_group(device)
rank, size = dist.get_rank(), dist.get_world_size()
at = torch.device(device, rank % torch.neuron.device_count())


def on(*values):
    return torch.tensor(values, dtype=torch.float32).to(at)


def collectives():
    x = on(rank + 1.0, 2.0) * 1  # recorded, on xla
    dist.all_reduce(x)
    assert x.tolist() == [size * (size + 1) / 2, 2.0 * size] and x.device == at
    work = dist.all_reduce(x, op=dist.ReduceOp.MAX, async_op=True)
    work.wait()
    y = on(float(rank))
    dist.broadcast(y, 1)
    assert y.tolist() == [1.0]
    parts = [torch.empty_like(y) for _ in range(size)]
    dist.all_gather(parts, on(float(rank)))
    assert [p.item() for p in parts] == list(range(size))
    whole = torch.empty(size, device=at)
    dist.all_gather_into_tensor(whole, on(float(rank)))
    assert whole.tolist() == list(range(size))
    part = torch.empty(1, device=at)
    dist.reduce_scatter_tensor(part, on(*range(size)))
    assert part.item() == rank * size
    swapped = torch.empty(size, device=at)
    dist.all_to_all_single(swapped, on(*[10.0 * rank + i for i in range(size)]))
    assert swapped.tolist() == [10.0 * i + rank for i in range(size)]
    other = torch.empty(1, device=at)
    sent = dist.isend(on(float(rank)), (rank + 1) % size)
    dist.recv(other, (rank - 1) % size)
    sent.wait()
    assert other.item() == (rank - 1) % size
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert [o["rank"] for o in objects] == list(range(size))
    dist.barrier()


def data_parallel():
    def model():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))

    rows = torch.randn(2 * size, 4, generator=torch.Generator().manual_seed(1))
    alone, shared = model(), nn.parallel.DistributedDataParallel(model().to(at))
    ours, theirs = torch.optim.SGD(shared.parameters(), 0.1), torch.optim.SGD(alone.parameters(), 0.1)
    for _ in range(2):
        shared(rows[2 * rank : 2 * rank + 2].to(at)).square().mean().backward()
        alone(rows).square().mean().backward()
        for p, q in zip(shared.parameters(), alone.parameters()):
            torch.testing.assert_close(p.grad.cpu(), q.grad, rtol=1e-5, atol=1e-6)
        for o in (ours, theirs):
            o.step()
            o.zero_grad()


collectives()
data_parallel()
print(f"rank {rank} agrees", flush=True)
dist.destroy_process_group()
os._exit(0)  # torch 2.13's own gloo sometimes ends a process with an abort, without us too
