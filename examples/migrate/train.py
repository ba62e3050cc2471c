"""Trains a small transformer on one GPU: mixed precision, pinned loader, timing by events, a checkpoint. `python train.py --steps 8`.

Plain CUDA, as people write it. `trine audit examples/migrate --diff` shows what changes for Trainium.
"""

import argparse
import os

import torch
import torch.nn as nn
from torch.cuda.amp import GradScaler, autocast
from torch.utils.data import DataLoader, TensorDataset

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
torch.backends.cudnn.benchmark = True
torch.backends.cuda.matmul.allow_tf32 = True


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, words=256, width=64, layers=2, heads=4, length=32):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(words, width), nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(self.blocks(self.tokens(tokens) + self.positions[: tokens.shape[1]]))


def build():
    """For `trine audit --model train:build --inputs 8x32:int64`."""
    return Model()


def batches(count, size, length=32):
    first = torch.randint(0, 256, (count * size, 1))
    rows = (first + torch.arange(length + 1)) % 256  # each word is followed by the next one
    return DataLoader(TensorDataset(rows), batch_size=size, pin_memory=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--checkpoint", default="")
    args = parser.parse_args()

    if not torch.cuda.is_available():
        raise SystemExit("no CUDA device")
    torch.manual_seed(0)
    torch.cuda.manual_seed_all(0)
    device = torch.device("cuda:0")
    torch.cuda.set_device(device)
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)
    scaler = GradScaler()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    losses = []
    start.record()
    for (rows,) in batches(args.steps, args.batch):
        rows = rows.cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with autocast():
            logits = model(rows[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), rows[:, 1:].flatten())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    end.record()
    torch.cuda.synchronize()

    assert next(model.parameters()).is_cuda
    memory = torch.cuda.max_memory_allocated() / 2**20
    print(f"{torch.cuda.get_device_name()}: loss {losses[0]:.3f} -> {losses[-1]:.3f}, {memory:.0f} MiB")
    if args.checkpoint:
        torch.save(model.state_dict(), args.checkpoint)
        model.load_state_dict(torch.load(args.checkpoint, map_location="cuda"))
    torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
