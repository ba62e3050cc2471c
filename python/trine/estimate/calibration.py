"""What Neuron's own compiler and runtime take beside our program, by class of program, and what the host adds.

See calibration.json, which `python -m trine.estimate.accuracy --update` writes, and docs/estimate.md.
"""

import functools
import json
from pathlib import Path

from trine import _core

KINDS = {
    ("encoder", "forward"): "encoder",
    ("vit", "forward"): "encoder",
    ("clip", "forward"): "encoder",
    ("resnet", "forward"): "convolution",
    ("unet", "forward"): "convolution",
    ("convnext", "forward"): "convolution",
    ("efficientnet", "forward"): "convolution",
    ("vgg", "forward"): "convolution",
    ("vae", "forward"): "convolution",
    ("swin", "forward"): "encoder",
    ("speech", "forward"): "encoder",
    ("perceiver", "forward"): "encoder",
    ("dit", "forward"): "encoder",
    ("sd3", "forward"): "encoder",
    ("flux", "forward"): "encoder",
}
# Of phases in which a serving loop has a part: its name in the table.
HOST_PARTS = {"prefill": "first_token_ms", "decode": "token_ms"}


@functools.cache
def table():
    return json.loads((Path(__file__).parent / "calibration.json").read_text())


def kind_of(family, phase, tokens, chip):
    """The class a model's phase belongs to. A prompt too short to keep the tensor engine busy while weights come in is
    bound as decode is, by the DMA engines: two operations for each token and parameter of two bytes."""
    if phase == "decode":
        return "streaming"
    if phase == "train":
        return "train"
    if phase == "prefill" and tokens < balance(chip):
        return "streaming"
    return KINDS.get((family, phase), "prefill")


def balance(chip):
    """bf16 operations that a core's tensor engine does in the time its DMA engines bring a byte."""
    c = _core.chip(chip)
    operations = 2 * c["tensor.rows"] * c["tensor.columns"] * c["tensor.clock_ghz"]
    return operations / (c["dma.rate_bytes_per_ns"] * c["dma.engines_per_core"])


def factor(kind):
    return table()["classes"][kind]


def band(kind):
    """Factors around the likely time: how far published rows lie from it when they are not in the fit."""
    spread = factor(kind)["spread"]
    return 1 / spread, spread


def launch_ms(chip):
    """From the host's call to the program's first instruction and back."""
    return _core.chip(chip)["kernel.launch_ns"] / 1e6


def host_ms(phase, moved):
    """Bytes that cross the bus, and what a serving loop does around a token."""
    host = table()["host"]
    served = host[HOST_PARTS[phase]]["is"] if phase in HOST_PARTS else 0.0
    return moved / host["bus_bytes_per_ns"]["is"] / 1e6 + served


@functools.cache
def tails():
    return json.loads((Path(__file__).parent / "tails.json").read_text())


def tail(phase):
    """p99 as a factor of p50, which nine of ten published rows lie below."""
    return tails()["decode" if phase == "decode" else "other"]["p90"]
