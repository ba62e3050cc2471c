"""neuronxcc.nki._pre_prod_kernels.ring_attention."""

from trine.torch.old.ring import ring_attention_bwd, ring_attention_fwd

__all__ = ["ring_attention_bwd", "ring_attention_fwd"]
