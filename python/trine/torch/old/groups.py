"""Replica groups: lists of lists of ranks that cover the world, as torch_xla names who takes part in a collective.

Every process makes every group of such a mesh, in the mesh's order, once; so it does not matter that torch_xla's scripts
ask only for the group they are in.
"""

import torch.distributed as dist

from trine.torch.old import ordinals

_made = {}  # mesh -> torch's group for each of its rows
_meshes = {}  # group -> its mesh
_store = None  # of the processes that met: what was made for others before is forgotten
_make = dist.new_group if dist.is_available() else None


def mesh_of(group):
    """The replica groups that a group is one of; none for that of all ranks."""
    return _meshes.get(group, [])


def _note(group, mesh):
    if isinstance(group, dist.ProcessGroup):  # not that of others
        _meshes[group] = [list(row) for row in mesh]
    return group


def of_mesh(mesh):
    """torch's groups for the rows of a mesh."""
    global _store
    if _store is not dist.distributed_c10d._get_default_store():
        _made.clear()
        _meshes.clear()
        _store = dist.distributed_c10d._get_default_store()
    key = tuple(map(tuple, mesh))
    if key not in _made:
        _made[key] = [_note(_make(list(row)), key) for row in key]  # every process makes every group
    return _made[key]


def mine(groups):
    """The ranks that take part with this one, in order; and the group that torch knows them by."""
    if not ordinals.distributed():
        return [0], None
    if not groups:
        return list(range(dist.get_world_size())), None
    at = next((i for i, row in enumerate(groups) if dist.get_rank() in row), None)
    if at is None:
        raise ValueError(f"groups: found {groups}, expected each rank in one of them; this is {dist.get_rank()}")
    return list(groups[at]), of_mesh(groups)[at]


def inferred(ranks, size):
    """The mesh that an even stretch of ranks is a row of; None where it is no row of one."""
    if size % len(ranks):
        return None
    rows, step = size // len(ranks), ranks[1] - ranks[0] if len(ranks) > 1 else 1
    if step == 1:
        mesh = [list(range(i * len(ranks), (i + 1) * len(ranks))) for i in range(rows)]
    else:
        mesh = [list(range(i, size, rows)) for i in range(rows)]
    return mesh if list(ranks) in mesh else None


def new_group(ranks=None, timeout=None, backend=None, pg_options=None, **options):
    """torch.distributed.new_group; for `xla` the option xla_pg_options may name all groups of a mesh at once."""
    asked = pg_options.get("xla_pg_options", {}) if isinstance(pg_options, dict) else None
    if dist.get_backend() != "xla" or backend not in (None, "xla"):
        return _make(ranks, timeout, backend, None if asked is not None else pg_options, **options)
    size, ranks = dist.get_world_size(), list(range(dist.get_world_size())) if ranks is None else list(ranks)
    mesh = (asked or {}).get("mesh") or (inferred(ranks, size) if asked and asked.get("spmd") else None)
    if mesh is None:
        return _note(_make(ranks, timeout, backend, **options), [[r] for r in range(size)] if len(ranks) == 1 else [ranks])
    if ranks not in [list(row) for row in mesh]:
        raise ValueError(f"new_group: found ranks {ranks}, expected one of the groups of the mesh {mesh}")
    return of_mesh(mesh)[[list(row) for row in mesh].index(ranks)]


def register():
    """torch.distributed.new_group takes meshes, and groups have `_mesh`."""
    dist.new_group = dist.distributed_c10d.new_group = new_group
    dist.ProcessGroup._mesh = property(mesh_of)
