"""Linear attention on the GPU, forward and backward."""

import torch
from linformer import Linformer

torch.manual_seed(0)
model = Linformer(dim=32, seq_len=64, depth=2, heads=4, k=16).cuda()
x = torch.randn(1, 64, 32).cuda()
model(x).sum().backward()
gradient = next(model.parameters()).grad
assert gradient.is_cuda and torch.isfinite(gradient).all().item()
print(gradient.device, torch.cuda.get_device_name(0))
