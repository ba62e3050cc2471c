"""neuronx_distributed.kernels.ring_attention_kernel: each rank has a part of the sequence; keys and values go around the ring."""

import torch

from trine.torch.old import ring


class _Ring(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, *how):
        out, lse = ring.forward(q, k, v, *how)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.how = how
        return out.to(q.dtype)

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, lse = ctx.saved_tensors
        dq, dk, dv = ring.backward(q, k, v, out, lse, grad, *ctx.how)
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None, None, None


def nki_ring_attn_func(q, k, v, rank_id, src_tgt_pairs, dropout_p=0.0, softmax_scale=None, causal=True, mixed_precision=True, seed=None):
    """q, k, v of (batch, heads, part of the sequence, width), in the order of the ring -> the same shape."""
    if dropout_p > 0:
        raise ValueError(f"nki_ring_attn_func: found dropout_p={dropout_p}, expected 0")
    if q.shape[2] % 1024:
        raise NotImplementedError(f"nki_ring_attn_func: found a part of {q.shape[2]}, expected a multiple of 1024, as the kernel's tiles")
    if k.shape[1] != q.shape[1]:
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    return _Ring.apply(q, k, v, [list(p) for p in src_tgt_pairs], rank_id, softmax_scale or q.shape[-1] ** -0.5, causal)
