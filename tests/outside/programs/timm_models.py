"""Image models of timm with random weights: logits, and the gradient of the first weights."""

import timm
import torch

MODELS = ["resnet18", "mobilenetv3_small_050", "efficientnet_b0", "vit_tiny_patch16_224", "convnext_atto", "swin_tiny_patch4_window7_224",
          "regnetx_002", "ghostnet_100", "mixer_s32_224", "levit_128s"]


def run(device):
    arrays = {}
    for name in MODELS:
        torch.manual_seed(0)
        model = timm.create_model(name, pretrained=False, num_classes=10).eval().to(device)
        x = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(1)).to(device)
        logits = model(x)
        logits.pow(2).sum().backward()
        arrays[name] = logits.detach().cpu()
        arrays[f"{name}-gradient"] = next(model.parameters()).grad.cpu()
    return arrays
