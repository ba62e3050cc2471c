"""torch.compile around and inside parallel modules."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from data import _at, _mine
from models import model, tokens, trained
from tensors import SEQUENCE_PLAN
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel


def _backend(device):
    return "aot_eager" if device == "cpu" else "neuron"


def layers_in_shards(device):
    """As torchtitan does: each layer is compiled, then sharded."""
    torch._dynamo.reset()
    network = model().to(_at(device))
    for layer in network.layers:
        layer.compile(backend=_backend(device), fullgraph=True)
        fully_shard(layer, mesh=init_device_mesh(device, (4,)))
    fully_shard(network, mesh=init_device_mesh(device, (4,)))
    return {"losses": trained(network, _mine(device)), "q": network.layers[0].q.weight}


def around_ddp(device):
    torch._dynamo.reset()
    network = torch.compile(DistributedDataParallel(model().to(_at(device))), backend=_backend(device))
    return {"losses": trained(network, _mine(device))}


def tensor_parallel(device):
    torch._dynamo.reset()
    network = model().to(_at(device))
    mesh = init_device_mesh(device, (4,))
    parallelize_module(network, mesh, {"embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)), "norm": SequenceParallel(),
                                       "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())})  # fmt: skip
    for layer in network.layers:
        parallelize_module(layer, mesh, SEQUENCE_PLAN)
    network.compile(backend=_backend(device))
    return {"losses": trained(network, tokens().to(_at(device))), "q": network.layers[0].q.weight}


def collectives(device):
    """Functional collectives in a compiled graph."""
    torch._dynamo.reset()
    group = dist.group.WORLD

    def work(x):
        y = funcol.all_reduce(x * 2, "sum", group)
        z = funcol.all_gather_tensor(y + 1, 0, group)
        w = funcol.reduce_scatter_tensor(z * x.sum(), "avg", 0, group)
        v = funcol.all_to_all_single(w.repeat(4, 1), None, None, group)
        return y, z, w, v.sum(0)

    x = torch.arange(6.0).reshape(2, 3).to(_at(device)) + dist.get_rank()
    return dict(zip("yzwv", torch.compile(work, backend=_backend(device), fullgraph=True)(x)))
