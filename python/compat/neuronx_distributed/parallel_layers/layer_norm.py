"""neuronx_distributed.parallel_layers.layer_norm: torch's, whose gradients are summed over the ranks that have parts of a sequence."""

import torch


class LayerNorm(torch.nn.LayerNorm):
    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None, sequence_parallel_enabled=False):
        super().__init__(normalized_shape, eps, elementwise_affine, bias, device, dtype)
        self.sequence_parallel_enabled = sequence_parallel_enabled
        for p in self.parameters():
            p.sequence_parallel_enabled = sequence_parallel_enabled
