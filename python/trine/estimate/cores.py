"""How one copy of a model lies on cores: tensor parallelism over logical cores, and a logical core's work on its own.

A logical core of Trainium2 or 3 is two physical ones that share a stack of HBM. They split its work as tensor
parallelism would; what they then owe each other they read from the HBM they share. What cannot be cut so (whole
images) is dealt out by batch, or by one of them alone.
"""

import dataclasses

from trine import _core
from trine.models.families import ConfigError
from trine.models.phases import UNCUT


@dataclasses.dataclass(frozen=True)
class Layout:
    """Of one copy: `tp` logical cores of `lnc` physical ones each."""

    instance: dict
    tp: int = 1
    lnc: int = 1
    parts: int = 1  # into which the program of a logical core is cut; less than lnc where the batch is dealt out
    idle: int = 0  # physical cores of each logical one that have nothing to do

    @property
    def cores(self):
        return self.tp * self.lnc

    @property
    def copies(self):
        """As many as the instance has cores for."""
        return max(1, self.instance["cores"] // self.cores)

    @property
    def shards(self):
        return self.tp * self.parts


def layout(instance, model, batch, tp, lnc=None):
    """(Layout, the batch that one program works on)."""
    chip = _core.chip(instance["chip"])
    lnc = lnc or chip["lnc_default"]
    if lnc > chip["lnc_max"]:
        raise ValueError(f"--lnc {lnc}; {chip['title']} has logical cores of up to {chip['lnc_max']}")
    if tp * lnc > instance["cores"]:
        have = instance["cores"] // lnc
        raise ConfigError(f"tp {tp} on {instance['name']}, which has {have} cores" + (f" at lnc {lnc}" if lnc > 1 else ""))
    if model.family.kind not in UNCUT:
        return Layout(instance, tp, lnc, lnc), batch
    dealt = lnc if batch % lnc == 0 else 1
    return Layout(instance, tp, lnc, 1, lnc - dealt), batch // dealt


def within_ns(chip, kind, size, parts):
    """What the cores of a logical one owe each other: of a sum each adds up its share from what the others have left in
    the HBM they share; what is gathered there is there for all."""
    rate = chip["dma.rate_bytes_per_ns"] * chip["dma.engines_per_core"]
    read = size * (parts - 1) / parts if "reduce" in kind else 0
    return chip["dma.start_sync_ns"] + chip["dma.completion_ns"] + read / rate


def collectives(uses, where):
    """What the program asks of other cores, with the time of one call of each, and of what share of that time it keeps DMA
    engines, links, network and HBM busy. Groups of fewer than all cores are pairs
    within logical ones, or one core of each of those, all parts at once."""
    chip, name = _core.chip(where.instance["chip"]), where.instance["name"]
    out = []
    for use in uses:
        if use["ranks"] <= 1:
            continue
        across = where.parts < use["ranks"] < where.shards
        ranks, size = (use["ranks"], use["bytes"] * where.parts) if across else (max(1, use["ranks"] // where.parts), use["bytes"])
        ns = within_ns(chip, use["kind"], size, where.parts) if where.parts > 1 and not across else 0.0
        shares = {}
        if ranks > 1:
            found = _core.time_collective(name, use["kind"], size, ranks, lnc=where.lnc)
            ns += found["ns"]
            shares = {unit: min(1.0, busy / ns) for unit, busy in found["busy_ns"].items()}
        out.append(use | {"ranks": ranks, "bytes": size, "ns": ns, "shares": shares})
    return out
