"""What Neuron's own compiler and runtime take beside our program, by class of program, what the host adds, and the band.

calibration.json has the numbers; `trine accuracy --update` writes it from published measurements. See docs/estimate.md.
"""

import functools
import json
import math
from pathlib import Path

from trine import _core
from trine.estimate import fit

CLASSES = ("decode", "short prompts", "long prompts", "decoder forward", "encoder", "vision", "convolution", "diffusion", "training")
FORWARD = {
    **dict.fromkeys(("encoder", "seq2seq", "speech"), "encoder"),
    **dict.fromkeys(("vit", "clip", "swin", "perceiver"), "vision"),
    **dict.fromkeys(("resnet", "convnext", "efficientnet", "vgg"), "convolution"),
    **dict.fromkeys(("unet", "vae", "dit", "sd3", "flux"), "diffusion"),
}
LONG = 2048  # tokens of a batch: from here on a hidden state 8,192 wide in bf16 is larger than SBUF
# Of phases in which a serving loop has a part: its name in the table.
HOST_PARTS = {"prefill": "first_token_ms", "decode": "token_ms"}
GENERATIONS = {1: "NeuronCore-v1", 2: "NeuronCore-v2", 3: "NeuronCore-v3", 4: "NeuronCore-v4", 5: "NeuronCore-v5"}


@functools.cache
def table():
    return json.loads((Path(__file__).parent / "calibration.json").read_text())


def kind_of(family, phase, batch, seq):
    """The class that a phase of a model belongs to. family: the kind of its family, as trine.models has it."""
    if phase == "train":
        return "training"
    if phase == "decode":
        return "decode"
    if phase == "prefill":
        return "long prompts" if batch * seq >= LONG else "short prompts"
    return FORWARD.get(family, "decoder forward")


def core_of(chip):
    """The generation of a chip's core: chips of one generation have the same."""
    return GENERATIONS.get(_core.chip(chip)["generation"], chip)


def factor(kind):
    """{"factor", "cases"} of a class; one where too few measurements say anything."""
    return table()["classes"].get(kind, {"factor": 1.0, "cases": 0})


def band(kind, chip):
    """((low, high) as factors of the likely time, what it was made of)."""
    core = core_of(chip)
    bands = table()["bands"]
    found = next((b for b in bands if b["class"] == kind and b["core"] == core), None) or next(b for b in bands if b["class"] == kind)
    return (1 / found["factor"], found["factor"]), found["from"]


def launch_ms(chip):
    """From the host's call to the program's first instruction and back."""
    return _core.chip(chip)["kernel.launch_ns"] / 1e6


def bus_ms(moved):
    """Bytes that cross between host and device."""
    return moved / table()["host"]["bus_bytes_per_ns"]["is"] / 1e6


def host_ms(phase, moved):
    """Bytes that cross the bus, and what a serving loop does around a token."""
    served = table()["host"][HOST_PARTS[phase]]["is"] if phase in HOST_PARTS else 0.0
    return bus_ms(moved) + served


def waiting(kind):
    """The share of the shorter of compute and DMA engines that the other waits for."""
    return table()["waiting"][fit.WAITING[kind]]["is"] if kind in fit.WAITING else 0.0


def fitted():
    """The stored calibration, as fit.fitted gives one."""
    t = table()
    return {"factors": {k: c["factor"] for k, c in t["classes"].items()}, "host": {n: t["host"][n]["is"] for n in HOST_PARTS.values()},
            "waiting": {n: w["is"] for n, w in t["waiting"].items()}}  # fmt: skip


def width(kind, chip):
    """log of the band's factor."""
    return math.log(band(kind, chip)[0][1])


@functools.cache
def tails():
    return json.loads((Path(__file__).parent / "tails.json").read_text())


def tail(phase):
    """p99 as a factor of p50, which nine of ten published rows lie below."""
    return tails()["decode" if phase == "decode" else "other"]["p90"]
