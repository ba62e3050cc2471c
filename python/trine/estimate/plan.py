"""How a training step is spread over cores: copies, stages, parts of a sequence, experts; checked before anything is
compiled. Ranks lie as NxD has them: stages outermost, then copies, then parts of a sequence, then tensor parallelism.
"""

import dataclasses
import math

from trine.models.families import ConfigError

RECOMPUTE = ("auto", "none", "selective", "full")
# Of the optimiser: bytes of its state for each parameter, and of the copy of the parameter that it steps.
OPTIMISERS = {"f32": (8, 4), "f32-sr": (8, 0), "bf16-sr": (4, 0)}


@dataclasses.dataclass(frozen=True)
class Plan:
    """How many instances, and what they do between two steps of the optimiser."""

    nodes: int
    copies: int
    pp: int
    accumulate: int
    zero: int = 0  # what is shared out over copies: 1 the optimiser's state, 2 gradients too, 3 parameters too
    cp: int = 1  # parts of each sequence
    ep: int = 1  # copies that share one set of experts
    chunks: int = 1  # of a stage's layers, which batches go through in rounds (interleaved)
    recompute: str = "auto"  # on the way back: nothing, attention's scores, or whole layers
    optimiser: str = "f32"
    overlap: bool = False  # gradients are summed layer by layer beside the last batch's way back

    @property
    def replicas(self):
        """Over how many cores each gradient is summed: copies, and parts of a sequence."""
        return self.copies * self.cp

    def layers(self, total):
        """Of each stage, by chunk; the first ones have more where they are not equally many."""
        cells = self.pp * self.chunks
        each = [total // cells + (i < total % cells) for i in range(cells)]
        return [[each[c * self.pp + s] for c in range(self.chunks)] for s in range(self.pp)]


def plan(model, at, batch, seq, *, nodes=None, pp=1, dp=None, accumulate=None, global_batch=None, zero=None, cp=1, ep=1, chunks=1,
         recompute="auto", optimiser="f32", overlap=False):  # fmt: skip
    """Checks what was asked for and fills in the rest. batch: of one copy at a time."""
    check(model, at, seq, pp, cp, ep, chunks, zero)
    each, one = at.instance["cores"], at.cores * pp * cp
    nodes = nodes or math.ceil((dp or ep) * one / each)
    most = nodes * each // one
    if most < 1:
        words = f"tp {at.tp}" + (f", cp {cp}" if cp > 1 else "") + f" and pp {pp}"
        raise ConfigError(f"{words} take {one} cores; {nodes} {at.instance['name']} have {nodes * each}: --nodes {math.ceil(one / each)}")
    if dp and dp > most:
        raise ConfigError(f"dp {dp}; {nodes} {at.instance['name']} hold {most} copies of tp {at.tp}" + (f", pp {pp}" if pp > 1 else ""))
    copies = dp or most
    if copies % ep:
        raise ConfigError(f"ep {ep}; {copies} copies are not a multiple of it")
    if global_batch:
        if global_batch % (batch * copies):
            raise ConfigError(f"global batch {global_batch}; {copies} copies of batch {batch} take multiples of {batch * copies}")
        accumulate = global_batch // (batch * copies)
    accumulate = accumulate or 1
    if chunks > 1 and accumulate % pp:
        raise ConfigError(f"{accumulate} batches in {chunks} chunks a stage; interleaved stages take multiples of {pp} batches")
    zero = zero if zero is not None else int(model.family.kind == "decoder")
    return Plan(nodes, copies, pp, accumulate, zero if copies * cp > 1 else 0, cp, ep, chunks, recompute, optimiser, overlap)


def check(model, at, seq, pp, cp, ep, chunks, zero):
    """What only some models have, or only in some numbers."""
    decoder = model.family.kind == "decoder"
    layers = getattr(model.settings, "layers", 1)
    if pp * chunks > 1 and (not decoder or pp * chunks > layers):
        found = f"pp {pp}" + (f" of {chunks} chunks" if chunks > 1 else "")
        raise ConfigError(f"{found}; a pipeline is cut between a decoder's layers, this has {layers if decoder else 'none'}")
    if chunks > 1 and pp == 1:
        raise ConfigError(f"{chunks} chunks of one stage; stages are interleaved from pp 2 on")
    if cp > 1 and (not decoder or seq % (cp * 2)):
        raise ConfigError(f"cp {cp}; a decoder's sequences are cut into {2 * cp} equal parts, this has " + (f"{seq} tokens" if decoder else "none"))
    experts = getattr(model.settings, "experts", 0)
    if ep > 1 and (not experts or experts % ep):
        raise ConfigError(f"ep {ep}; experts are shared out evenly, this model has {experts or 'none'}")
    if zero is not None and zero > 1 and not decoder:
        raise ConfigError(f"zero {zero}; gradients and parameters are shared out layer by layer of a decoder")
