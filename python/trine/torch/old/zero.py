"""torch_xla.distributed.zero_redundancy_optimizer: ZeRO-1. Each rank keeps the optimizer's state, and weights in its precision,
for a part of every parameter: dim 0 is padded to the group and cut.

A step: gradients are reduced and scattered, clipped by the norm of all parts, the optimizer steps on the parts, and the
parts are gathered into the parameters.
"""

import copy

import torch
from torch import nn

from trine.torch.old import collectives as cc
from trine.torch.old import groups as replica
from trine.torch.old import ordinals


class ZeroRedundancyOptimizer(torch.optim.Optimizer):
    def __init__(self, params, optimizer_class, optimizer_dtype=None, grad_clipping=True, max_norm=None, pin_layout=True,
                 sharding_groups=None, grad_norm_groups=None, lazy_init=False, bucket_cap_mb_all_gather=0,
                 bucket_cap_mb_reduce_scatter=0, use_grad_acc_hook=False, save_master_weights=False, higher_cc_precision=False, **defaults):  # fmt: skip
        super().__init__(params, defaults)
        self.optimizer_class, self.defaults = optimizer_class, defaults
        self.optimizer_dtype = optimizer_dtype or torch.float32
        self.grad_clipping, self.max_norm, self.pin_layout = grad_clipping, 1.0 if max_norm is None else max_norm, pin_layout
        self.global_world_size, self.global_rank = ordinals.xrt_world_size(), ordinals.get_ordinal()
        self._sharding_groups = sharding_groups or [list(range(self.global_world_size))]
        self._grad_norm_groups, self._grad_norm = grad_norm_groups, None
        self.bucket_cap_mb_all_gather, self.bucket_cap_mb_reduce_scatter = bucket_cap_mb_all_gather, bucket_cap_mb_reduce_scatter
        self.use_grad_acc_hook, self.save_master_weights, self.higher_cc_precision = use_grad_acc_hook, save_master_weights, higher_cc_precision
        self._hooks, self.inited = [], False
        if not lazy_init:
            self.init_zero()

    def init_zero(self):
        """Cuts the parameters and makes the optimizer of the parts."""
        self.remove_hooks()
        ranks = replica.mine(self._sharding_groups)[0]
        self.local_world_size, self.local_rank = len(ranks), ranks.index(self.global_rank)
        parts = [{**g, "params": [self._shard_of(p) for p in g["params"]]} for g in self.param_groups]
        self.base_optimizer = self.optimizer_class(parts, **self.defaults)
        self._copy_settings(self.base_optimizer, self)  # those that the optimizer added
        self.inited = True

    grad_norm = property(lambda self: self._grad_norm)

    @property
    def sharding_groups(self):
        return self._sharding_groups

    @sharding_groups.setter
    def sharding_groups(self, groups):
        if self.inited:
            raise RuntimeError("sharding_groups: found an optimizer whose parameters are cut, expected one made with lazy_init=True before init_zero()")
        self._sharding_groups = groups

    @staticmethod
    def _copy_settings(source, target):
        """What a scheduler changes, such as the learning rate."""
        for a, b in zip(source.param_groups, target.param_groups):
            b.update({k: v for k, v in a.items() if k != "params"})

    def _padded(self, t):
        lacking = -t.size(0) % self.local_world_size
        return nn.functional.pad(t, [0, 0] * (t.dim() - 1) + [0, lacking]) if lacking else t

    def _shard_of(self, param):
        data = param.detach().reshape(1) if param.dim() == 0 else param.detach()
        part = self._padded(data).chunk(self.local_world_size)[self.local_rank].to(self.optimizer_dtype, copy=True)
        shard = nn.Parameter(part, requires_grad=param.requires_grad)
        if self.use_grad_acc_hook and param.requires_grad:
            self._hooks.append(param.register_post_accumulate_grad_hook(lambda p: self._accumulate(p, shard)))
        return shard

    def _accumulate(self, param, shard):
        """Into a gradient of the optimizer's precision; the parameter's own is let go."""
        if not hasattr(shard, "main_grad"):
            param.main_grad = shard.main_grad = torch.zeros(param.shape, dtype=self.optimizer_dtype, device=param.device)
        shard.main_grad.add_(param.grad)
        param.grad = None

    def remove_hooks(self):
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _pairs(self, with_gradients=True):
        """(parameter, its part)"""
        for g, cut in zip(self.param_groups, self.base_optimizer.param_groups):
            for p, shard in zip(g["params"], cut["params"]):
                if not with_gradients or p.grad is not None or hasattr(shard, "main_grad"):
                    yield p, shard

    def _scheme(self, given=None):
        return given or [{"scale_factor": 1.0, "sharding_group": self._sharding_groups, "group_size": self.local_world_size}]

    @torch.no_grad()
    def _reduce_gradients(self, sharding_scheme=None, **_):
        self._copy_settings(self, self.base_optimizer)
        pairs = list(self._pairs())
        grads = [getattr(shard, "main_grad", p.grad) for p, shard in pairs]
        grads = [self._padded(g.reshape(1) if g.dim() == 0 else g) for g in grads]
        if self.higher_cc_precision:
            grads = [g.to(self.optimizer_dtype) for g in grads]
        for s in self._scheme(sharding_scheme):
            options = s["scale_factor"] / s["group_size"], 0, s["group_size"], s["sharding_group"]
            grads = cc.reduce_scatter_bucketized(cc.REDUCE_SUM, grads, *options, bucket_cap_mb=self.bucket_cap_mb_reduce_scatter)
        for (_, shard), g in zip(pairs, grads):
            shard.grad = g.to(self.optimizer_dtype)

    @torch.no_grad()
    def _calc_grad_norm(self, norm_type=2.0):
        """Of all parts as one vector."""
        if float(norm_type) != 2.0:
            raise ValueError(f"grad norm: found norm_type={norm_type}, expected 2")
        shards = [shard for _, shard in self._pairs(False)]
        squares = [shard.grad.square().sum() for shard in shards if shard.grad is not None]
        total = torch.stack(squares).sum() if squares else torch.zeros((), device=shards[0].device, dtype=self.optimizer_dtype)
        for groups in (self._sharding_groups, self._grad_norm_groups):
            if groups is not None:
                total = cc.all_reduce(cc.REDUCE_SUM, total, groups=groups)
        return total.sqrt()

    @torch.no_grad()
    def _clip_grad_norm(self, max_norm, norm_type=2.0):
        self._grad_norm = self._calc_grad_norm(norm_type)
        factor = (max_norm / (self._grad_norm + 1e-6)).clamp(max=1.0)
        for _, shard in self._pairs(False):
            if shard.grad is not None:
                shard.grad.mul_(factor)

    @torch.no_grad()
    def _update_parameters(self, sharding_scheme=None, **options):
        self.base_optimizer.step(**options)
        self.base_optimizer.zero_grad(set_to_none=True)
        self.allgather_weights_and_update_full_parameter(sharding_scheme)
        self._copy_settings(self.base_optimizer, self)

    @torch.no_grad()
    def allgather_weights_and_update_full_parameter(self, sharding_scheme=None, with_gradients=True):
        pairs = list(self._pairs(with_gradients))
        whole = [shard.detach().to(p.dtype) for p, shard in pairs]
        for s in reversed(self._scheme(sharding_scheme)):
            whole = cc.all_gather_bucketized(whole, 0, s["sharding_group"], bucket_cap_mb=self.bucket_cap_mb_all_gather)
        for (p, _), w in zip(pairs, whole):
            p.data.copy_(w[: p.size(0)] if p.dim() else w[0])

    def step(self, closure=None, **options):
        if not self.inited:
            raise RuntimeError("step: found an optimizer made with lazy_init=True, expected a call of init_zero() before the first step")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._reduce_gradients(**options)
        if self.grad_clipping:
            self._clip_grad_norm(self.max_norm)
        self._update_parameters(**options)
        return loss

    def zero_grad(self, set_to_none=True):
        super().zero_grad(set_to_none)
        for _, shard in self._pairs(False) if self.inited else ():
            if hasattr(shard, "main_grad"):
                shard.main_grad.zero_()

    def get_shape_info(self):
        return {i: p.shape for i, (p, _) in enumerate(self._pairs(False))}

    def state_dict(self):
        """This rank's: `base_state` is the state of its parts."""
        out = super().state_dict()
        out["base_state"] = self.base_optimizer.state_dict()["state"]
        out["shape_info"] = self.get_shape_info()
        if self.save_master_weights:
            out["sharded_master_weights"] = {i: shard.detach() for i, (_, shard) in enumerate(self._pairs(False))}
        return out

    @torch.no_grad()
    def load_state_dict(self, state_dict):
        state = copy.copy(state_dict)
        base, weights = state.pop("base_state"), state.pop("sharded_master_weights", None)
        state.pop("shape_info", None)
        super().load_state_dict(copy.deepcopy(state))
        self.init_zero()
        self.base_optimizer.load_state_dict({"state": base, "param_groups": state["param_groups"]})
        self._copy_settings(self, self.base_optimizer)
        if weights is not None:
            for i, (_, shard) in enumerate(self._pairs(False)):
                shard.copy_(weights[i])
            self.allgather_weights_and_update_full_parameter(with_gradients=False)
