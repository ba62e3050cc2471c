"""What Neuron's own compiler and runtime take beside our program, by class of program. See calibration.json."""

import functools
import json
from pathlib import Path

KINDS = {
    ("encoder", "forward"): "encoder",
    ("vit", "forward"): "encoder",
    ("clip", "forward"): "encoder",
    ("resnet", "forward"): "convolution",
    ("unet", "forward"): "convolution",
}


@functools.cache
def table():
    return json.loads((Path(__file__).parent / "calibration.json").read_text())


def kind_of(family, phase):
    """The class a model's phase belongs to."""
    return KINDS.get((family, phase), phase if phase in ("prefill", "decode", "train") else "prefill")


def factor(kind):
    return table()["classes"][kind]


def band(kind):
    """Factors around the likely time: how far the class's own rows lie from it."""
    spread = factor(kind)["spread"]
    return 1 / spread, spread


def host_ms(phase):
    """What the host adds to one call: queueing and the copies of inputs and outputs."""
    return table()["host_ms"].get(phase, table()["host_ms"]["default"])
