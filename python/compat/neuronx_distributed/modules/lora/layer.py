"""neuronx_distributed.modules.lora.layer: a layer with a product of two small matrices beside its weight.

Where the layer is cut over its outputs A is whole and B cut, over its inputs A cut and B whole.
"""

import math

import torch
from torch import nn

from neuronx_distributed.modules.moe.moe_parallel_layers import ExpertFusedLinear
from neuronx_distributed.modules.qkv_linear import GQAQKVColumnParallelLinear
from neuronx_distributed.parallel_layers.layers import ColumnParallelLinear, RowParallelLinear


class LoraLayer(nn.Module):
    def __init__(self, base_layer, lora_config):
        super().__init__()
        self.base_layer, self.lora_rank, self.merged = base_layer, lora_config.lora_rank, False
        self.scaling = lora_config.lora_alpha / (math.sqrt(self.lora_rank) if lora_config.use_rslora else self.lora_rank)
        self.lora_dropout = nn.Dropout(lora_config.lora_dropout) if lora_config.lora_dropout > 0 else nn.Identity()
        self.make(lora_config)
        weight = next(base_layer.parameters())
        for p in self._adapters():
            p.data = p.data.to(weight.device)

    def make(self, config):
        self.lora_A, self.lora_B = self._matrices(self.base_layer)
        if config.init_lora_weights == "gaussian":
            nn.init.normal_(self.lora_A.weight, std=1 / self.lora_rank)
        else:
            nn.init.kaiming_uniform_(self.lora_A.weight, a=math.sqrt(5))
        for p in self.lora_B.parameters():
            nn.init.zeros_(p)

    def _matrices(self, base):
        return nn.Linear(base.in_features, self.lora_rank, bias=False), nn.Linear(self.lora_rank, base.out_features, bias=False)

    def _adapters(self):
        return [p for n, p in self.named_parameters() if n.startswith("lora_")]

    def get_base_layer(self):
        return self.base_layer

    def get_delta_weight(self):
        return self.lora_B.weight @ self.lora_A.weight * self.scaling

    @torch.no_grad()
    def merge(self, safe_merge=False):
        if not self.merged:
            delta = self.get_delta_weight()
            if safe_merge and not torch.isfinite(delta).all():
                raise ValueError("merge: found values in an adapter that are not finite, expected numbers")
            self.base_layer.weight += delta.to(self.base_layer.weight.dtype)
            self.merged = True

    @torch.no_grad()
    def unmerge(self):
        if self.merged:
            self.base_layer.weight -= self.get_delta_weight().to(self.base_layer.weight.dtype)
            self.merged = False

    def forward(self, x, *args, **kwargs):
        out = self.base_layer(x, *args, **kwargs)
        if self.merged:
            return out
        added = self._added(x)
        if isinstance(out, tuple):
            return (out[0] + added.to(out[0].dtype), *out[1:])
        return out + added.to(out.dtype)

    def _added(self, x):
        return self.lora_B(self.lora_A(self.lora_dropout(x.to(self.lora_A.weight.dtype)))) * self.scaling


class LoraParallelLinear(LoraLayer):
    def _matrices(self, base):
        sequence = {"sequence_parallel_enabled": base.sequence_parallel_enabled, "sequence_dimension": base.sequence_dim}
        group = {"tensor_model_parallel_group": base.tensor_parallel_group}
        if isinstance(base, RowParallelLinear):
            a = RowParallelLinear(base.input_size, self.lora_rank, bias=False, input_is_parallel=base.input_is_parallel, **sequence, **group)
            b = nn.Linear(self.lora_rank, base.output_size, bias=False)
            b.weight.sequence_parallel_enabled = base.sequence_parallel_enabled
        else:
            a = nn.Linear(base.input_size, self.lora_rank, bias=False)
            a.weight.sequence_parallel_enabled = base.sequence_parallel_enabled
            b = ColumnParallelLinear(self.lora_rank, base.output_size, bias=False, gather_output=base.gather_output, **sequence, **group)
        return a, b

    def get_delta_weight(self):
        return self.lora_B.weight @ self.lora_A.weight * self.scaling


class LoraGQAQKVParallelLinear(LoraLayer):
    def _matrices(self, base):
        a = nn.Linear(base.input_size, self.lora_rank, bias=False)
        a.weight.sequence_parallel_enabled = base.sequence_parallel_enabled
        b = GQAQKVColumnParallelLinear(self.lora_rank, base.output_sizes, bias=False, gather_output=False, fuse_qkv=base.fuse_qkv,
                                       kv_size_multiplier=base.kv_size_multiplier, sequence_parallel_enabled=base.sequence_parallel_enabled)  # fmt: skip
        return a, b

    @torch.no_grad()
    def _add(self, sign):
        for name in ("weight_qkv", "weight_q", "weight_k", "weight_v"):
            weight, b = getattr(self.base_layer, name, None), getattr(self.lora_B, name, None)
            if weight is not None:
                weight += sign * self.scaling * (b @ self.lora_A.weight).to(weight.dtype)

    def merge(self, safe_merge=False):
        if not self.merged:
            self._add(1)
            self.merged = True

    def unmerge(self):
        if self.merged:
            self._add(-1)
            self.merged = False

    def forward(self, x, *args, **kwargs):
        out = self.base_layer(x, *args, **kwargs)
        if self.merged:
            return out
        added = self.lora_B(self.lora_A(self.lora_dropout(x.to(self.lora_A.weight.dtype))))
        return tuple(o + (a * self.scaling).to(o.dtype) for o, a in zip(out, added))


class LoraEmbedding(LoraLayer):
    def make(self, config):
        base = self.base_layer
        self.lora_embedding_A = nn.Parameter(torch.zeros(self.lora_rank, base.num_embeddings))
        self.lora_embedding_B = nn.Parameter(torch.randn(base.embedding_dim, self.lora_rank))

    def get_delta_weight(self):
        return (self.lora_embedding_B @ self.lora_embedding_A).T * self.scaling

    def _added(self, x):
        return nn.functional.embedding(x, self.lora_embedding_A.T) @ self.lora_embedding_B.T * self.scaling


class LoraConv2d(LoraLayer):
    def _matrices(self, base):
        a = nn.Conv2d(base.in_channels, self.lora_rank, base.kernel_size, base.stride, base.padding, bias=False)
        return a, nn.Conv2d(self.lora_rank, base.out_channels, 1, bias=False)

    def get_delta_weight(self):
        return torch.einsum("or,rikl->oikl", self.lora_B.weight[:, :, 0, 0], self.lora_A.weight) * self.scaling


KINDS = [(GQAQKVColumnParallelLinear, LoraGQAQKVParallelLinear), (ColumnParallelLinear, LoraParallelLinear), (RowParallelLinear, LoraParallelLinear),
         (nn.Linear, LoraLayer), (nn.Embedding, LoraEmbedding), (nn.Conv2d, LoraConv2d)]  # fmt: skip


def adapted(layer, config, name):
    kind = None if isinstance(layer, ExpertFusedLinear) else next((k for of, k in KINDS if isinstance(layer, of)), None)
    if kind is None:
        raise ValueError(f"LoRA: found {name} of type {type(layer).__name__}, expected one of {', '.join(of.__name__ for of, _ in KINDS)}")
    return kind(layer, config)
