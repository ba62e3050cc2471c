"""Attention over a ring of ranks, each with a part of the sequence: keys and values go around.

Parts of the softmax are joined by the logarithms of their sums. In the backward the gradients of keys and values travel with them.
"""

import torch

from trine.torch.old.collectives import collective_permute
from trine.torch.old.flash import PARTITIONS, FlashConfig, Kernel, _check, _shared, _summed


def _scores(q, k, scale, mine, theirs, causal):
    s = torch.matmul(q, k.transpose(2, 3)).float() * scale
    if causal and mine == theirs:
        s = s.masked_fill(torch.ones(s.shape[2:], dtype=torch.bool, device=s.device).triu(1), float("-inf"))
    return s


def forward(q, k, v, pairs, rank, scale, causal):
    """q, k, v of (batch, heads, part of the sequence, width) -> the same in f32, and the logarithms of the sums with one for the width."""
    ring = [source for source, _ in pairs]
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
    return out, lse


def backward(q, k, v, out, lse, grad, pairs, rank, scale, causal):
    """Gradients of q, k and v in f32."""
    ring = [source for source, _ in pairs]
    me, grad, dq = ring.index(rank), grad.float(), torch.zeros_like(q, dtype=torch.float32)
    delta = (grad * out.float()).sum(-1, keepdim=True)
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
    return dq, carried[2], carried[3]


def _transposed(*tensors):
    return [t.transpose(2, 3) for t in tensors]


@Kernel
def ring_attention_fwd(q, k, v, seed=None, *, rank_id, src_tgt_pairs, use_causal_mask=True, mixed_precision=True, dropout_p=0.0, softmax_scale=None,
                       config=None):  # fmt: skip
    """As flash_fwd, of this rank's part of the sequence."""
    _check("ring_attention_fwd", q, dropout_p)
    scale, heads = softmax_scale or q.shape[2] ** -0.5, q.shape[1]
    q, k = _transposed(q, k)
    v = v.transpose(2, 3) if (config or FlashConfig()).should_transpose_v else v
    out, lse = forward(q, _shared(k, heads), _shared(v, heads), [list(p) for p in src_tgt_pairs], rank_id, scale, use_causal_mask)
    return out.to(q.dtype), lse.squeeze(-1).unflatten(2, (-1, PARTITIONS)).transpose(2, 3)


@Kernel
def ring_attention_bwd(q, k, v, o, dy, lse, seed=None, *, rank_id, src_tgt_pairs, use_causal_mask=True, mixed_precision=True, dropout_p=0.0,
                       softmax_scale=None):  # fmt: skip
    """As flash_attn_bwd."""
    _check("ring_attention_bwd", q, dropout_p)
    scale, heads, shared, dtype = softmax_scale or q.shape[2] ** -0.5, q.shape[1], k.shape[1], q.dtype
    q, k, v, o, dy = _transposed(q, k, v, o, dy)
    lse = lse.float().transpose(2, 3).flatten(2).unsqueeze(-1)
    dq, dk, dv = backward(q, _shared(k, heads), _shared(v, heads), o, lse, dy, [list(p) for p in src_tgt_pairs], rank_id, scale, use_causal_mask)
    return [t.to(dtype) for t in _transposed(dq, _summed(dk, shared), _summed(dv, shared))]


__all__ = ["backward", "forward", "ring_attention_bwd", "ring_attention_fwd"]
