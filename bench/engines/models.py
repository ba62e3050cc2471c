"""BERT and GPT-2 of trine.models as torch modules with the same weights."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

HEADS, LAYERS, WIDTH = 12, 12, 768  # of both


def _tensor(x):
    return torch.from_numpy(np.array(x))


def _table(p):
    return nn.Embedding.from_pretrained(_tensor(p["table"]))


def _linear(p):
    weight = _tensor(p["w"]).T.contiguous()
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.weight, layer.bias = nn.Parameter(weight), nn.Parameter(_tensor(p["b"]))
    return layer


def _norm(p, eps):
    layer = nn.LayerNorm(p["scale"].shape, eps)
    layer.weight, layer.bias = nn.Parameter(_tensor(p["scale"])), nn.Parameter(_tensor(p["bias"]))
    return layer


def attend_past(q, k, v, past_k, past_v):
    """Of one token, without copying what came before."""
    scores = torch.cat([q @ past_k.transpose(-1, -2), q @ k.transpose(-1, -2)], -1)
    weights = torch.softmax(scores * q.shape[-1] ** -0.5, -1)
    before = past_k.shape[2]
    return weights[..., :before] @ past_v + weights[..., before:] @ v


class Block(nn.Module):
    def __init__(self, p, eps, gelu, before):
        super().__init__()
        self.heads, self.gelu, self.before = HEADS, gelu, before
        for name in ("q", "k", "v", "o", "up", "down"):
            setattr(self, name, _linear(p[name]))
        self.norm1, self.norm2 = _norm(p["norm1"], eps), _norm(p["norm2"], eps)

    def attend(self, x, past, causal):
        batch, seq, width = x.shape

        def heads(y):
            return y.reshape(batch, seq, self.heads, -1).transpose(1, 2)

        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        if past is None:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        else:
            y = attend_past(q, k, v, *past)
        return self.o(y.transpose(1, 2).reshape(batch, seq, width))

    def mlp(self, x):
        return self.down(F.gelu(self.up(x), approximate=self.gelu))

    def forward(self, x, past=None, causal=False):
        if self.before:
            x = x + self.attend(self.norm1(x), past, causal)
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attend(x, past, causal))
        return self.norm2(x + self.mlp(x))


class Bert(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.tokens, self.places = _table(p["tokens"]), _tensor(p["positions"]["table"])
        self.kind, self.norm = _tensor(p["types"]["table"])[0], _norm(p["embed_norm"], 1e-12)
        self.blocks = nn.ModuleList(Block(b, 1e-12, "none", False) for b in p["layers"])

    def forward(self, tokens):
        x = self.norm(self.tokens(tokens) + self.places[: tokens.shape[1]] + self.kind)
        for block in self.blocks:
            x = block(x)
        return x


class Gpt2(nn.Module):
    """The last token's logits; of one token with past keys and values, each [batch, heads, places, dim], by layer."""

    def __init__(self, p):
        super().__init__()
        self.tokens, self.places = _table(p["tokens"]), _tensor(p["positions"]["table"])
        self.blocks = nn.ModuleList(Block(b, 1e-5, "tanh", True) for b in p["layers"])
        self.norm = _norm(p["norm"], 1e-5)

    def forward(self, tokens, *past):
        at = past[0].shape[2] if past else 0
        x = self.tokens(tokens) + self.places[at : at + tokens.shape[1]]
        for i, block in enumerate(self.blocks):
            x = block(x, past[2 * i : 2 * i + 2] or None, not past)
        return F.linear(self.norm(x[:, -1]), self.tokens.weight)
