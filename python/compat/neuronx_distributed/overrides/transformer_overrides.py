"""neuronx_distributed.overrides.transformer_overrides: rotary positions of heads whose sequence may lie in the last dim."""

import torch


def rotate_half(x, flash_attn=False, transpose=True):
    dim = -2 if flash_attn and transpose else -1
    one, two = x.chunk(2, dim)
    return torch.cat((-two, one), dim)


def apply_rotary_pos_emb(q, k, cos, sin, position_ids, flash_attn, transpose_nki_inputs=True):
    """q and k of (batch, heads, sequence, width), or (…, width, sequence) for the flash kernel's layout."""
    cos, sin = ((t if position_ids is None else t[position_ids]).unsqueeze(1) for t in (cos, sin))
    if flash_attn and transpose_nki_inputs:
        cos, sin = cos.transpose(2, 3), sin.transpose(2, 3)
    return tuple(t * cos + rotate_half(t, flash_attn, transpose_nki_inputs) * sin for t in (q, k))
