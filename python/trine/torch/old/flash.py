"""The attention kernels that neuronxcc.nki.kernels has, as functions of torch's tensors: what each is given and gives back.

q, k and gradients are (batch, heads, width, sequence); fewer heads of k and v than of q are shared by neighbours. The logarithms of the sums
lie as the kernel's partitions do: (batch, heads, 128, sequence / 128).
"""

from dataclasses import dataclass

import torch

PARTITIONS = 128


@dataclass(frozen=True)
class FlashConfig:
    seq_tile_size: int = 2048
    attn_core_tile_size: int = 256
    training: bool = True
    should_transpose_v: bool = False
    lse_dtype: str = ""


class Kernel:
    """A function that is called with a grid of programs, `kernel[batch, heads](…)`, or without."""

    def __init__(self, function):
        self._function, self.__name__, self.__doc__ = function, function.__name__, function.__doc__

    def __getitem__(self, grid):
        return self._function

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)


def _check(name, q, dropout_p):
    if dropout_p:
        raise NotImplementedError(f"{name}: found dropout_p={dropout_p}, expected 0")
    if q.shape[-1] % PARTITIONS:
        raise ValueError(f"{name}: found a sequence of {q.shape[-1]}, expected a multiple of {PARTITIONS}, as the kernel's tiles")


def _scores(q, k, bias, scale, causal):
    """Of (…, width, sequence): f32, with what is not to be seen at minus infinity."""
    s = torch.matmul(q.transpose(2, 3).float(), k.float()) * scale
    s = s if bias is None else s + bias.float()
    seen = torch.ones(s.shape[2:], dtype=torch.bool, device=s.device).tril(s.shape[3] - s.shape[2])
    return s.masked_fill(~seen, float("-inf")) if causal else s


def _shared(t, heads):
    return t if t.shape[1] == heads else t.repeat_interleave(heads // t.shape[1], 1)


def _summed(t, heads):
    return t if t.shape[1] == heads else t.unflatten(1, (heads, -1)).sum(2)


@Kernel
def flash_fwd(q, k, v, seed=None, logit_bias=None, softmax_scale=None, use_causal_mask=True, mixed_precision=True, dropout_p=0.0, config=None):
    """(batch, heads, sequence, width), and in training the logarithms of the sums; v is (…, sequence, width) unless the config turns it."""
    _check("flash_fwd", q, dropout_p)
    config, heads = config or FlashConfig(), q.shape[1]
    v = v.transpose(2, 3) if config.should_transpose_v else v
    s = _scores(q, _shared(k, heads), logit_bias, softmax_scale or q.shape[2] ** -0.5, use_causal_mask)
    lse = s.logsumexp(-1, keepdim=True)
    o = torch.matmul((s - lse).exp(), _shared(v, heads).float()).to(q.dtype)
    dtype = getattr(torch, config.lse_dtype or "float32")
    return (o, lse.squeeze(-1).unflatten(2, (-1, PARTITIONS)).transpose(2, 3).to(dtype)) if config.training else o


@Kernel
def flash_attn_bwd(q, k, v, o, dy, lse, seed=None, logit_bias=None, use_causal_mask=True, mixed_precision=True, dropout_p=0.0, softmax_scale=None):
    """Gradients of q, k and v; all (batch, heads, width, sequence), with lse as the forward gave it."""
    _check("flash_attn_bwd", q, dropout_p)
    heads, shared, scale = q.shape[1], k.shape[1], softmax_scale or q.shape[2] ** -0.5
    keys, values = _shared(k, heads).float(), _shared(v, heads).float()
    lse = lse.float().transpose(2, 3).flatten(2).unsqueeze(-1)
    p = (_scores(q, keys, logit_bias, scale, use_causal_mask) - lse).exp()
    dy = dy.float()
    delta = (dy * o.float()).sum(2).unsqueeze(-1)
    ds = p * (torch.matmul(dy.transpose(2, 3), values) - delta) * scale
    dq = torch.matmul(keys, ds.transpose(2, 3))
    dk, dv = torch.matmul(q.float(), ds), torch.matmul(dy, p)
    return dq.to(q.dtype), _summed(dk, shared).to(k.dtype), _summed(dv, shared).to(v.dtype)


__all__ = ["FlashConfig", "flash_attn_bwd", "flash_fwd"]
