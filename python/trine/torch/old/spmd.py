"""torch_xla.distributed.spmd: meshes, and tensors dealt over their devices.

One process has all devices of the mesh. A marked tensor lies in parts on them; a step that meets one becomes a program for
each device, with collectives where they need each other's values (compile/partition, as for JAX). Values are those of the
whole tensors. A dim that its axes do not divide stays whole on every device.
"""

import enum

import numpy as np
import torch

from trine import _torch
from trine.torch.lazy_emit import memory_order
from trine.torch.old import ordinals, runtime

_global = None
_LIBRARY = torch.library.Library("trine_spmd", "DEF")
_LIBRARY.define("constrain(Tensor x, str mesh, str sharding) -> Tensor")
_LIBRARY.impl("constrain", lambda x, mesh, sharding: x.clone(), "CPU")
_LIBRARY.impl("constrain", lambda x, mesh, sharding: torch.empty_like(x), "Meta")


class ShardingType(enum.IntEnum):
    REPLICATED, MAXIMAL, TUPLE, TILED, MANUAL, PARTIAL, UNKNOWN = range(7)


class Mesh:
    """Devices in a grid whose axes may have names."""

    def __init__(self, device_ids, mesh_shape, axis_names=None):
        self.device_ids = np.asarray(device_ids).reshape(-1)
        self.mesh_shape, self.axis_names = tuple(int(n) for n in mesh_shape), tuple(axis_names) if axis_names else None
        if self.device_ids.size != np.prod(self.mesh_shape):
            raise ValueError(f"Mesh: found {self.device_ids.size} devices, expected {np.prod(self.mesh_shape)} for {self.mesh_shape}")
        if self.axis_names and len(set(self.axis_names)) != len(self.mesh_shape):
            raise ValueError(f"Mesh: found axes {self.axis_names}, expected {len(self.mesh_shape)} different names")

    def size(self):
        return int(np.prod(self.mesh_shape))

    def shape(self):
        names = self.axis_names or range(len(self.mesh_shape))
        return dict(zip(names, self.mesh_shape))

    def get_logical_mesh(self):
        return self.device_ids.reshape(self.mesh_shape)

    def get_axis_name_idx(self, name):
        return self.axis_names.index(name) if self.axis_names and name in self.axis_names else None

    def axes(self, entry):
        """Numbers of the axes that one entry of a partition spec names: a name, a number, a tuple of them or None."""
        out = []
        for axis in entry if isinstance(entry, (tuple, list)) else (entry,):
            number = self.get_axis_name_idx(axis) if isinstance(axis, str) else axis
            if axis is not None and (number is None or not -len(self.mesh_shape) <= number < len(self.mesh_shape)):
                raise ValueError(f"mark_sharding: found axis {axis!r}, expected one of {list(self.shape())}")
            if axis is not None:
                out.append(number % len(self.mesh_shape))
        return out

    def _arguments(self):
        return [int(d) for d in self.device_ids], list(self.mesh_shape)

    def __str__(self):
        return f"Mesh(device_ids={self.device_ids.tolist()}, mesh_shape={self.mesh_shape}, axis_names={self.axis_names})"

    __repr__ = __str__


class HybridMesh(Mesh):
    """A mesh over several networks: `dcn_mesh_shape` between machines, `ici_mesh_shape` inside one; axes multiply."""

    def __init__(self, *, ici_mesh_shape, dcn_mesh_shape=None, axis_names=None):
        dcn = tuple(dcn_mesh_shape or [1] * len(ici_mesh_shape))
        if len(dcn) != len(ici_mesh_shape):
            raise ValueError(f"HybridMesh: found dcn_mesh_shape {dcn}, expected {len(ici_mesh_shape)} axes as ici_mesh_shape {tuple(ici_mesh_shape)}")
        self.ici_mesh_shape, self.dcn_mesh_shape = tuple(ici_mesh_shape), dcn
        shape = [i * d for i, d in zip(self.ici_mesh_shape, dcn)]
        rank, ids = len(shape), np.arange(np.prod(shape))
        # device = machine first, then place in it; an axis of the mesh has the machines outside
        ids = ids.reshape(*dcn, *self.ici_mesh_shape).transpose([a for i in range(rank) for a in (i, rank + i)])
        super().__init__(ids.reshape(-1), shape, axis_names)


def get_1d_mesh(axis_name=None, num_devices=None):
    n = num_devices or runtime.global_runtime_device_count()
    return Mesh(np.arange(n), (n,), (axis_name,) if axis_name else None)


def set_global_mesh(mesh):
    global _global
    _global = mesh


def get_global_mesh():
    return _global


class XLAShardedTensor(torch.Tensor):
    """A marked tensor, as mark_sharding gives it back: the tensor itself, and how it lies."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @property
    def global_tensor(self):
        return self.as_subclass(torch.Tensor)

    @property
    def sharding_spec(self):
        return get_xla_sharding_spec(self)

    @property
    def sharding_type(self):
        return get_sharding_type(self)

    @property
    def local_shards(self):
        return local_shards(self)


class XLAShard:
    """One device's part: its values, on the CPU, and where they begin and end."""

    def __init__(self, data, indices, shard_device, replica_id):
        self.data, self.indices, self.shard_device, self.replica_id = data, indices, shard_device, replica_id

    @property
    def unpadded_data(self):
        return self.data


def mark_sharding(t, mesh, partition_spec):
    """Deals a tensor over a mesh: None leaves a dim whole, axes cut it."""
    given, t = t, unwrap_sharded_tensor(t)
    if len(partition_spec) != t.dim():
        raise ValueError(f"mark_sharding: found {len(partition_spec)} entries {partition_spec}, expected {t.dim()}, one for each dim of {list(t.shape)}")
    axes = [mesh.axes(entry) for entry in partition_spec]
    named = [a for entry in axes for a in entry]
    if len(set(named)) != len(named):
        raise ValueError(f"mark_sharding: found an axis twice in {partition_spec}, expected each at most once")
    if t.device.type != "xla":
        raise ValueError(f"mark_sharding: found a tensor on {t.device}, expected one on xla (move it with .to(\"xla\"))")
    if ordinals.xrt_world_size() > 1:
        raise RuntimeError(f"mark_sharding: found {ordinals.xrt_world_size()} processes, expected one that has all devices of the mesh")
    _deal(t, mesh, axes)
    return given.as_subclass(XLAShardedTensor) if not isinstance(given, torch.nn.Parameter) else given


def _deal(t, mesh, axes):
    ids, shape = mesh._arguments()
    order = memory_order(t.shape, t.stride())
    if order is None or t.storage_offset() or t.numel() * t.element_size() != t.untyped_storage().nbytes() or not t.numel():
        return  # a view: where its values lie is the whole tensor's business
    if not _torch.deal(t, ids, shape, [t.shape[i] for i in order], [axes[i] for i in order]):
        t.data.copy_(torch.ops.trine_spmd.constrain(t.data, *_torch.sharding_texts(ids, shape, list(t.shape), axes)))


def mark_sharding_with_gradients(t, mesh, partition_spec):
    """mark_sharding of a tensor, and of its gradient when that comes."""
    return _Marked.apply(t, mesh, partition_spec)


class _Marked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t, mesh, partition_spec):
        ctx.mesh, ctx.spec = mesh, partition_spec
        out = t.clone()
        mark_sharding(out, mesh, partition_spec)
        return out

    @staticmethod
    def backward(ctx, grad):
        out = grad.clone()
        mark_sharding(out, ctx.mesh, ctx.spec)
        return out, None, None


def clear_sharding(t):
    """The tensor whole again, on one device."""
    t = unwrap_sharded_tensor(t)
    if t.device.type == "xla":
        _torch.undeal(t)
    return t


def unwrap_sharded_tensor(t):
    return t.as_subclass(torch.Tensor) if type(t) is XLAShardedTensor else t


def wrap_as_sharded_tensor(t):
    return t if type(t) is XLAShardedTensor else t.as_subclass(XLAShardedTensor)


wrap_if_sharded = wrap_as_sharded_tensor


def get_xla_sharding_spec(t):
    """As XLA writes it: `{devices=[2,4]0,1,2,3,4,5,6,7}`, `{replicated}`; empty where nothing was marked."""
    return _torch.sharding_spec(unwrap_sharded_tensor(t))


def get_sharding_type(t):
    spec = get_xla_sharding_spec(t)
    if not spec:
        return None
    if spec == "{replicated}":
        return ShardingType.REPLICATED
    return ShardingType.PARTIAL if "last_tile_dim_replicate" in spec else ShardingType.TILED


def local_shards(t):
    """The parts of a marked tensor, by device; what is recorded runs first."""
    t, out, seen = unwrap_sharded_tensor(t), [], {}
    for device, part, start in _torch.shards(t):
        where = tuple(slice(s, s + n) for s, n in zip(start, part.shape))
        key = tuple(start)
        out.append(XLAShard(part, where, f"NEURON:{device}", seen.get(key, 0)))
        seen[key] = seen.get(key, 0) + 1
    return out


def apply_backward_optimization_barrier(module):
    """Nothing to do: it stops a compiler from fetching all parameters before the backward's first use; ours fetches at the use."""


class ShardingSpec:
    """A sharding for data that is still to come (MpDeviceLoader's input_sharding)."""

    def __init__(self, mesh, partition_spec, minibatch=False):
        self.mesh, self.partition_spec, self.minibatch = mesh, tuple(partition_spec), minibatch

    def can_apply(self, t):
        return t.dim() == len(self.partition_spec)

    def apply(self, t):
        return mark_sharding(t, self.mesh, self.partition_spec)
