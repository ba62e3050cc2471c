"""Learns a codebook on the GPU, as its README does."""

import torch
from vector_quantize_pytorch import FSQ, VectorQuantize

torch.manual_seed(0)
vq = VectorQuantize(dim=16, codebook_size=32, decay=0.8, commitment_weight=1.0).cuda()
fsq = FSQ(levels=[8, 5, 5]).to("cuda")
x = torch.randn(2, 64, 16, device="cuda")
losses = []
for _ in range(4):
    quantized, indices, loss = vq(x)
    losses.append((quantized - x).square().mean().item())
points, _ = fsq(torch.randn(2, 64, 3).cuda())
torch.cuda.synchronize()
assert losses[-1] < losses[0] and indices.max().item() < 32
print(quantized.device, points.device)
