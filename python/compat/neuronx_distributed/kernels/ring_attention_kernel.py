"""neuronx_distributed.kernels.ring_attention_kernel: each rank has a part of the sequence; keys and values go around the ring.

Parts of the softmax are joined by the logarithms of their sums. In the backward the gradients of keys and values travel with them.
"""

import torch

from trine.torch.old.collectives import collective_permute


def _scores(q, k, scale, mine, theirs, causal):
    s = torch.matmul(q, k.transpose(2, 3)).float() * scale
    if causal and mine == theirs:
        s = s.masked_fill(torch.ones(s.shape[2:], dtype=torch.bool, device=s.device).triu(1), float("-inf"))
    return s


class _Ring(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, ring, pairs, rank, scale, causal):
        me, out, lse = ring.index(rank), None, None
        kv = torch.stack([k, v])
        for step in range(len(ring)):
            theirs = (me - step) % len(ring)
            if not causal or theirs <= me:
                s = _scores(q, kv[0], scale, me, theirs, causal)
                part = s.logsumexp(-1, keepdim=True)
                o = torch.matmul((s - part).exp(), kv[1].float())
                total = part if lse is None else torch.logaddexp(lse, part)
                out = o if lse is None else out * (lse - total).exp() + o * (part - total).exp()
                lse = total
            if step < len(ring) - 1:
                kv = collective_permute(kv, pairs)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.ring = ring, pairs, me, scale, causal
        return out.to(q.dtype)

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, lse = ctx.saved_tensors
        ring, pairs, me, scale, causal = ctx.ring
        grad, dq = grad.float(), torch.zeros_like(q, dtype=torch.float32)
        delta = (grad * out).sum(-1, keepdim=True)
        carried = torch.stack([k.float(), v.float(), torch.zeros_like(k, dtype=torch.float32), torch.zeros_like(v, dtype=torch.float32)])
        for step in range(len(ring)):
            theirs = (me - step) % len(ring)
            if not causal or theirs <= me:
                p = (_scores(q.float(), carried[0], scale, me, theirs, causal) - lse).exp()
                ds = p * (torch.matmul(grad, carried[1].transpose(2, 3)) - delta) * scale
                dq += torch.matmul(ds, carried[0])
                carried[2] += torch.matmul(ds.transpose(2, 3), q.float())
                carried[3] += torch.matmul(p.transpose(2, 3), grad)
            carried = collective_permute(carried, pairs)
        return dq.to(q.dtype), carried[2].to(k.dtype), carried[3].to(v.dtype), None, None, None, None, None


def nki_ring_attn_func(q, k, v, rank_id, src_tgt_pairs, dropout_p=0.0, softmax_scale=None, causal=True, mixed_precision=True, seed=None):
    """q, k, v of (batch, heads, part of the sequence, width), in the order of the ring -> the same shape."""
    if dropout_p > 0:
        raise ValueError(f"nki_ring_attn_func: found dropout_p={dropout_p}, expected 0")
    if q.shape[2] % 1024:
        raise NotImplementedError(f"nki_ring_attn_func: found a part of {q.shape[2]}, expected a multiple of 1024, as the kernel's tiles")
    if k.shape[1] != q.shape[1]:
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    ring = [source for source, _ in src_tgt_pairs]
    return _Ring.apply(q, k, v, ring, [list(p) for p in src_tgt_pairs], rank_id, softmax_scale or q.shape[-1] ** -0.5, causal)
