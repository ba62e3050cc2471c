"""What the checks of families against their makers share: small random models, by the weights of a file they wrote."""

import numpy as np
import torch
import transformers

from trine import models

torch.set_num_threads(1)

SIZES = dict(vocab_size=99, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=64)  # fmt: skip
GROUPED = SIZES | dict(num_key_value_heads=2)


def randomised(module, spread=0.3):
    """The module with random weights that no setting leaves without effect; norms near one."""
    torch.manual_seed(0)
    with torch.no_grad():
        for name, value in module.named_parameters():
            value.copy_(torch.randn(value.shape) * (spread if value.ndim > 1 else 0.1) + ("norm" in name.lower() and value.ndim == 1))
    return module.eval()


def pair(kind, config, folder, spread=0.3, **more):
    """(theirs, ours, our parameters): the weights go through a file."""
    theirs = getattr(transformers, kind)
    theirs = randomised(theirs(theirs.config_class(**config, **more)), spread)
    theirs.save_pretrained(folder)
    ours = models.build(folder)
    return theirs, ours, ours.load(folder)


def tokens(rows=2, length=12, limit=99):
    return np.random.default_rng(0).integers(3, limit, (rows, length)).astype(np.int32)


def pixels(size=16, channels=3):
    """(NHWC for us, NCHW for them)"""
    images = np.random.default_rng(1).normal(size=(2, size, size, channels)).astype(np.float32)
    return images, torch.tensor(images.transpose(0, 3, 1, 2))


def near(got, want, limit=2e-5):
    want = want.detach().numpy() if hasattr(want, "detach") else want
    error = np.abs(np.asarray(got) - want).max() / np.abs(want).max()
    assert np.asarray(got).shape == want.shape and error <= limit, f"error {error:.1e} of the largest value; limit {limit:.0e}"
