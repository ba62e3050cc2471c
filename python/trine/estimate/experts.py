"""Prompts of mixtures of experts as Neuron's library runs them: tokens sorted into blocks of one size, each of one expert.

Our programs give every token to every expert. The library has as many blocks as the worst routing needs, all of them
computed whole; a block's tokens are gathered from memory, and what comes of them is added to their rows there.
"""

import dataclasses
import re

from trine import _core
from trine.estimate import neuron

CHUNK = 2048  # tokens at once of a longer prompt of ours, each of which reads the weights; see program.py
LAYER = re.compile(r"\blayer (\d+)")


@dataclasses.dataclass(frozen=True)
class Blocks:
    """Of a prompt: `factors` by the number of a layer with experts, (of what is computed, of the weights that are read), each
    as a multiple of our program's; and how long the tokens' rows take to go from and to memory, in ms."""

    size: int = 0
    factors: dict = dataclasses.field(default_factory=dict)
    rows_ms: float = 0.0


def blocks(experts, chosen, tokens, size):
    """How many there are; 0 where there are too few tokens for any, and each expert has all of them or each token fetches its own."""
    pairs = tokens * chosen
    if pairs < max(size, experts):
        return 0
    return min(-(-(pairs - (experts - 1)) // size) + experts - 1, pairs)


def in_blocks(model, phase, batch, seq, at, width, sdk=None):
    """Blocks of a prompt. width: bytes of an element."""
    s, rule = model.settings, neuron.choice("prefill.experts", sdk)
    if phase != "prefill" or model.family.kind != "decoder" or not rule:
        return Blocks()
    chip, tokens = _core.chip(at.instance["chip"]), batch * seq
    rate = chip["dma.rate_bytes_per_ns"] * chip["dma.engines_per_core"]
    factors, moved = {}, 0
    for i, layer in enumerate(map(s.layer, range(s.layers))):
        count = blocks(layer.experts, layer.chosen, tokens, rule["tokens"]) if layer.experts else 0
        if not count:
            continue
        factors[i] = count * rule["tokens"] / (layer.experts * tokens), count / (layer.experts * max(1, tokens / CHUNK))
        times = 3 if layer.chosen > 1 else 2  # gathered and written; read too, where others add to the same row
        moved += times * count * rule["tokens"] * layer.width * width
    return Blocks(rule["tokens"], factors, moved / rate / 1e6)


def scaled(run, found):
    """The run with its experts' parts as long as such blocks take."""
    if not found.factors:
        return run
    rows = [scaled_row(row, found.factors) for row in run.layers]
    more = sum(new["ms"] - old["ms"] for new, old in zip(rows, run.layers, strict=True))
    return dataclasses.replace(run, layers=rows, device_ms=run.device_ms + more)


def scaled_row(row, factors):
    number = LAYER.search(row["layer"])
    if row["part"] != "mlp" or not number or int(number[1]) not in factors or not row["busy_ms"]:
        return row
    computed, read = factors[int(number[1])]
    busy = {unit: ms * (computed if unit in neuron.COMPUTE else read) for unit, ms in row["busy_ms"].items()}
    most = max(row["busy_ms"].values())
    return row | {"busy_ms": busy, "ms": row["ms"] * (max(busy.values()) / most if most else 1.0)}
