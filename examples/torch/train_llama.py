"""A Llama trained from nothing on many cores: FSDP2 or DDP, with gradient accumulation.

    torchrun --nproc_per_node=32 train_llama.py --model llama-5m --gradient-accumulation-steps 8

Every rank takes its part of each batch; the mean loss is that of one process with the same --global-batch-size.
"""

import argparse
import contextlib
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

MODELS = {  # width, layers, heads, heads of keys and values, vocabulary
    "llama-1m": (128, 2, 4, 2, 1024),
    "llama-5m": (256, 4, 8, 4, 2048),
    "llama-20m": (512, 6, 8, 4, 4096),
}


class Attention(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.size = width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, kv_heads * self.size, bias=False)
        self.v = nn.Linear(width, kv_heads * self.size, bias=False)
        self.o = nn.Linear(width, width, bias=False)

    def forward(self, x, cos, sin):
        q, k, v = (f(x).unflatten(-1, (-1, self.size)).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o(out.transpose(1, 2).flatten(-2))


def rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class Block(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        hidden = width * 8 // 3 // 64 * 64
        self.attention_norm, self.mlp_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = Attention(width, heads, kv_heads)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.attention_norm(x), cos, sin)
        y = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, width, layers, heads, kv_heads, vocabulary):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads, kv_heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.size = width // heads

    def forward(self, ids):
        steps = torch.arange(ids.shape[1], dtype=torch.float32)
        angles = torch.outer(steps, 10000 ** (-torch.arange(0, self.size, 2) / self.size)).repeat(1, 2).to(ids.device)
        cos, sin, x = angles.cos(), angles.sin(), self.embed(ids)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


def arguments():
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--model", choices=MODELS, default="llama-5m")
    ask.add_argument("--parallel", choices=("fsdp", "ddp"), default="fsdp")
    ask.add_argument("--gradient-accumulation-steps", type=int, default=8)
    ask.add_argument("--global-batch-size", type=int, default=256, help="sequences of a step, over all ranks")
    ask.add_argument("--seq", type=int, default=128)
    ask.add_argument("--steps", type=int, default=3)
    ask.add_argument("--device", default="neuron")
    return ask.parse_args()


def spread(model, kind, device):
    """The model over all ranks, and a context in which gradients stay where they are."""
    if kind == "ddp":
        model = DistributedDataParallel(model)
        return model, lambda is_last: contextlib.nullcontext() if is_last else model.no_sync()
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=False)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)

    def accumulate(is_last):
        model.set_requires_gradient_sync(is_last)
        model.set_reshard_after_backward(is_last)
        return contextlib.nullcontext()

    return model, accumulate


def main():
    asked = arguments()
    dist.init_process_group({"neuron": "neuron", "cpu": "gloo"}[asked.device])
    rank, ranks = dist.get_rank(), dist.get_world_size()
    parts = ranks * asked.gradient_accumulation_steps
    assert asked.global_batch_size % parts == 0, f"--global-batch-size is to be a multiple of {parts}"
    torch.manual_seed(0)
    model, accumulate = spread(Llama(*MODELS[asked.model]).to(asked.device), asked.parallel, asked.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    vocabulary = MODELS[asked.model][-1]
    dist.barrier()
    if rank == 0:
        print(f"{ranks} ranks are ready", flush=True)
    g = torch.Generator().manual_seed(1)
    for step in range(asked.steps):
        began = time.perf_counter()
        batch = torch.randint(vocabulary, (asked.global_batch_size, asked.seq + 1), generator=g)
        total = torch.zeros((), device=asked.device)
        mine = batch.chunk(ranks)[rank].chunk(asked.gradient_accumulation_steps)
        for n, ids in enumerate(mine):
            ids = ids.to(asked.device)
            with accumulate(n == len(mine) - 1):
                logits = model(ids[:, :-1])
                loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()) / len(mine)
                loss.backward()
            total += loss.detach()
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(total, op=dist.ReduceOp.SUM)
        if rank == 0:
            print(f"step {step}: loss {total.item() / ranks:.4f}, {time.perf_counter() - began:.2f} s", flush=True)
    if rank == 0 and asked.device == "neuron":
        print(f"at most {torch.neuron.max_memory_allocated() / 1e6:.0f} MB of tensors a rank", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
