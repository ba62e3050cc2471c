"""Sound waves to states or to letters, as wav2vec 2.0 does it: convolutions, then an encoder.

inputs["waves"] are [batch, samples]. Positions come from one wide convolution over groups of channels.
"""

import jax

from trine.models import parameters as p
from trine.models.block import block, block_parameters, layer_scope, normed
from trine.models.convolution import conv1
from trine.models.layers import ACTIVATIONS, dense, norm
from trine.models.training import cross_entropy


def parameters(c):
    s, have, stem = c.stack, 1, []
    for i, (width, size) in enumerate(zip(c.widths, c.kernels, strict=True)):
        normed_here = c.stem_norm == "layer" or i == 0
        stem.append({"conv": p.conv1(size, have, width, c.stem_bias)} | ({"norm": p.norm(width, "layer")} if normed_here else {}))
        have = width
    tree = {
        "stem": stem,
        "into_norm": p.norm(have, "layer"),
        "into": p.dense(have, s.width),
        "positions": p.conv1(c.wide, s.width, s.width, True, c.groups),
        "norm": p.norm(s.width, "layer"),
        "layers": [block_parameters(s) for _ in range(s.layers)],
    }
    return tree | ({"head": p.dense(s.width, c.letters)} if c.letters else {})


@jax.named_scope("stem")
def heard(params, c, waves):
    """[batch, times, channels]"""
    x = waves[..., None]
    for layer, stride in zip(params["stem"], c.strides, strict=True):
        x = conv1(layer["conv"], x, stride)
        if "norm" in layer and c.stem_norm == "layer":
            x = norm(layer["norm"], x, 1e-5)
        elif "norm" in layer:  # of each channel over all times
            x = norm({"scale": 1.0, "bias": 0.0}, x.swapaxes(1, 2), 1e-5).swapaxes(1, 2) * layer["norm"]["scale"] + layer["norm"]["bias"]
        x = ACTIVATIONS[c.stem_activation](x)
    return x


def states(params, c, waves, axis=None):
    s = c.stack
    x = heard(params, c, waves)
    x = dense(params["into"], norm(params["into_norm"], x, s.eps))
    half = c.wide // 2
    with jax.named_scope("positions"):
        x = x + ACTIVATIONS[c.stem_activation](conv1(params["positions"], x, 1, (half, half - (1 - c.wide % 2)), c.groups))
    x = x if s.block == "pre" else normed(params["norm"], s, x)
    for i, layer in enumerate(params["layers"]):
        with layer_scope(i):
            x, _ = block(layer, s, x, axis=axis)
    return normed(params["norm"], s, x) if s.block == "pre" else x


def forward(params, c, inputs, axis=None):
    """Logits of the letter at each time, or the states where there are no letters."""
    x = states(params, c, inputs["waves"], axis)
    with jax.named_scope("head"):
        return dense(params["head"], x) if c.letters else x


def loss(params, c, inputs, axis=None):
    """Cross-entropy of inputs["labels"], a letter for each time."""
    return cross_entropy(forward(params, c, inputs, axis), inputs["labels"])


def times(c, samples):
    for size, stride in zip(c.kernels, c.strides, strict=True):
        samples = (samples - size) // stride + 1
    return samples


def input_shapes(c, phase, batch, seq):
    """`seq` is the number of samples."""
    waves = {"waves": ((batch, seq), "float")}
    return waves | ({"labels": ((batch, times(c, seq)), "int32")} if phase == "train" else {})
