"""spmd_cases.py DEVICES: torch_xla's SPMD over the virtual devices of one process, as its scripts use it.

Prints a line of JSON for each case: its name and what went wrong, or null. A program of its own, because the machine is
chosen when a process starts (TRINE_INSTANCE).
"""

import json
import sys
import traceback
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python/compat"))
import torch_xla  # noqa: E402
import torch_xla.core.xla_model as xm  # noqa: E402
import torch_xla.debug.metrics as metrics  # noqa: E402
import torch_xla.distributed.parallel_loader as pl  # noqa: E402
import torch_xla.distributed.spmd as xs  # noqa: E402
import torch_xla.runtime as xr  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

CASES = {}
N = int(sys.argv[1])


def case(f):
    CASES[f.__name__] = f
    return f


def mesh_of(*shape, names=("data", "model")):
    return xs.Mesh(np.arange(N), shape, names)


def close(got, want, bound=1e-5):
    torch.testing.assert_close(got.detach().cpu(), want.detach(), rtol=bound, atol=bound)


def held():
    """Bytes on each device."""
    return [torch.neuron.memory_allocated(i) for i in range(N)]


class Block(nn.Module):
    def __init__(self, width=16, heads=4):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.o(functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))
        return x + self.down(functional.gelu(self.up(x)))


class Model(nn.Module):
    def __init__(self, words=32, width=16, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def model():
    torch.manual_seed(1)
    return Model()


def batches(count=4, rows=None):
    generator = torch.Generator().manual_seed(7)
    return [torch.randint(32, (rows or N, 8), generator=generator) for _ in range(count)]


def losses(network, data, step):
    optimizer, found = torch.optim.AdamW(network.parameters(), lr=1e-2), []
    for tokens in data:
        optimizer.zero_grad()
        out = network(tokens)
        loss = functional.cross_entropy(out.flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        step()
        found.append(loss.detach())
    return torch.stack([l.cpu() for l in found])


@case
def parts_lie_on_devices():
    x = torch.arange(64.0 * 32).reshape(64, 32)
    before = held()
    t = x.to("xla")
    marked = xs.mark_sharding(t, mesh_of(N // 2, 2), ("data", "model"))
    parts = xs.local_shards(t)
    assert len(parts) == N and parts[0].data.shape == (128 // N, 16), parts[0].data.shape
    for part in parts:
        assert torch.equal(part.data, x[part.indices])
    more = [b - a for a, b in zip(before, held())]
    assert max(more) <= 64 * 32 * 4 // N + 256, more
    want = f"{{devices=[{N // 2},2]{','.join(map(str, range(N)))}}}"
    assert xs.get_xla_sharding_spec(t) == torch_xla._XLAC._get_xla_sharding_spec(t) == marked.sharding_spec == want
    assert torch.equal(t.cpu(), x) and torch.equal(marked.global_tensor.cpu(), x)


@case
def partial_and_whole():
    t = torch.arange(64.0).reshape(8, 8).to("xla")
    xs.mark_sharding(t, mesh_of(N // 2, 2), (None, "model"))
    assert xs.get_xla_sharding_spec(t).endswith("last_tile_dim_replicate}"), xs.get_xla_sharding_spec(t)
    assert xs.get_sharding_type(t) == xs.ShardingType.PARTIAL
    assert {p.replica_id for p in xs.local_shards(t)} == set(range(N // 2))
    w = torch.ones(3, device="xla")
    xs.mark_sharding(w, mesh_of(N // 2, 2), ("data",))  # does not divide: whole
    assert xs.get_xla_sharding_spec(w) == "{replicated}"
    xs.clear_sharding(t)
    assert xs.get_xla_sharding_spec(t) == "" and torch.equal(t.cpu(), torch.arange(64.0).reshape(8, 8))


@case
def products():
    torch.manual_seed(0)
    a, b = torch.randn(64, 32), torch.randn(32, 48)
    for left, right in ((("data", None), (None, "model")), ((None, "model"), ("model", None)), (("data", "model"), (None, None)),
                        ((("data", "model"), None), (None, None)), ((None, None), (None, None))):  # fmt: skip
        x, y = a.to("xla"), b.to("xla")
        xs.mark_sharding(x, mesh_of(N // 2, 2), left)
        xs.mark_sharding(y, mesh_of(N // 2, 2), right)
        close(torch.tanh(x @ y) + 1, torch.tanh(a @ b) + 1)


@case
def device_order():
    ids = np.arange(N)[::-1]
    x = torch.arange(float(N * 4)).reshape(N, 4)
    t = x.to("xla")
    xs.mark_sharding(t, xs.Mesh(ids, (N,), ("x",)), ("x", None))
    first = xs.local_shards(t)[0]
    assert first.shard_device == f"NEURON:{N - 1}" and torch.equal(first.data, x[:1])
    close(t * 2 + t.sum(0), x * 2 + x.sum(0))


@case
def middle_of_a_step():
    torch.manual_seed(0)
    a, b = torch.randn(16, 32), torch.randn(32, 64, requires_grad=True)
    x, y = a.to("xla"), b.detach().to("xla").requires_grad_()
    h = x @ y
    xs.mark_sharding(h, mesh_of(N // 2, 2), (None, ("data", "model")))
    kept = h * 2
    kept.sin().sum().backward()
    xm.mark_step()
    assert xs.get_xla_sharding_spec(h).startswith(f"{{devices=[1,{N}]"), xs.get_xla_sharding_spec(h)
    ((a @ b) * 2).sin().sum().backward()
    close(y.grad, b.grad)
    t = xs.mark_sharding_with_gradients(x.clone().requires_grad_(), mesh_of(N, 1), ("data", None))
    t.square().sum().backward()


@case
def transposed():
    a = torch.arange(32.0 * 16).reshape(32, 16)
    t = a.to("xla").t()
    xs.mark_sharding(t, mesh_of(N // 2, 2), ("model", None))
    assert xs.local_shards(t)[0].data.shape == (32, 8)  # as it lies in memory
    assert xs.get_xla_sharding_spec(t).startswith("{devices=[2,1,"), xs.get_xla_sharding_spec(t)
    close(t @ t.t(), a.t() @ a, 1e-4)


@case
def in_place():
    t = torch.zeros(N, 8, device="xla")
    xs.mark_sharding(t, mesh_of(N, 1), ("data", None))
    spec = xs.get_xla_sharding_spec(t)
    t.add_(1)
    t[0] = 5
    t.mul_(2)
    xm.mark_step()
    assert xs.get_xla_sharding_spec(t) == spec
    want = torch.full((N, 8), 2.0)
    want[0] = 10
    assert torch.equal(t.cpu(), want)
    t.copy_(torch.full((N, 8), 3.0))
    assert torch.equal((t + 1).cpu(), torch.full((N, 8), 4.0)) and xs.get_xla_sharding_spec(t) == spec


@case
def data_parallel():
    mesh, network = mesh_of(N, 1), model()
    want = losses(network, batches(), lambda: None)
    network = model().to("xla")
    data = pl.MpDeviceLoader(batches(), "xla", input_sharding=xs.ShardingSpec(mesh, ("data", None)))
    metrics.clear_all()
    close(losses(network, data, lambda: None), want, 1e-4)
    made = dict(zip(metrics.counter_names(), map(metrics.counter_value, metrics.counter_names()))).get("UncachedCompile", 0)
    assert made <= 4, made  # the first step, the one that finds its states dealt, and what reads losses


@case
def tensor_parallel():
    mesh, network = mesh_of(N // 4, 4), model()
    want = losses(network, batches(), lambda: None)
    network = model().to("xla")
    for layer in network.layers:
        for inner, spec in ((layer.qkv, ("model", None)), (layer.up, ("model", None)), (layer.o, (None, "model")), (layer.down, (None, "model"))):
            xs.mark_sharding(inner.weight, mesh, spec)
    xs.mark_sharding(network.embedding.weight, mesh, (None, "model"))
    data = [t.to("xla") for t in batches()]
    for t in data:
        xs.mark_sharding(t, mesh, ("data", None))
    close(losses(network, data, xm.mark_step), want, 1e-4)
    assert xs.local_shards(network.layers[0].up.weight)[0].data.shape == (16, 16)


@case
def fully_sharded():
    from functools import partial

    from torch_xla.distributed.fsdp.wrap import transformer_auto_wrap_policy
    from torch_xla.experimental.spmd_fully_sharded_data_parallel import SpmdFullyShardedDataParallel

    mesh = xs.Mesh(np.arange(N), (N, 1), ("fsdp", "model"))
    xs.set_global_mesh(mesh)
    want = losses(model(), batches(rows=2 * N), lambda: None)
    network = SpmdFullyShardedDataParallel(model().to("xla"), auto_wrap_policy=partial(transformer_auto_wrap_policy, transformer_layer_cls={Block}))
    xs.apply_backward_optimization_barrier(network.layers[0])
    assert isinstance(network.layers[0], SpmdFullyShardedDataParallel)
    data = [t.to("xla") for t in batches(rows=2 * N)]
    for t in data:
        xs.mark_sharding(t, mesh, ("fsdp", None))
    close(losses(network, data, xm.mark_step), want, 1e-4)
    assert xs.get_xla_sharding_spec(network.head.weight).startswith(f"{{devices=[{N},1]")


@case
def random_numbers():
    """The values of one device."""
    x = torch.ones(64, 64, device="xla")
    torch.manual_seed(3)
    want = functional.dropout(x, 0.5).cpu()
    xs.mark_sharding(x, mesh_of(N // 2, 2), ("data", "model"))
    torch.manual_seed(3)
    assert torch.equal(functional.dropout(x, 0.5).cpu(), want)


@case
def torch_meshes():
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = DeviceMesh("xla", torch.arange(N).reshape(N // 2, 2))
    a = torch.arange(64.0).reshape(8, 8)
    t = distribute_tensor(a, mesh, [Replicate(), Shard(1)])
    assert t.local_shards[0].data.shape == (8, 4)
    close(t @ t, a @ a)


def main():
    xr.use_spmd()
    assert xr.is_spmd() and xr.global_runtime_device_count() == N
    for name, f in CASES.items():
        try:
            f()
            print(json.dumps([name, None]), flush=True)
        except Exception:
            print(json.dumps([name, traceback.format_exc()]), flush=True)


main()
