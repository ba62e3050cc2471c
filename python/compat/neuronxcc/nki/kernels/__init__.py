"""neuronxcc.nki.kernels: attention, as functions of torch's tensors."""

from trine.torch.old.flash import flash_attn_bwd, flash_fwd

__all__ = ["flash_attn_bwd", "flash_fwd"]
