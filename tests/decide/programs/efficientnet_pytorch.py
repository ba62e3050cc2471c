"""Classifies images on the GPU in half precision."""

import torch
from efficientnet_pytorch import EfficientNet

torch.backends.cudnn.benchmark = True
torch.manual_seed(0)
model = EfficientNet.from_name("efficientnet-b0", num_classes=5).cuda().eval()
images = torch.randn(1, 3, 64, 64).cuda(non_blocking=True)
with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
    out = model(images)
torch.cuda.synchronize()
assert out.shape == (1, 5) and torch.isfinite(out).all().item()
print(out.device)
