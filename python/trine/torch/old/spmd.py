"""torch_xla.distributed.spmd: meshes, and shardings as annotations that are checked and kept.

A program of one process runs on one core here, sharded or not: values are those of the whole tensors.
"""

import numpy as np

from trine.torch.old import runtime

_SHARDINGS = "_trine_sharding"
_global = None


class Mesh:
    """Devices in a grid whose axes may have names."""

    def __init__(self, device_ids, mesh_shape, axis_names=None):
        self.device_ids = np.asarray(device_ids).reshape(-1)
        self.mesh_shape, self.axis_names = tuple(mesh_shape), tuple(axis_names) if axis_names else None
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

    def parts(self, axes):
        """In how many pieces a dim is cut that is dealt over axes."""
        shape = list(self.shape().items())
        known = {name: n for name, n in shape} | {i: n for i, (_, n) in enumerate(shape)}
        out = 1
        for axis in axes if isinstance(axes, tuple) else (axes,):
            if axis is not None and axis not in known:
                raise ValueError(f"mark_sharding: found axis {axis!r}, expected one of {[name for name, _ in shape]}")
            out *= known[axis] if axis is not None else 1
        return out


def get_1d_mesh(axis_name=None, num_devices=None):
    n = num_devices or runtime.global_runtime_device_count()
    return Mesh(np.arange(n), (n,), (axis_name,) if axis_name else None)


def set_global_mesh(mesh):
    global _global
    _global = mesh


def get_global_mesh():
    return _global


def mark_sharding(t, mesh, partition_spec):
    """Notes how a tensor is dealt over a mesh."""
    if len(partition_spec) != t.dim():
        raise ValueError(f"mark_sharding: found {len(partition_spec)} entries {partition_spec}, expected {t.dim()}, one for each dim of {list(t.shape)}")
    for axes in partition_spec:
        mesh.parts(axes)
    setattr(t, _SHARDINGS, (mesh, tuple(partition_spec)))
    return t


def clear_sharding(t):
    if hasattr(t, _SHARDINGS):
        delattr(t, _SHARDINGS)
    return t


def sharding_of(t):
    """(mesh, partition_spec) as it was marked, or None."""
    return getattr(t, _SHARDINGS, None)


class ShardingSpec:
    """A sharding for data that is still to come (MpDeviceLoader's input_sharding)."""

    def __init__(self, mesh, partition_spec, minibatch=False):
        self.mesh, self.partition_spec, self.minibatch = mesh, tuple(partition_spec), minibatch

    def can_apply(self, t):
        return t.dim() == len(self.partition_spec)

    def apply(self, t):
        return mark_sharding(t, self.mesh, self.partition_spec)
