"""nki.collectives over the program's virtual cores, in one process: each rank is a core of the launch."""

from trine.nki import create, isa_move, ops, registers
from trine.nki.emit import emit
from trine.nki.tensor import NKIObject
from trine.nki.trace import current, error, missing


class ReplicaGroup(NKIObject):
    """Which ranks work together: a list of groups of ranks."""

    def __init__(self, groups):
        self.groups = [list(g) for g in groups]


def rank_id(name=None):
    """The rank of the core that this program runs on."""
    return current().program.core


def _ring(replica_group):
    """The group of this rank, in the order of the ring, and where it stands in it."""
    groups = replica_group.groups if isinstance(replica_group, ReplicaGroup) else [list(g) for g in replica_group]
    me = rank_id()
    for group in groups:
        if me in group:
            return group, group.index(me)
    raise error("NKI026", f"rank {me} is in none of {groups}", "every rank in one group")


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


def _collective_v(kind, srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, name):
    pairs = list(_pairs(srcs, dsts, f"{kind}_v"))
    if len(pairs) != 1 or pairs[0][0].on_chip:
        raise error("NKI016", f"{kind}_v of {len(pairs)} tensors, {pairs[0][0]!r} first", "one, in HBM")
    (src, dst), attrs = pairs[0], {"recv_counts_known": bool(recv_counts_known), "has_rdispls": bool(has_rdispls)}
    if not recv_counts_known:
        metadata_tensor.storage.writes += 1
    return emit("collective_v", {"dst": dst, "src": src, "metadata": metadata_tensor},
                {"kind": kind, "groups": _groups(replica_group), **attrs}, "sync", name)  # fmt: skip


def all_gather_v(srcs, dsts, replica_group, metadata_tensor, recv_counts_known=False, has_rdispls=False, priority=None,
                 name=None):  # fmt: skip
    """Rank s's src[send_displ : send_displ + send_count] to slot s of every dst; rows of metadata_tensor: send count, send
    offset, received counts (written unless recv_counts_known), offsets in dst (with has_rdispls)."""
    return _collective_v("all_gather", srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, name)


def all_to_all_v(srcs, dsts, replica_group, metadata_tensor, recv_counts_known=False, has_rdispls=False, priority=None,
                 name=None):  # fmt: skip
    """As all_gather_v, with a count and an offset for each rank that is sent to."""
    return _collective_v("all_to_all", srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, name)


def collective_permute(srcs, dsts, source_target_pairs, priority=None, name=None):
    flat = [int(r) for pair in source_target_pairs for r in pair]
    return _collective("permute", srcs, dsts, None, name, pairs=flat)


def _ring_pairs(replica_group):
    groups = replica_group.groups if isinstance(replica_group, ReplicaGroup) else replica_group
    return [(g[i], g[(i + 1) % len(g)]) for g in groups for i in range(len(g))]


def _channels(lists, what):
    for tensors in lists:
        if len(tensors) != 1:
            raise error("NKI026", f"{len(tensors)} tensors in a channel of {what}", "one")
        yield tensors[0]


def collective_permute_implicit(srcs_by_channel, dsts_by_channel, replica_group, channel_ids=(0,), priority=None, name=None):
    """Every rank sends to the next one of its ring and receives from the one before."""
    what = "collective_permute_implicit"
    for src, dst in zip(_channels(srcs_by_channel, what), _channels(dsts_by_channel, what)):
        collective_permute([src], [dst], _ring_pairs(replica_group), name=name)


def collective_permute_implicit_reduce(srcs0_by_channel, srcs1_by_channel, dsts_by_channel, replica_group, op,
                                       channel_ids=(0,), priority=None, name=None):  # fmt: skip
    """op(srcs0, srcs1) goes to the next rank of the ring; what the one before made comes into dsts."""
    what = "collective_permute_implicit_reduce"
    channels = (_channels(t, what) for t in (srcs0_by_channel, srcs1_by_channel, dsts_by_channel))
    for a, b, dst in zip(*channels):
        if _op(op) != "add":
            raise error("NKI018", f"op={_op(op)}", "nl.add; DMA engines add")
        sums = create.ndarray(a.shape, a.dtype, "hbm")
        isa_move.dma_compute(sums, [a, b], "add")
        collective_permute([sums], [dst], _ring_pairs(replica_group), name=name)


def collective_permute_implicit_current_processing_rank_id(iteration_id, replica_group, channel_id=0, name=None):
    """A register with the rank whose data arrives in that step of the ring."""
    group, at = _ring(replica_group)
    return registers.alloc(group[(at - int(iteration_id)) % len(group)])


def __getattr__(name):
    raise missing("nki.collectives", name, globals())
