"""Tensor and sequence parallel: every rank has a part of each weight."""

import torch
import torch.distributed as dist
from models import loss_of, model, tokens, trained
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, zeros
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)


def dtensor(device):
    mesh = init_device_mesh(device, (2, 2), mesh_dim_names=("a", "b"))
    whole = torch.randn(8, 6, generator=torch.Generator().manual_seed(3)).to(device)
    x = distribute_tensor(whole, mesh, [Shard(0), Shard(1)]).requires_grad_()
    y = (x @ x.t()).softmax(-1).sum(0)
    y.square().sum().backward()
    uneven = distribute_tensor(torch.arange(21.0).reshape(7, 3).to(device), mesh, [Shard(0), Replicate()])
    return {"y": y, "grad": x.grad, "uneven": uneven.redistribute(mesh, [Replicate(), Shard(1)]), "zeros": zeros(3, device_mesh=mesh)}


def random_tensors(device):
    """Drawn shard by shard: other ranks' parts differ, replicas agree. Not on meshes of CPUs."""
    if device == "cpu":
        return {"distinct": True, "replicas": True}
    mesh = init_device_mesh(device, (4,))
    torch.manual_seed(5)
    x = torch.distributed.tensor.rand(8, 64, device_mesh=mesh, placements=[Shard(0)])
    kept = torch.nn.functional.dropout(distribute_tensor(torch.ones(64, 64).to(device), mesh, [Replicate()]), 0.5)
    parts = [torch.empty_like(kept.to_local()) for _ in range(4)]
    dist.all_gather(parts, kept.to_local().contiguous())
    full = x.full_tensor()
    return {"distinct": len(full.cpu().unique()) > 500, "replicas": all(torch.equal(p.cpu(), parts[0].cpu()) for p in parts)}


PLAN = {"q": ColwiseParallel(), "k": ColwiseParallel(), "v": ColwiseParallel(), "o": RowwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
SEQUENCE_PLAN = {
    "before": SequenceParallel(),
    "after": SequenceParallel(),
    "q": ColwiseParallel(input_layouts=Shard(1)),
    "k": ColwiseParallel(input_layouts=Shard(1)),
    "v": ColwiseParallel(input_layouts=Shard(1)),
    "o": RowwiseParallel(output_layouts=Shard(1)),
    "up": ColwiseParallel(input_layouts=Shard(1)),
    "down": RowwiseParallel(output_layouts=Shard(1)),
}


def tensor_parallel(device):
    network = model().to(device)
    mesh = init_device_mesh(device, (4,))
    for layer in network.layers:
        layer.heads = 4
        parallelize_module(layer, mesh, PLAN)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2, foreach=False)  # torch's lists are of one kind of tensor
    return {"losses": trained(network, tokens().to(device), optimizer=optimizer), "q": network.layers[0].q.weight}


def sequence_parallel(device):
    network = model().to(device)
    mesh = init_device_mesh(device, (4,))
    parallelize_module(network, mesh, {"embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)), "norm": SequenceParallel(),
                                       "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())})  # fmt: skip
    for layer in network.layers:
        parallelize_module(layer, mesh, SEQUENCE_PLAN)
    return {"losses": trained(network, tokens().to(device)), "q": network.layers[0].q.weight}


def parallel_loss(device):
    network = model().to(device)
    mesh = init_device_mesh(device, (4,))
    parallelize_module(network, mesh, {"head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)})
    optimizer = torch.optim.SGD(network.parameters(), 0.1, foreach=False)
    losses = []
    for _ in range(2):
        with loss_parallel():
            loss = loss_of(network(tokens().to(device)), tokens().to(device))
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.full_tensor() if isinstance(loss, DTensor) else loss)
    return {"losses": torch.stack(losses).detach(), "head": network.head.weight}


def two_dimensions(device):
    """FSDP2 over TP."""
    mesh = init_device_mesh(device, (2, 2), mesh_dim_names=("dp", "tp"))
    network = model().to(device)
    for layer in network.layers:
        parallelize_module(layer, mesh["tp"], PLAN)
        fully_shard(layer, mesh=mesh["dp"])
    fully_shard(network, mesh=mesh["dp"])
    mine = tokens().chunk(2)[mesh["dp"].get_local_rank()].to(device)
    losses = trained(network, mine)
    return {"losses": losses, "q": network.layers[0].q.weight}


def prepared_input(device):
    network = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU())
    torch.nn.init.constant_(network[0].weight, 0.01)
    torch.nn.init.zeros_(network[0].bias)
    network.to(device)
    mesh = init_device_mesh(device, (4,))
    parallelize_module(network, mesh, {"": PrepareModuleInput(input_layouts=Shard(0), desired_input_layouts=Replicate(), use_local_output=True)})
    return {"y": network(torch.full((2, 16), float(dist.get_rank()), device=device))}
