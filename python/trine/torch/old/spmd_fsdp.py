"""torch_xla.experimental.spmd_fully_sharded_data_parallel: FSDPv2, a module whose parameters are dealt over the mesh axis "fsdp".

The program of a step gathers a parameter where it is used and leaves its gradient in parts: what FSDP does by hooks, the
partitioner does in the graph. Not for several processes; those have torch_xla.distributed.fsdp.
"""

import torch

from trine.torch.old import fsdp, spmd


def _partition_spec(param, extra_data_axis=None, shard_maximal=False):
    """The first dim, or the longest, over "fsdp"."""
    spec = [None] * param.dim()
    if spec:
        index = max(range(param.dim()), key=lambda i: param.shape[i]) if shard_maximal else 0
        spec[index] = (extra_data_axis, "fsdp") if extra_data_axis else "fsdp"
    return tuple(spec)


def _tensors(output):
    """Those that are dealt by their first dim: of a tuple the first, of a model's output the logits."""
    if isinstance(output, torch.Tensor):
        return [output]
    if isinstance(output, tuple) and output and isinstance(output[0], torch.Tensor):
        return [output[0]]
    logits = getattr(output, "logits", None)
    return [logits] if isinstance(logits, torch.Tensor) else None


class SpmdFullyShardedDataParallel(torch.nn.Module):
    """`mesh` with an axis "fsdp" (set_global_mesh's by default); `shard_output(output, mesh)` marks what forward gives."""

    def __init__(self, module, *, mesh=None, shard_output=None, auto_wrap_policy=None, auto_wrapper_callable=None, extra_data_axis=None, **rest):
        if rest:
            raise TypeError(f"SpmdFullyShardedDataParallel: found {sorted(rest)}, expected mesh, shard_output, auto_wrap_policy, auto_wrapper_callable or extra_data_axis")
        if isinstance(module, SpmdFullyShardedDataParallel):
            raise RuntimeError("SpmdFullyShardedDataParallel: found a module that is wrapped already")
        mesh = mesh or spmd.get_global_mesh()
        if mesh is None:
            raise ValueError("SpmdFullyShardedDataParallel: found no mesh, expected one (mesh=, or xs.set_global_mesh)")
        for axis in ("fsdp", extra_data_axis):
            if axis and mesh.get_axis_name_idx(axis) is None:
                raise ValueError(f"SpmdFullyShardedDataParallel: found axes {mesh.axis_names}, expected one named {axis!r}")
        super().__init__()
        if auto_wrap_policy is not None:
            wrapper, options = auto_wrapper_callable or type(self), {"mesh": mesh, "shard_output": shard_output, "extra_data_axis": extra_data_axis}
            fsdp.recursive_wrap(module, auto_wrap_policy, lambda m: wrapper(m, **options), is_root=True)
        self._orig_module = module
        self._mesh, self._extra_data_axis, self._shard_output = mesh, extra_data_axis, shard_output or self._shard_first
        for param in module.parameters():
            if param.device.type == "xla" and not spmd.get_xla_sharding_spec(param):
                spmd.mark_sharding(param, mesh, _partition_spec(param, extra_data_axis))

    @property
    def module(self):
        return self._orig_module

    def _shard_first(self, output, mesh):
        found = _tensors(output)
        if found is None:
            raise RuntimeError(f"SpmdFullyShardedDataParallel: found an output of {type(output).__name__}, expected a tensor, a tuple that begins with one, or logits; shard_output= marks others")
        for t in found:
            if t.dim():
                spmd.mark_sharding(t, mesh, ((self._extra_data_axis, "fsdp") if self._extra_data_axis else "fsdp", *[None] * (t.dim() - 1)))

    def forward(self, *args, **kwargs):
        output = self._orig_module(*args, **kwargs)
        self._shard_output(output, self._mesh)
        return output

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_orig_module"), name)

    def __getitem__(self, key):
        return self._orig_module[key]
