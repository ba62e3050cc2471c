"""neuronx_distributed.modules.rms_norm."""

import torch


class RMSNorm(torch.nn.Module):
    """In f32 inside."""

    def __init__(self, normalized_shape, eps=1e-5, sequence_parallel_enabled=False, **_):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.weight = eps, torch.nn.Parameter(torch.ones(self.normalized_shape))
        self.weight.sequence_parallel_enabled = sequence_parallel_enabled

    def forward(self, x):
        wide = x.float()
        dims = tuple(range(-len(self.normalized_shape), 0))
        return (self.weight * (wide * torch.rsqrt(wide.square().mean(dims, keepdim=True) + self.eps))).to(x.dtype)
