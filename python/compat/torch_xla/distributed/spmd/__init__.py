"""torch_xla.distributed.spmd."""

from trine.torch.old.spmd import Mesh, ShardingSpec, clear_sharding, get_1d_mesh, get_global_mesh, mark_sharding, set_global_mesh

__all__ = ["Mesh", "ShardingSpec", "clear_sharding", "get_1d_mesh", "get_global_mesh", "mark_sharding", "set_global_mesh"]
