"""Data parallel: every rank has rows of its own."""

import torch
import torch.distributed as dist
from models import Block, loss_of, model, tokens, trained
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn.parallel import DistributedDataParallel


def _at(device):
    return torch.device(device, torch.get_device_module(device).current_device()) if device != "cpu" else torch.device("cpu")


def _mine(device):
    return tokens().chunk(dist.get_world_size())[dist.get_rank()].to(_at(device))


def _states(network):
    return {k: v for k, v in network.state_dict().items() if "layers.0" in k or "head" in k}


def mesh(device):
    world = init_device_mesh(device, (2, 2), mesh_dim_names=("a", "b"))
    x = torch.full((3,), float(dist.get_rank()), device=_at(device))
    dist.all_reduce(x, group=world["a"].get_group())
    y = torch.full((3,), float(dist.get_rank()), device=_at(device))
    dist.all_reduce(y, op=dist.ReduceOp.AVG, group=world["b"].get_group())
    return {"a": x, "b": y, "flat": world._flatten().size()}


def ddp(device):
    network = DistributedDataParallel(model().to(_at(device)))
    return {"losses": trained(network, _mine(device)), **_states(network.module)}


def ddp_bucket_view(device):
    network = DistributedDataParallel(model().to(_at(device)), gradient_as_bucket_view=True, static_graph=True, bucket_cap_mb=0.001)
    return {"losses": trained(network, _mine(device)), **_states(network.module)}


def fsdp1(device):
    network = FullyShardedDataParallel(model().to(_at(device)), auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=_at(device), use_orig_params=True)
    losses = trained(network, _mine(device))
    with FullyShardedDataParallel.summon_full_params(network):
        return {"losses": losses, **_states(network)}


def fsdp1_hybrid(device):
    world = init_device_mesh(device, (2, 2), mesh_dim_names=("replicate", "shard"))
    network = FullyShardedDataParallel(model().to(_at(device)), auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=_at(device), device_mesh=world,
                                       sharding_strategy=ShardingStrategy.HYBRID_SHARD)  # fmt: skip
    losses = trained(network, _mine(device))
    norm = network.clip_grad_norm_(1.0)
    return {"losses": losses, "norm": norm}


def _fully_sharded(device, **options):
    network = model().to(_at(device))
    for layer in network.layers:
        fully_shard(layer, **options)
    return fully_shard(network, **options)


def fsdp2(device):
    network = _fully_sharded(device, mesh=init_device_mesh(device, (4,)))
    losses = trained(network, _mine(device))
    norm = torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    return {"losses": losses, "norm": norm, **_states(network)}


def fsdp2_divided(device):
    """PREMUL_SUM, as torchtitan asks for; gloo has none, so there the rate makes up for it."""
    network = _fully_sharded(device, mesh=init_device_mesh(device, (4,)))
    if device != "cpu":
        for part in (network, *network.layers):
            part.set_gradient_divide_factor(3.0)
    rate = 0.1 if device != "cpu" else 0.1 * 4 / 3
    losses = trained(network, _mine(device), optimizer=torch.optim.SGD(network.parameters(), rate))
    return {"losses": losses, **_states(network)}


def fsdp2_mixed(device):
    network = _fully_sharded(device, mesh=init_device_mesh(device, (4,)), mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
    return {"losses": trained(network, _mine(device))}


def hsdp(device):
    world = init_device_mesh(device, (2, 2), mesh_dim_names=("replicate", "shard"))
    network = _fully_sharded(device, mesh=world)
    return {"losses": trained(network, _mine(device)), **_states(network)}


def fsdp2_meta(device):
    """Weights made on the device, shard by shard."""
    with torch.device("meta"):
        network = model()
    for layer in network.layers:
        fully_shard(layer, mesh=init_device_mesh(device, (4,)))
    fully_shard(network, mesh=init_device_mesh(device, (4,)))
    network.to_empty(device=_at(device))
    with torch.no_grad():
        for p in network.parameters():
            p.fill_(0.02)
    return {"losses": trained(network, _mine(device)), "loss": loss_of(network(_mine(device)), _mine(device))}
