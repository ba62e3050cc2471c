"""Two LoRA adapters on one frozen GPT-2: the second is trained by the programs of the first, nothing is compiled again."""

import argparse

import torch
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel


class Adapted(nn.Module):
    """A frozen layer plus a product of two thin matrices."""

    def __init__(self, base, rank):
        super().__init__()
        self.base = base
        width_in, width_out = base.weight.shape  # GPT-2 keeps its weights transposed
        self.down = nn.Parameter(torch.randn(width_in, rank) / width_in**0.5)
        self.up = nn.Parameter(torch.zeros(rank, width_out))

    def forward(self, x):
        return self.base(x) + x @ self.down @ self.up


def with_adapters(model, rank):
    model.requires_grad_(False)
    for block in model.transformer.h:
        block.attn.c_attn = Adapted(block.attn.c_attn, rank)
    return model


def adapter_of(model):
    return {n: p for n, p in model.named_parameters() if p.requires_grad}


def train(model, ids, steps):
    device = xm.xla_device()
    optimizer = torch.optim.AdamW(adapter_of(model).values(), lr=1e-2)
    ids, losses = ids.to(device), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        xm.optimizer_step(optimizer)
        xm.mark_step()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=64)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=500, n_embd=args.width, n_layer=args.layers, n_head=4, n_positions=64, resid_pdrop=0.0,
                        embd_pdrop=0.0, attn_pdrop=0.0, loss_type="ForCausalLMLoss")
    model = with_adapters(GPT2LMHeadModel(config), rank=4).to(xm.xla_device())
    base = {n: p.detach().cpu() for n, p in model.named_parameters() if not p.requires_grad}
    compiled = []
    for task in range(2):
        with torch.no_grad():  # a new adapter, on the same base
            for name, p in adapter_of(model).items():
                p.copy_(torch.zeros_like(p) if name.endswith("up") else torch.randn(p.shape) / p.shape[0] ** 0.5)
        before = met.counter_value("UncachedCompile") or 0
        losses = train(model, torch.randint(0, 500, (4, 32)), args.steps)
        compiled.append((met.counter_value("UncachedCompile") or 0) - before)
        print(f"adapter {task}  loss {losses[0]:.4f} -> {losses[-1]:.4f}  programs compiled {compiled[-1]}")
    for name, p in model.named_parameters():
        assert name not in base or torch.equal(base[name], p.detach().cpu()), "the base must not move"
    return compiled


if __name__ == "__main__":
    main()
