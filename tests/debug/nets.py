"""Factories for the tests of `trine debug`."""

import torch


class Net(torch.nn.Module):
    def __init__(self, eps=1e-5):
        super().__init__()
        self.up, self.norm, self.down = torch.nn.Linear(32, 64), torch.nn.LayerNorm(64, eps=eps), torch.nn.Linear(64, 16)

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.norm(self.up(x))))


def good():
    torch.manual_seed(0)
    return Net(), torch.randn(4, 32)


def bad():
    torch.manual_seed(0)
    return Net(1e-3), torch.randn(4, 32)
