"""Pipelines: every rank has layers of its own."""

import torch
import torch.distributed as dist
from models import Block, loss_of, model, tokens
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B, SplitPoint, pipeline


def _parts(count):
    whole = model(layers=count)
    parts = [nn.Sequential(layer) for layer in whole.layers]
    parts[0] = nn.Sequential(whole.embedding, *parts[0])
    parts[-1] = nn.Sequential(*parts[-1], whole.norm, whole.head)
    return parts


def _steps(schedule, parts, first, last):
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], 0.1)
    data, losses = tokens().to(next(parts[0].parameters()).device), []
    for _ in range(2):
        found = []
        schedule.step(*([data] if first else []), **({"target": data, "losses": found} if last else {}))
        optimizer.step()
        optimizer.zero_grad()
        losses.append(torch.stack(found).mean().detach() if found else torch.zeros((), device=data.device))
    weights = torch.stack([p.detach().sum() for part in parts for p in part.parameters()])
    return {"losses": torch.stack(losses), "weights": weights}


def _one_stage_each(device, schedule):
    rank, size = dist.get_rank(), dist.get_world_size()
    part = _parts(size)[rank].to(device)
    stage = PipelineStage(part, rank, size, torch.device(device))
    return _steps(schedule(stage, 4, loss_fn=loss_of), [part], rank == 0, rank == size - 1)


def gpipe(device):
    return _one_stage_each(device, ScheduleGPipe)


def one_forward_one_backward(device):
    return _one_stage_each(device, Schedule1F1B)


def interleaved(device):
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = [part.to(device) for part in _parts(2 * size)[rank::size]]
    stages = [PipelineStage(part, rank + i * size, 2 * size, torch.device(device)) for i, part in enumerate(parts)]
    return _steps(ScheduleInterleaved1F1B(stages, 4, loss_fn=loss_of), parts, rank == 0, rank == size - 1)


def traced(device):
    """Cut by torch from one model."""
    rank, size = dist.get_rank(), dist.get_world_size()
    whole = nn.Sequential(model().embedding, *(Block() for _ in range(size)), nn.Linear(16, 32)).to(device)
    with torch.no_grad():
        for i, p in enumerate(whole.parameters()):
            p.copy_(torch.linspace(-0.1, 0.1, p.numel()).reshape(p.shape) * (1 + i % 3))
    cuts = {str(i + 1): SplitPoint.BEGINNING for i in range(1, size)}
    piped = pipeline(whole, (tokens(2).to(device),), split_spec=cuts)
    stage = piped.build_stage(rank, torch.device(device))
    return _steps(ScheduleGPipe(stage, 4, loss_fn=loss_of), [stage.submod], rank == 0, rank == size - 1)


def stages_of_shards(device):
    """FSDP2 inside a pipeline of two stages."""
    mesh = init_device_mesh(device, (2, 2), mesh_dim_names=("pp", "dp"))
    at = mesh["pp"].get_local_rank()
    part = _parts(2)[at].to(device)
    fully_shard(part, mesh=mesh["dp"])
    stage = PipelineStage(part, at, 2, torch.device(device), group=mesh["pp"].get_group())
    schedule = Schedule1F1B(stage, 4, loss_fn=loss_of)
    optimizer = torch.optim.SGD(part.parameters(), 0.1)
    data, losses = tokens(16).chunk(2)[mesh["dp"].get_local_rank()].to(device), []
    for _ in range(2):
        found = []
        schedule.step(*([data] if at == 0 else []), **({"target": data, "losses": found} if at == 1 else {}))
        optimizer.step()
        optimizer.zero_grad()
        losses.append(torch.stack(found).mean().detach() if found else torch.zeros((), device=device))
    return {"losses": torch.stack(losses)}
