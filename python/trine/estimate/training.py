"""A training step: gradients of some batches on every copy, their sum over all copies, one step of the optimiser."""

from trine import _core
from trine.estimate import cores
from trine.estimate.lowering import bytes_of


def trained(run, made, *, batch, seq, accumulate, nodes):
    """run, made: as estimate() has them. Every copy on every node works on `accumulate` batches between two steps."""
    whole = run("train", batch, seq)
    runs = [(whole, 1)]
    at = run.keywords["at"]
    uses = cores.collectives(whole.uses, at)
    if accumulate > 1:
        part = run("gradients", batch, seq)
        runs.append((part, accumulate - 1))
        uses += [u | {"count": u["count"] * (accumulate - 1)} for u in cores.collectives(part.uses, at)]
    copies = at.copies * nodes
    if copies > 1:
        uses.append(summed(run.args[0], at, copies, nodes))
    return made(phase="train", seq=seq, kind="train", runs=runs, collectives=uses,
                results=made.keywords["batch"] * accumulate, copies=copies)  # fmt: skip


def summed(model, at, copies, nodes):
    """The all-reduce of the gradients over all copies, which lie `tp` cores apart; all groups use the wires at once."""
    size = bytes_of(model.parameters_shapes(at.tp))
    found = _core.time_collective(at.instance["name"], "all_reduce", size, copies, nodes=nodes, lnc=at.lnc,
                                  stride=at.tp, all_groups=at.tp > 1)  # fmt: skip
    return {"kind": "all_reduce", "bytes": size, "ranks": copies, "count": 1, "ns": found["ns"], "of": "gradients"}
