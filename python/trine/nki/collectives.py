"""nki.collectives over the program's virtual cores, in one process: each rank is a core of the launch."""

from trine.nki import ops
from trine.nki.emit import emit
from trine.nki.tensor import NKIObject
from trine.nki.trace import current, error, missing


class ReplicaGroup(NKIObject):
    """Which ranks work together: a list of groups of ranks."""

    def __init__(self, groups):
        self.groups = [list(g) for g in groups]


def rank_id():
    """The rank of the core that this program runs on."""
    return current().program.core


def _groups(replica_group):
    """The group of each core, as the row wants it."""
    groups = replica_group.groups if isinstance(replica_group, ReplicaGroup) else [list(g) for g in replica_group]
    of = {rank: i for i, g in enumerate(groups) for rank in g}
    cores = current().cores
    if sorted(of) != list(range(cores)) or sum(len(g) for g in groups) != cores:
        raise error("NKI026", f"groups {groups}", f"each of the ranks 0 to {cores - 1} once")
    return [of[rank] for rank in range(cores)]


def _pairs(srcs, dsts, what):
    srcs = [srcs] if not isinstance(srcs, (list, tuple)) else list(srcs)
    dsts = [dsts] if not isinstance(dsts, (list, tuple)) else list(dsts)
    if len(srcs) != len(dsts) or not srcs:
        raise error("NKI026", f"{what} of {len(srcs)} sources into {len(dsts)} destinations", "as many of both")
    if len({t.on_chip for t in srcs + dsts}) != 1:
        raise error("NKI016", f"{what} between HBM and SBUF", "all operands in one memory")
    if len(srcs) > 1 and srcs[0].on_chip:
        raise error("NKI016", f"{what} of {len(srcs)} SBUF tensors", "one, or tensors in HBM")
    return zip(srcs, dsts)


def _collective(kind, srcs, dsts, replica_group, name, **attrs):
    made = None
    groups = _groups(replica_group) if replica_group is not None else []
    for src, dst in _pairs(srcs, dsts, kind):
        made = emit("collective", {"dst": dst, "src": src}, {"kind": kind, "groups": groups, **attrs}, "sync", name)
    return made


def _op(op):
    name = ops.alu(op)
    if name not in ("add", "min", "max"):
        raise error("NKI018", f"op={name}", "nl.add, nl.minimum or nl.maximum")
    return name


def all_reduce(srcs, dsts, replica_group, op, priority=None, name=None):
    return _collective("all_reduce", srcs, dsts, replica_group, name, op=_op(op))


def all_gather(srcs, dsts, replica_group, collective_dim=0, priority=None, name=None):
    return _collective("all_gather", srcs, dsts, replica_group, name, dim=collective_dim)


def reduce_scatter(srcs, dsts, replica_group, collective_dim=0, op="add", priority=None, name=None):
    return _collective("reduce_scatter", srcs, dsts, replica_group, name, dim=collective_dim, op=_op(op))


def all_to_all(srcs, dsts, replica_group, collective_dim=0, priority=None, name=None):
    return _collective("all_to_all", srcs, dsts, replica_group, name, dim=collective_dim)


def collective_permute(srcs, dsts, source_target_pairs, priority=None, name=None):
    flat = [int(r) for pair in source_target_pairs for r in pair]
    return _collective("permute", srcs, dsts, None, name, pairs=flat)


def __getattr__(name):
    raise missing("nki.collectives", name)
