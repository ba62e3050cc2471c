"""Choices of Neuron's own compiler and libraries that ours does not make, by SDK version: files of sdk/, each line with its
evidence. The likely time follows them where they are known; calibration.json has factors for what is not.
"""

import functools
import json
from pathlib import Path

from trine import _core

SCORE_BYTES = 4  # softmax is computed in f32
# Classes whose programs of ours move spills and weights in shorter rows than Neuron's do.
SPILLING = ("training", "convolution", "short prompts", "long prompts", "decoder forward")
COMPUTE = ("tensor", "vector", "scalar", "gpsimd")


@functools.cache
def versions():
    """{(2, 18): content}, oldest first."""
    found = {}
    for path in (Path(__file__).parent / "sdk").glob("sdk-*.json"):
        content = json.loads(path.read_text())
        found[number(content["version"])] = content
    return dict(sorted(found.items()))


def number(version):
    try:
        return tuple(int(part) for part in version.split(".")[:2])
    except ValueError:
        raise ValueError(f'--sdk "{version}"; a version such as 2.18 is expected') from None


def choice(name, sdk=None):
    """What a version does: the newest file that is not newer than it has the line, or an older one. None: nothing is known."""
    upto = number(sdk) if sdk else max(versions())
    known = [v for at, v in versions().items() if at <= upto] or [next(iter(versions().values()))]
    for content in reversed(known):
        if name in content["choices"]:
            return content["choices"][name]["is"]
    return None


def fused_attention(batch, seq, head_dim, lnc, sdk=None):
    """Whether attention of a prompt is one kernel, which keeps its scores on the chip."""
    rule = choice("prefill.attention_kernel.lnc2") if lnc > 1 else choice("prefill.attention_kernel", sdk)
    return seq >= rule["tokens_min"] and batch <= rule["batch_max"] and head_dim <= rule["head_dim_max"]


def unfused_ms(model, phase, batch, seq, at, sdk=None):
    """For a prompt's scores that are written out, as there is no kernel and those of a layer do not fit on the chip: for each
    token and layer with attention a transfer that waits for the one before."""
    s = model.settings
    if phase != "prefill" or model.family.kind != "decoder" or not s.heads or fused_attention(batch, seq, s.head_dim, at.lnc, sdk):
        return 0.0
    heads = -(-s.heads // at.shards)
    chip = _core.chip(at.instance["chip"])
    room = chip["partitions"] * chip["sbuf.bytes_per_partition"]
    if batch * heads * seq * seq * SCORE_BYTES <= room:
        return 0.0
    layers = sum(s.layer(i).mixer not in ("convolution", "state", "recurrence") for i in range(s.layers))
    return batch * seq * layers * transfer_ns(chip) / 1e6


def short_rows_ms(model, at, size, sdk=None):
    """How much longer than at the DMA engines' rate the weights of MLPs take whose columns on a core make no tile but the least,
    as they then come in rows of less than what a descriptor moves in its least time. size: bytes of a weight."""
    s, rule = model.settings, choice("tiles.columns", sdk)
    if model.family.kind != "decoder" or not is_serial(at.instance["chip"]):
        return 0.0
    chip = _core.chip(at.instance["chip"])
    rate, own, total = chip["dma.rate_bytes_per_ns"], chip["dma.descriptor_strided_ns"], 0.0
    for layer in map(s.layer, range(s.layers)):
        columns = -(-layer.ffn // at.shards)
        row = size * tile_columns(columns, rule)
        if layer.experts or layer.block == "bare" or not row or row >= rule["row_bytes_least"]:
            continue
        rows = (3 if layer.gated else 2) * layer.width * columns * size / row
        total += rows * (rule["row_bytes_least"] / rate + own - row / rate)
    return total / chip["dma.engines_per_core"] / 1e6


def norms_ms(model, phase, batch, seq, at, size, sdk=None):
    """For a prompt's sums over cores that layer norms read with channels on partitions: an element a descriptor, on every core."""
    s, rule = model.settings, choice("prefill.layer_norm", sdk)
    if phase != "prefill" or model.family.kind != "decoder" or at.tp < 2 or not is_serial(at.instance["chip"]):
        return 0.0
    if not rule or batch * seq > rule["tokens_most"]:
        return 0.0
    chip = _core.chip(at.instance["chip"])
    each = chip["dma.descriptor_strided_ns"] + size / chip["dma.rate_bytes_per_ns"]
    wide = sum(layer.width for layer in map(s.layer, range(s.layers)) if layer.norm in ("layer", "centred"))
    return rule["sums_a_layer"] * wide * batch * seq * each / chip["dma.engines_per_core"] / 1e6


def tile_columns(columns, rule):
    """Of a weight with so many columns: all of them, or the largest part that divides them; 0 where tiles end within."""
    least, most = rule["least"], rule["most"]
    if columns % least:
        return 0
    return max(n * least for n in range(1, most // least + 1) if columns // least % n == 0)


def transfer_ns(chip):
    """From a transfer's start to the next one's, where each waits for the one before."""
    return chip["dma.start_sync_ns"] + chip["dma.completion_ns"] + chip["dma.ring_turnaround_ns"]


def tail(model, sdk=None):
    """How much more a program computes of sequences that end within a tile: tails are computed whole. A sequence that is
    shorter than a tile has none: an instruction takes as long for its rows as for a tile's, in our program too."""
    towers = {"vit": lambda s: s, "clip": lambda s: s.vision}
    if model.family.kind not in towers:
        return 1.0
    tile, tokens = choice("tiles.tokens", sdk), towers[model.family.kind](model.settings).patches + 1
    return -(-tokens // tile) * tile / tokens if tokens > tile else 1.0


def serial_ms(busy, chip):
    """Compute engines one after the other on cores whose engines share ports (NeuronCore-v2); on others, the longest."""
    times = [ms for unit, ms in busy.items() if unit in COMPUTE]
    return sum(times) if is_serial(chip) else max(times, default=0.0)


def is_serial(chip):
    return _core.chip(chip)["generation"] == 2


def out_of_range(chip):
    """Why times of a chip are not to be used; nothing for those that are."""
    if _core.chip(chip)["generation"] > 1:
        return ""
    return "NeuronCore-v1 is out of range: its memories and rates are not published, and measured times were 4 to 30 times shorter"
