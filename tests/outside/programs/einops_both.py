"""einops on tensors of torch: rearrange, reduce, repeat, einsum, pack."""

import torch
from einops import einsum, pack, rearrange, reduce, repeat


def run(device):
    x = torch.arange(2 * 6 * 8 * 3, dtype=torch.float32).reshape(2, 6, 8, 3).to(device)
    packed, _ = pack([x, x[:, 0]], "b * c")
    return {
        "rearrange": rearrange(x, "b (h p) (w q) c -> b (h w) (p q c)", p=2, q=2).cpu(),
        "reduce": reduce(x, "b (h p) (w q) c -> b h w c", "max", p=2, q=2).cpu(),
        "repeat": repeat(x, "b h w c -> b (r h) w c", r=2).cpu(),
        "einsum": einsum(x, x, "b h w c, b h w d -> b c d").cpu(),
        "pack": packed.cpu(),
    }
