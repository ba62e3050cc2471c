"""neuronx_distributed.parallel_layers.parallel_state: this process's groups, and where it is in each of them."""

import os

import torch
import torch.distributed as dist

from neuronx_distributed.parallel_layers import rank_groups
from neuronx_distributed.utils import cpu_mode, mark_step
from neuronx_distributed.utils.utils import get_platform_target, hardware

_groups = {}  # name -> (torch's group, the ranks of all such groups)
_sizes, _ranks = {}, {}  # set by hand, for models that are traced without processes
_aot_mode = False


def _made(mesh):
    """torch's group of this rank, of groups that all ranks make in one order."""
    rank, found = dist.get_rank(), None
    if cpu_mode() or dist.get_backend() != "xla":
        made = [dist.new_group(list(ranks)) for ranks in mesh]
        found = next(g for g, ranks in zip(made, mesh) if rank in ranks)
    else:
        ranks = next(list(r) for r in mesh if rank in r)
        found = dist.new_group(ranks, pg_options={"xla_pg_options": {"mesh": mesh}})
    return found


def create_pg_with_ranks(ranks):
    return dist.new_group(list(ranks))


def _set(name, mesh):
    mesh = [list(map(int, r)) for r in mesh]
    known = next((g for g, m in _groups.values() if m == mesh), None)
    _groups[name] = known or _made(mesh), mesh


def initialize_model_parallel(tensor_model_parallel_size=1, pipeline_model_parallel_size=1, context_parallel_size=1, expert_model_parallel_size=1,
                              skip_collective_init=False, lnc_size=1, mesh_only=False):  # fmt: skip
    if not dist.is_initialized():
        raise RuntimeError("initialize_model_parallel: found no process group, expected a call of torch.distributed.init_process_group before")
    world = dist.get_world_size()
    sizes = [min(n, world) for n in (tensor_model_parallel_size, pipeline_model_parallel_size, context_parallel_size, expert_model_parallel_size)]
    found = rank_groups.groups(world, *sizes, chip=hardware(get_platform_target()), lnc=lnc_size)
    if mesh_only:
        return found
    _groups.clear()
    _set("world", [list(range(world))])
    for name, mesh in (("tp", found.tp_groups), ("dp", found.dp_groups), ("pp", found.pp_groups), ("edp", found.ep_data_groups),
                       ("ep", found.ep_model_groups), ("cp", found.cp_groups)):  # fmt: skip
        _set(name, mesh)
    mark_step()


def model_parallel_is_initialized():
    return all(n in _groups for n in ("tp", "dp", "pp"))


def destroy_model_parallel():
    _groups.clear()
    _sizes.clear()
    _ranks.clear()


def _need(name):
    if name not in _groups:
        raise RuntimeError(f"parallel_state: found no group {name!r}, expected a call of initialize_model_parallel before")
    return _groups[name]


def _row(name):
    rank = dist.get_rank()
    return next(r for r in _need(name)[1] if rank in r)


def _size(name):
    return _sizes.get(name) or len(_row(name))


def _rank(name):
    return _ranks[name] if name in _ranks else _row(name).index(dist.get_rank())


def _group_of(name):
    def get(as_list=False):
        group, mesh = _need(name)
        return mesh if as_list else group

    return get


def _replicas_of(name):
    return lambda: _need(name)[1]


get_world_group = _group_of("world")
get_tensor_model_parallel_group, get_tensor_model_parallel_replica_groups = _group_of("tp"), _replicas_of("tp")
get_data_parallel_group, get_data_parallel_replica_groups = _group_of("dp"), _replicas_of("dp")
get_pipeline_model_parallel_group, get_pipeline_model_parallel_replica_groups = _group_of("pp"), _replicas_of("pp")
get_expert_model_parallel_group, get_expert_model_parallel_replica_groups = _group_of("ep"), _replicas_of("ep")
get_expert_data_parallel_group, get_expert_data_parallel_replica_groups = _group_of("edp"), _replicas_of("edp")
get_context_model_parallel_group, get_context_model_parallel_replica_groups = _group_of("cp"), _replicas_of("cp")
get_token_shuffle_group, get_token_shuffle_replica_groups = _group_of("token shuffle"), _replicas_of("token shuffle")
get_kv_shared_group, get_kv_shared_replica_groups = _group_of("kv"), _replicas_of("kv")


def get_tensor_model_parallel_size():
    return _size("tp")


def get_tensor_model_parallel_rank():
    return _rank("tp")


def set_tensor_model_parallel_size(world_size):
    _sizes["tp"] = world_size


def set_tensor_model_parallel_rank(rank):
    _ranks["tp"] = rank


def get_tensor_model_parallel_src_rank():
    return _row("tp")[0]


def get_data_parallel_size():
    return _size("dp")


def get_data_parallel_rank():
    return _rank("dp")


def get_data_parallel_src_rank():
    return _row("dp")[0]


def get_pipeline_model_parallel_size():
    return _size("pp") if "pp" in _groups else 1


def get_pipeline_model_parallel_rank():
    return _rank("pp")


def get_pipeline_model_parallel_next_rank():
    row = _row("pp")
    return row[(_rank("pp") + 1) % len(row)]


def get_pipeline_model_parallel_prev_rank():
    return _row("pp")[_rank("pp") - 1]


def get_expert_model_parallel_size():
    return _size("ep")


def get_expert_model_parallel_rank():
    return _rank("ep")


def set_expert_model_parallel_size(world_size):
    _sizes["ep"] = world_size


def set_expert_model_parallel_rank(rank):
    _ranks["ep"] = rank


def get_expert_data_parallel_size():
    return _size("edp")


def get_expert_data_parallel_rank():
    return _rank("edp")


def get_expert_parallel_rank_from_global_rank(rank, expert_parallel_group):
    return next(row.index(rank) for row in expert_parallel_group if rank in row)


def get_context_model_parallel_size():
    return _size("cp") if "cp" in _groups else 1


def get_context_model_parallel_rank():
    return _rank("cp")


def set_context_model_parallel_size(world_size):
    _sizes["cp"] = world_size


def get_context_model_parallel_src_tgt_pairs():
    """(from, to) around the ring of this rank's context."""
    row = _row("cp")
    return [(r, row[(i + 1) % len(row)]) for i, r in enumerate(row)]


def get_zero1_sharding_groups():
    """Ranks with the same weights: those of one pipeline stage and tensor part, over batches and contexts."""
    tp, pp, world = get_tensor_model_parallel_size(), get_pipeline_model_parallel_size(), dist.get_world_size()
    return torch.arange(world).reshape(pp, -1, tp).transpose(1, 2).reshape(pp * tp, -1).tolist()


def initialize_token_shuffle_group(token_shuffle_group_size=1):
    """Stretches of the data parallel ranks among whom tokens are dealt anew."""
    if get_data_parallel_size() % token_shuffle_group_size:
        raise ValueError(f"token shuffle: found groups of {token_shuffle_group_size}, expected a divisor of the data parallel size {get_data_parallel_size()}")
    n = token_shuffle_group_size
    _set("token shuffle", [row[i : i + n] for row in _need("dp")[1] for i in range(0, len(row), n)])


def get_token_shuffle_group_size():
    return _size("token shuffle")


def destroy_token_shuffle_group():
    _groups.pop("token shuffle", None)


def initialize_kv_group(kv_shared_group_size=1, sequential_ranks_in_group=False):
    """Ranks of a tensor group that hold the same key and value heads."""
    tp, n = get_tensor_model_parallel_size(), kv_shared_group_size
    _set("kv", [row[i : i + n] if sequential_ranks_in_group else row[i :: tp // n] for row in _need("tp")[1]
                for i in (range(0, tp, n) if sequential_ranks_in_group else range(tp // n))])  # fmt: skip


def get_kv_shared_group_size():
    return _size("kv") if "kv" in _groups else 1


def destroy_kv_group():
    _groups.pop("kv", None)


def is_global_rank_zero():
    return not dist.is_initialized() or dist.get_rank() == 0


def gather_python_object(obj, group):
    out = [None] * dist.get_world_size(group)
    dist.all_gather_object(out, obj, group=group)
    return out


def set_aot_mode(mode):
    global _aot_mode
    _aot_mode = mode


def get_aot_mode():
    return _aot_mode


def is_tcp_store_available():
    return dist.is_initialized()


def get_tcp_store():
    return dist.distributed_c10d._get_default_store()


def rmsg(msg):
    """A message with the rank that it comes from."""
    if not dist.is_initialized() or not model_parallel_is_initialized():
        return msg
    return f"[rank_{dist.get_rank()}_pp{_rank('pp')}_tp{_rank('tp')}_dp{_rank('dp')}_cp{_rank('cp')}] {msg}"


def get_rank_info_str():
    return rmsg("")


def get_local_world_size():
    return int(os.environ.get("LOCAL_WORLD_SIZE", dist.get_world_size() if dist.is_initialized() else 1))
