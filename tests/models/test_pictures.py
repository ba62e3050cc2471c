"""Models of images beyond the first ones, against `transformers`; VGG against the layers its paper lists, by torchvision's names."""

import jax
import numpy as np
import pytest
import safetensors.torch
import torch
from model_checks import near, pair, pixels, randomised
from trine import models

PIXELS = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, image_size=16, patch_size=4)
SWIN = dict(image_size=24, patch_size=2, embed_dim=8, depths=[2, 2], num_heads=[2, 4], window_size=4, num_labels=5)
CASES = {
    "dinov2": ("Dinov2ForImageClassification", PIXELS | dict(num_labels=5), 16),
    "dinov2 giant": ("Dinov2Model", PIXELS | dict(use_swiglu_ffn=True), 16),
    "convnext": ("ConvNextForImageClassification", dict(hidden_sizes=[8, 16], depths=[1, 2], num_stages=2, num_labels=5), 32),
    "convnextv2": ("ConvNextV2ForImageClassification", dict(hidden_sizes=[8, 16], depths=[1, 2], num_stages=2, num_labels=5), 32),
    "swin": ("SwinForImageClassification", SWIN, 24),
    "swin in windows as large as the image": ("SwinForImageClassification", SWIN | dict(window_size=6), 24),
    "efficientnet": ("EfficientNetForImageClassification", dict(
        width_coefficient=1.0, depth_coefficient=1.2, image_size=32, in_channels=[32, 16], out_channels=[16, 24], strides=[1, 2],
        kernel_sizes=[3, 5],
        expand_ratios=[1, 6], num_block_repeats=[1, 2], hidden_dim=1280, num_labels=5), 32),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_picture(name, tmp_path):
    kind, config, size = CASES[name]
    theirs, ours, params = pair(kind, config, tmp_path)
    images, given = pixels(size)
    with torch.no_grad():
        out = theirs(given)
    near(jax.jit(ours.forward)(params, {"images": images}), out.logits if hasattr(out, "logits") else out.last_hidden_state)


@pytest.mark.parametrize("name, size", [("vgg11", 224), ("vgg16_bn", 32)])
def test_vgg(name, size, tmp_path):
    width, hidden, layers, have = 8, 24, [], 3
    counts = {"vgg11": (1, 1, 2, 2, 2), "vgg16_bn": (2, 2, 3, 3, 3)}[name]
    for i, count in enumerate(counts):
        for _ in range(count):
            layers += [torch.nn.Conv2d(have, width * min(8, 2**i), 3, padding=1)]
            have = width * min(8, 2**i)
            layers += ([torch.nn.BatchNorm2d(have)] if "bn" in name else []) + [torch.nn.ReLU()]
        layers.append(torch.nn.MaxPool2d(2))
    theirs = torch.nn.Module()
    theirs.features = torch.nn.Sequential(*layers)
    nn = torch.nn
    theirs.classifier = nn.Sequential(nn.Linear(have * 49, hidden), nn.ReLU(), nn.Dropout(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(),
        nn.Linear(hidden, 5))
    randomised(theirs, 0.1)
    safetensors.torch.save_file(theirs.state_dict(), tmp_path / "model.safetensors")
    ours = models.build(dict(model_type="vgg", architecture=name, width=width, hidden_size=hidden, num_classes=5))
    images, given = pixels(size)
    with torch.no_grad():
        x = torch.nn.functional.adaptive_avg_pool2d(theirs.features(given), 7)
        want = theirs.classifier(x.flatten(1))
    near(jax.jit(ours.forward)(ours.load(tmp_path), {"images": images}), want)


def test_vgg_counts_what_is_published():
    """torchvision's own numbers of parameters."""
    counts = {"vgg11": 132_863_336, "vgg16": 138_357_544, "vgg19": 143_667_240, "vgg16_bn": 138_365_992}
    assert {name: models.build({"architecture": name}).parameters_count() for name in counts} == counts
    assert np.prod(models.build({"architecture": "vgg16"}).input_shapes("forward", 1, None)["images"].shape) == 224 * 224 * 3
