"""neuronxcc.nki.kernels.attention."""

from trine.torch.old.flash import FlashConfig, flash_attn_bwd, flash_fwd

__all__ = ["FlashConfig", "flash_attn_bwd", "flash_fwd"]
