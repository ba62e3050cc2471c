"""neuronx_distributed.kernels.flash_attn: attention whose scores are never stored whole."""

import torch
from torch.nn import functional as F


def nki_flash_attn_func(q, k, v, lnc=1, dropout_p=0.0, softmax_scale=None, causal=True, mixed_precision=True, seed=None, hardware_type=None,
                        transpose_nki_inputs=True):  # fmt: skip
    """q, k, v of (batch, heads, width, sequence), or (…, sequence, width) without transpose_nki_inputs -> (batch, heads, sequence, width)."""
    if transpose_nki_inputs:
        q, k, v = (t.transpose(2, 3) for t in (q, k, v))
    if q.shape[2] % 2048:
        raise NotImplementedError(f"nki_flash_attn_func: found a sequence of {q.shape[2]}, expected a multiple of 2048, as the kernel's tiles")
    if k.shape[1] != q.shape[1]:
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    if seed is not None and dropout_p > 0:
        torch.manual_seed(int(seed))
    return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout_p, is_causal=causal, scale=softmax_scale)
