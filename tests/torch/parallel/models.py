"""Small models and data that the cases share: equal on every rank and device."""

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width=16, heads=4):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        h = self.before(x)
        q, k, v = (p(h).unflatten(-1, (-1, p.out_features // self.heads)).transpose(1, 2) for p in (self.q, self.k, self.v))
        x = x + self.o(functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))
        return x + self.down(functional.gelu(self.up(self.after(x))))


class Model(nn.Module):
    def __init__(self, words=32, width=16, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def model(**sizes):
    torch.manual_seed(1)
    return Model(**sizes)


def tokens(rows=8, length=8, words=32):
    return torch.randint(0, words, (rows, length), generator=torch.Generator().manual_seed(2))


def loss_of(logits, tokens):
    return functional.cross_entropy(logits.flatten(0, 1).float(), tokens.roll(-1, 1).flatten())


def trained(network, data, steps=2, optimizer=None, forward=None):
    """Losses and gradient norms of a few steps."""
    optimizer = optimizer or torch.optim.AdamW(network.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (forward or (lambda d: loss_of(network(d), d)))(data)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack([x.full_tensor() if hasattr(x, "full_tensor") else x for x in losses])
