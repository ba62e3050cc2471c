"""neuronx_distributed.modules.qkv_linear: queries, keys and values of grouped attention in one layer cut over its outputs.

With fewer key and value heads than ranks each is there `kv_size_multiplier` times, and its gradient is summed over its copies.
"""

import torch
from torch.nn import functional as F
from torch.nn.parameter import Parameter

from neuronx_distributed.parallel_layers import mappings, parallel_state
from neuronx_distributed.parallel_layers.layers import BaseParallelLinear, _kaiming
from neuronx_distributed.parallel_layers.utils import divide, set_tensor_model_parallel_attributes


class GQAQKVColumnParallelLinear(BaseParallelLinear):
    def __init__(self, input_size, output_sizes, bias=True, gather_output=True, dtype=torch.float32, device=None, init_method=None,
                 sequence_parallel_enabled=False, keep_master_weight=False, kv_size_multiplier=1, fuse_qkv=True, reduce_dtype=torch.float32):  # fmt: skip
        super().__init__(device)
        if gather_output and self.world_size > 1:
            raise ValueError("GQAQKVColumnParallelLinear: found gather_output=True, expected False: attention is computed on each rank's heads")
        self.input_size, self.output_sizes, self.dtype, self.kv_size_multiplier = input_size, list(output_sizes), dtype, kv_size_multiplier
        self.sequence_parallel_enabled, self.sequence_dim, self.reduce_dtype, self.fuse_qkv = sequence_parallel_enabled, 0, reduce_dtype, fuse_qkv
        divide(self.world_size, kv_size_multiplier)
        parallel_state.initialize_kv_group(kv_size_multiplier)
        self.q_output_size_per_partition = divide(output_sizes[0], self.world_size)
        self.kv_output_size_per_partition = divide(output_sizes[1] * kv_size_multiplier, self.world_size)
        self.sizes = [self.q_output_size_per_partition, self.kv_output_size_per_partition, self.kv_output_size_per_partition]
        self.bias_enabled, self.init_method = bias, init_method or _kaiming
        meta = self.device is not None and torch.device(self.device).type == "meta"
        for name, value in self._values("meta" if meta else "cpu").items():
            self._hold(name, value)

    def _values(self, device):
        """This rank's parameters by name; those that the layer does not have are None."""
        weights = [self._drawn([n, self.input_size], k, device) for n, k in self._all_sizes()]
        biases = [self._dealt(self._biases(n, self.input_size, self.dtype), k) if self.bias_enabled else None for n, k in self._all_sizes()]
        found = {}
        for kind, parts in (("weight", weights), ("bias", biases)):
            if self.fuse_qkv:
                found[f"{kind}_qkv"] = torch.cat(parts) if parts[0] is not None else None
            found |= {f"{kind}_{letter}": None if self.fuse_qkv else part for letter, part in zip("qkv", parts)}
        return found

    def initialize_weight_biases(self):
        """Draws all parameters anew: what a param_init_fn calls once a layer of the meta device has memory."""
        with torch.no_grad():
            for name, value in self._values("cpu").items():
                if value is not None:
                    getattr(self, name).copy_(value)

    def _all_sizes(self):
        return [(self.output_sizes[0], 1), (self.output_sizes[1], self.kv_size_multiplier), (self.output_sizes[1], self.kv_size_multiplier)]

    def _dealt(self, whole, times):
        if whole.device.type == "meta":
            return whole[:1].expand(whole.size(0) * times // self.world_size, *whole.shape[1:]).clone()
        return torch.cat([whole] * times).chunk(self.world_size)[self.rank]

    def _drawn(self, shape, times, device):
        whole = torch.empty(shape, device=device)
        if device != "meta":
            with torch.no_grad():
                self.init_method(whole)
        return self._dealt(whole, times)

    def _hold(self, name, value):
        if value is None:
            return self.register_parameter(name, None)
        p = Parameter(value.detach().clone().to(self.dtype).to(self.device))
        set_tensor_model_parallel_attributes(p, True, 0, 1, self.world_size)
        self.register_parameter(name, p)

    def _parts(self, kind):
        fused = getattr(self, f"{kind}_qkv", None)
        parts = list(fused.split(self.sizes)) if fused is not None else [getattr(self, f"{kind}_{letter}") for letter in "qkv"]
        if self.kv_size_multiplier > 1:
            group = parallel_state.get_kv_shared_group()
            parts[1:] = [p if p is None else mappings.copy_to_tensor_model_parallel_region(p, group) for p in parts[1:]]
        return parts

    def forward(self, input):
        x = self._gradient_of_input(input)
        return tuple(F.linear(x, w, b) for w, b in zip(self._parts("weight"), self._parts("bias")))

    def preshard_hook(self, model_state_dict, prefix):
        """A checkpoint's whole key and value weights are repeated; fused ones are dealt part by part."""
        name = prefix.rsplit(".", 1)[-1]
        if name not in ("weight_qkv", "weight_k", "weight_v", "bias_qkv", "bias_k", "bias_v"):
            return
        whole = model_state_dict[prefix]
        if name.endswith("qkv"):
            parts = whole.split([n for n, _ in self._all_sizes()])
            dealt = [torch.cat([p] * k).chunk(self.world_size) for p, (_, k) in zip(parts, self._all_sizes())]
            model_state_dict[prefix] = torch.cat([part for rank in range(self.world_size) for part in (d[rank] for d in dealt)])
        elif whole.size(0) == self.output_sizes[1]:
            model_state_dict[prefix] = torch.cat([whole] * self.kv_size_multiplier)
