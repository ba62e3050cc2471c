"""Checkpoints of states and of activations."""

import os
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from data import _at, _fully_sharded, _mine
from models import loss_of, model, tokens, trained
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_state_dict, set_model_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts


def _folder():
    found = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(found)
    return found[0]


def resharded(device):
    """Saved by four ranks, loaded by meshes of 2×2, with the optimiser's state; training goes on as if nothing had happened."""
    first = _fully_sharded(device, mesh=init_device_mesh(device, (4,)))
    optimizer = torch.optim.AdamW(first.parameters(), lr=1e-2)
    trained(first, _mine(device), optimizer=optimizer)
    folder = _folder()
    network, states = get_state_dict(first, optimizer)
    dcp.save({"model": network, "optimizer": states}, checkpoint_id=folder)
    second = _fully_sharded(device, mesh=init_device_mesh(device, (2, 2), mesh_dim_names=("replicate", "shard")))
    with torch.no_grad():
        for p in second.parameters():
            p.zero_()
    again = torch.optim.AdamW(second.parameters(), lr=1e-2)
    network, states = get_state_dict(second, again)
    dcp.load({"model": network, "optimizer": states}, checkpoint_id=folder)
    set_state_dict(second, again, model_state_dict=network, optim_state_dict=states)
    return {"went_on": trained(first, _mine(device), optimizer=optimizer), "loaded": trained(second, _mine(device), optimizer=again)}


def whole_state(device):
    """Gathered to one rank and broadcast from it."""
    network = _fully_sharded(device, mesh=init_device_mesh(device, (4,)))
    whole = get_model_state_dict(network, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    doubled = {k: 2 * v for k, v in whole.items()}
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(network, doubled, options=options)
    return {"count": len(whole), "head": network.head.weight}


def saved_async(device):
    network = _fully_sharded(device, mesh=init_device_mesh(device, (4,)))
    folder = _folder()
    group = dist.new_group(backend="gloo")
    dcp.async_save({"model": network.state_dict()}, checkpoint_id=folder, process_group=group).result()
    dist.barrier()
    state = {"model": {k: torch.zeros_like(v) for k, v in network.state_dict().items()}}
    dcp.load(state, checkpoint_id=folder)
    return {"files": sum(f.endswith(".distcp") for f in os.listdir(folder)), "head": state["model"]["head.weight"]}


def recomputed_in_shards(device):
    """Activation checkpointing below FSDP2."""
    network = model().to(_at(device))
    for i, layer in enumerate(network.layers):
        network.layers[i] = checkpoint_wrapper(layer, checkpoint_impl=CheckpointImpl.NO_REENTRANT)
        fully_shard(network.layers[i], mesh=init_device_mesh(device, (4,)))
    fully_shard(network, mesh=init_device_mesh(device, (4,)))
    return {"losses": trained(network, _mine(device))}


def recomputed(device):
    """Only products are stored, or nothing; dropout draws the same numbers again."""
    plain, some, none = (model().to(_at(device)) for _ in range(3))
    matmuls = [torch.ops.aten.mm.default, torch.ops.aten.addmm.default]
    data = tokens().to(_at(device))
    loss_of(plain(data), data).backward()
    loss_of(checkpoint(some, data, use_reentrant=False, context_fn=lambda: create_selective_checkpoint_contexts(matmuls)), data).backward()
    loss_of(checkpoint(none, data, use_reentrant=False), data).backward()
    x = torch.ones(64, device=_at(device), requires_grad=True)
    y = checkpoint(lambda t: torch.nn.functional.dropout(t, 0.5), x, use_reentrant=False)
    y.sum().backward()
    off = [max((p.grad - q.grad).abs().max().item() for p, q in zip(plain.parameters(), m.parameters())) for m in (some, none)]
    return {"same": torch.equal(y.detach().cpu(), x.grad.cpu()), "off": max(off) < 1e-6}
