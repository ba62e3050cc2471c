"""torch_xla.distributed.fsdp: ZeRO-3. A module keeps a part of its parameters on each rank; a forward gathers them, the
backward gathers again and leaves each rank its part of the averaged gradient.

The modules that are wrapped inside look after their own parameters.
"""

import torch
from torch import nn

from trine.torch.old import collectives as cc
from trine.torch.old import groups as replica
from trine.torch.old.ordinals import get_ordinal, xrt_world_size


class _Whole(torch.autograd.Function):
    """All parts as one vector; backward: this rank's part of the averaged gradient."""

    @staticmethod
    def forward(ctx, shard, unit):
        ctx.unit = unit
        return unit.gathered(shard)

    @staticmethod
    def backward(ctx, grad):
        unit = ctx.unit
        unit.again = None
        grad = grad.to(unit.owner.reduce_dtype or grad.dtype)
        part = cc.reduce_scatter(cc.REDUCE_SUM, grad, 1.0 / unit.owner.world_size, 0, unit.owner.world_size, unit.owner.sharding_groups)
        return part.to(unit.shard.dtype), None


class Unit:
    """Parameters that are gathered together."""

    def __init__(self, owner, named):
        self.owner, self.again = owner, None
        self.names = [n for n, _ in named]
        self.shapes = [tuple(p.shape) for _, p in named]
        self.sizes = [p.numel() for _, p in named]
        flat = torch.cat([p.detach().reshape(-1) for _, p in named]).float() if owner.fp32 else torch.cat([p.detach().reshape(-1) for _, p in named])
        flat = nn.functional.pad(flat, [0, -flat.numel() % owner.world_size])
        self.shard = nn.Parameter(flat.chunk(owner.world_size)[owner.rank].clone(), requires_grad=named[0][1].requires_grad)

    def gathered(self, shard):
        return cc.all_gather(shard.detach().to(self.owner.compute_dtype or shard.dtype), 0, self.owner.sharding_groups)

    def parts(self, whole):
        """name -> its view of a vector of all."""
        cut = whole[: sum(self.sizes)].split(self.sizes)
        return {n: v.view(s) for n, s, v in zip(self.names, self.shapes, cut)}


class XlaFullyShardedDataParallel(nn.Module):
    def __init__(self, module, reshard_after_forward=True, flatten_parameters=True, execute_sharding_on_init=True,
                 optimization_barrier_in_forward=True, optimization_barrier_in_backward=True, mark_step_on_finalization=False,
                 disable_reshard_on_root=True, compute_dtype=None, buffer_dtype=None, fp32_reduce_scatter=False, sharding_groups=None,
                 sharding_rank=None, sharding_world_size=None, auto_wrap_policy=None, auto_wrapper_callable=None, param_init_fn=None,
                 shard_param_on_dim_0=False, pin_layout_in_collective_ops=True, opt_flatten_overlap=False, **_):  # fmt: skip
        super().__init__()
        if isinstance(module, XlaFullyShardedDataParallel):
            raise ValueError("FSDP: found a module that is wrapped already, expected a plain one")
        ranks = replica.mine(sharding_groups)[0]
        self.sharding_groups = sharding_groups
        self.world_size = sharding_world_size or (len(ranks) if sharding_groups else xrt_world_size())
        self.rank = sharding_rank if sharding_rank is not None else ranks.index(get_ordinal()) if self.world_size > 1 else 0
        self.compute_dtype, self.buffer_dtype = compute_dtype, buffer_dtype
        self.reduce_dtype = torch.float32 if fp32_reduce_scatter else None
        self.fp32 = compute_dtype is not None  # weights are kept in f32 where another format computes
        self.reshard_after_forward = reshard_after_forward
        if auto_wrap_policy is not None:
            options = dict(reshard_after_forward=reshard_after_forward, flatten_parameters=flatten_parameters, compute_dtype=compute_dtype,
                           buffer_dtype=buffer_dtype, fp32_reduce_scatter=fp32_reduce_scatter, sharding_groups=sharding_groups)
            wrapper = auto_wrapper_callable or XlaFullyShardedDataParallel
            recursive_wrap(module, auto_wrap_policy, lambda m: wrapper(m, **options), is_root=True)
        if param_init_fn is not None:
            param_init_fn(module)
        self.module = module
        self._recomputes = any(hasattr(m, "recomputes") for m in module.modules())  # a backward then asks the modules for their weights
        self._cut(flatten_parameters)

    def _cut(self, flatten):
        if buffers := self.buffer_dtype or self.compute_dtype:
            for m in self.module.modules():
                for name, b in m.named_buffers(recurse=False):
                    if b.is_floating_point():
                        setattr(m, name, b.to(buffers))
        inner = {id(p) for m in self.module.modules() if isinstance(m, XlaFullyShardedDataParallel) for p in m.parameters()}
        own = [(n, p) for n, p in self.module.named_parameters() if id(p) not in inner]
        self._owners = {}  # a parameter that several modules share: all its names
        for m_name, m in self.module.named_modules(remove_duplicate=False):
            for name, p in m.named_parameters(recurse=False):
                self._owners.setdefault(id(p), []).append((m, name))
        runs = [[(n, p) for n, p in own if p.requires_grad == g] for g in (True, False)] if flatten else [[pair] for pair in own]
        self._units, self._slots = [], {}
        for run in filter(None, runs):
            unit = Unit(self, run)
            for name, p in run:
                self._slots[name] = self._owners[id(p)]
                for m, attribute in self._owners[id(p)]:
                    del m._parameters[attribute]
            self.register_parameter(f"_fsdp_shard_{len(self._units)}", unit.shard)
            self._units.append(unit)
        del self._owners

    def _put(self, unit, whole):
        for name, view in unit.parts(whole).items():
            for m, attribute in self._slots[name]:
                setattr(m, attribute, view)

    def forward(self, *args, **kwargs):
        if self.compute_dtype is not None:
            cast = lambda v: v.to(self.compute_dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v  # noqa: E731
            args, kwargs = tuple(map(cast, args)), {k: cast(v) for k, v in kwargs.items()}
        storages = {}
        for i, unit in enumerate(self._units):
            unit.shard = getattr(self, f"_fsdp_shard_{i}")
            whole = _Whole.apply(unit.shard, unit)
            storages[whole.untyped_storage()._cdata] = unit
            self._put(unit, whole)
        try:
            if not (self.reshard_after_forward and torch.is_grad_enabled()):
                return self.module(*args, **kwargs)
            with torch.autograd.graph.saved_tensors_hooks(lambda t: _packed(t, storages), _unpacked):
                return self.module(*args, **kwargs)
        finally:
            if not (torch.is_grad_enabled() and self._recomputes):
                for m, attribute in (slot for name in self._slots for slot in self._slots[name]):
                    delattr(m, attribute)

    @torch.no_grad()
    def clip_grad_norm_(self, max_norm, norm_type=2.0, groups=None):
        """Of all parts of all ranks, in place; gives the norm."""
        grads = [p.grad for p in self.parameters() if p.grad is not None]
        parts = [g.float().abs().pow(norm_type).sum() for g in grads] if norm_type != float("inf") else [g.abs().amax().float() for g in grads]
        total = torch.stack(parts).sum() if norm_type != float("inf") else torch.stack(parts).amax()
        how = cc.REDUCE_SUM if norm_type != float("inf") else cc.REDUCE_MAX
        total = cc.all_reduce(how, total, groups=self.sharding_groups)
        if groups is not None:
            total = cc.all_reduce(how, total, groups=groups)
        total = total if norm_type == float("inf") else total.pow(1.0 / norm_type)
        factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
        for g in grads:
            g.mul_(factor.to(g.dtype))
        return total

    def get_shard_metadata(self):
        """What joins the state dicts of all ranks again: parameters of each shard, by its name in state_dict()."""
        shards = {}
        for prefix, m in self.named_modules():
            if isinstance(m, XlaFullyShardedDataParallel):
                for i, u in enumerate(m._units):
                    name = f"{prefix}.module" if prefix else "module"
                    shards[f"{prefix + '.' if prefix else ''}_fsdp_shard_{i}"] = [(f"{name}.{n}", s) for n, s in zip(u.names, u.shapes)]
        return {"shards": shards, "rank": self.rank, "world_size": self.world_size}

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)


def _packed(t, storages):
    """A view of gathered parameters is not held until the backward, but gathered again."""
    unit = storages.get(t.untyped_storage()._cdata)
    return t if unit is None else (unit, t.size(), t.stride(), t.storage_offset())


def _unpacked(held):
    if isinstance(held, torch.Tensor):
        return held
    unit, *view = held
    if unit.again is None:
        unit.again = unit.gathered(unit.shard)
    return unit.again.as_strided(*view)


def consolidate_sharded_state_dicts(ranks):
    """One state dict of whole tensors, of [{"model": state dict, "shard_metadata": …}], one for each rank."""
    ranks = sorted(ranks, key=lambda r: r["shard_metadata"]["rank"])
    shards, out = ranks[0]["shard_metadata"]["shards"], {}
    if len(ranks) != (size := ranks[0]["shard_metadata"]["world_size"]):
        raise ValueError(f"consolidate: found the shards of {len(ranks)} ranks, expected {size}")
    for name, value in ranks[0]["model"].items():
        if name not in shards:
            out[_plain(name)] = value
            continue
        flat, at = torch.cat([r["model"][name] for r in ranks]), 0
        for parameter, shape in shards[name]:
            count = torch.Size(shape).numel()
            out[_plain(parameter)] = flat[at : at + count].view(shape).clone()
            at += count
    return out


def _plain(name):
    return ".".join(part for part in name.split(".") if part != "module")


def consolidate_sharded_model_checkpoints(ckpt_prefix, ckpt_suffix="*.pth", ckpt_path="", save_model=True):
    """Of the files prefix + suffix; gives (state dict, path)."""
    import glob

    found = sorted(glob.glob(ckpt_prefix + ckpt_suffix))
    if not found:
        raise FileNotFoundError(f"consolidate: found no file {ckpt_prefix + ckpt_suffix}, expected one for each rank")
    whole = consolidate_sharded_state_dicts([torch.load(f, map_location="cpu", weights_only=False) for f in found])
    path = ckpt_path or ckpt_prefix + "_consolidated.pth"
    if save_model:
        torch.save({"model": whole}, path)
    return whole, path


# which modules are wrapped


def size_based_auto_wrap_policy(module, recurse, unwrapped_params, min_num_params=int(1e8), force_leaf_modules=None, exclude_wrap_modules=None):
    leaves = tuple(force_leaf_modules or (nn.MultiheadAttention,))
    large = unwrapped_params >= min_num_params
    if recurse:
        return large and not isinstance(module, leaves)
    return large and not isinstance(module, tuple(exclude_wrap_modules or (nn.ModuleList, nn.ModuleDict)))


def transformer_auto_wrap_policy(module, recurse, unwrapped_params, transformer_layer_cls):
    return True if recurse else isinstance(module, tuple(transformer_layer_cls))


def always_wrap_policy(*args, **kwargs):
    return True


def recursive_wrap(module, auto_wrap_policy, wrapper_cls, ignored_modules=(), ignored_params=(), only_wrap_children=True, is_root=False):
    """(module, number of parameters wrapped): the children first; the root stays as it is."""
    count = sum(p.numel() for p in module.parameters())
    if not auto_wrap_policy(module=module, recurse=True, unwrapped_params=count):
        return module, 0
    wrapped = 0
    for name, child in module.named_children():
        if isinstance(child, XlaFullyShardedDataParallel) or child in ignored_modules:
            continue
        made, n = recursive_wrap(child, auto_wrap_policy, wrapper_cls, ignored_modules, ignored_params, False)
        setattr(module, name, made)
        wrapped += n
    if not is_root and count > wrapped and auto_wrap_policy(module=module, recurse=False, unwrapped_params=count - wrapped):
        return wrapper_cls(module), count
    return module, wrapped
