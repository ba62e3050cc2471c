"""Serves batches of an image classifier on one GPU: compiled, in half precision, with warm-up and percentiles. `python infer.py`.

Plain CUDA, as people write it. `trine audit examples/migrate --diff` shows what changes for Trainium.
"""

import argparse
import time

import torch
from torch import nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width),
        )  # fmt: skip

    def forward(self, x):
        return torch.relu(x + self.body(x))


class Classifier(nn.Module):
    def __init__(self, width=16, blocks=2, kinds=10):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.Sequential(*(Residual(width) for _ in range(blocks)))
        self.head = nn.Linear(width, kinds)

    def forward(self, images):
        return self.head(self.blocks(self.stem(images)).mean((2, 3)))


def build():
    """For `trine audit --model infer:build --inputs 8x3x32x32`."""
    return Classifier().eval()


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--runs", type=int, default=20)
    args = parser.parse_args()

    torch.manual_seed(0)
    model = build().to(DEVICE)
    plain = build()
    plain.load_state_dict(model.state_dict())
    model = torch.compile(model, mode="reduce-overhead")
    images = torch.randn(args.batch, 3, 32, 32).pin_memory()
    times = []
    for run in range(args.runs + 2):
        begin = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = model(images.to(f"cuda:{torch.cuda.current_device()}", non_blocking=True))
        if out.device.type == "cuda":
            torch.cuda.synchronize()
        if run >= 2:  # the first compile
            times.append(time.perf_counter() - begin)
    error = (out.float().cpu() - plain(images)).abs().max().item()
    times.sort()
    print(f"{out.device}: p50 {1e3 * times[len(times) // 2]:.2f} ms on the host, largest difference from f32 {error:.3f}")
    assert error < 0.1


if __name__ == "__main__":
    main()
