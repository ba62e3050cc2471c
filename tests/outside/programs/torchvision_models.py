"""Models of torchvision with random weights: classification, segmentation, detection, and transforms."""

import torch
import torchvision
from torchvision.transforms import v2


def run(device):
    x = torch.rand(1, 3, 96, 96, generator=torch.Generator().manual_seed(0)).to(device)
    arrays = {}
    for name in ("squeezenet1_1", "shufflenet_v2_x0_5", "mnasnet0_5", "vgg11"):
        torch.manual_seed(0)
        arrays[name] = torchvision.models.get_model(name, num_classes=10).eval().to(device)(x).detach().cpu()
    torch.manual_seed(0)
    segmentation = torchvision.models.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4)
    arrays["lraspp"] = segmentation.eval().to(device)(x)["out"].detach().cpu()
    boxes = torch.tensor([[0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30.0]])
    scores = torch.tensor([0.9, 0.8, 0.7])
    arrays["iou"] = torchvision.ops.box_iou(boxes.to(device), boxes.to(device)).cpu()
    arrays["nms"] = torchvision.ops.nms(boxes.to(device), scores.to(device), 0.5).cpu()
    arrays["roi_align"] = torchvision.ops.roi_align(x, [boxes.to(device)], output_size=4).cpu()
    change = v2.Compose([v2.Resize(64), v2.CenterCrop(48), v2.Normalize([0.5] * 3, [0.2] * 3)])
    arrays["transforms"] = change(x).cpu()
    return arrays
