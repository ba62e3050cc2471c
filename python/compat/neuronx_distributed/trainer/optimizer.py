"""neuronx_distributed.trainer.optimizer: an optimizer whose step first brings the gradients of all ranks together."""

import torch

from neuronx_distributed.parallel_layers import grads


class NxDOptimizer(torch.optim.Optimizer):
    def __init__(self, optimizer, nxd_config):
        self.optimizer, self.nxd_config, self._grad_norm = optimizer, nxd_config, None
        self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks = {}, {}

    params = property(lambda self: [p for g in self.param_groups for p in g["params"]])
    grad_norm = property(lambda self: self._grad_norm)
    state = property(lambda self: self.optimizer.state, lambda self, v: setattr(self.optimizer, "state", v))
    param_groups = property(lambda self: self.optimizer.param_groups, lambda self, v: setattr(self.optimizer, "param_groups", v))
    defaults = property(lambda self: self.optimizer.defaults, lambda self, v: setattr(self.optimizer, "defaults", v))

    def __repr__(self):
        return f"NxDOptimizer({self.optimizer!r})"

    def add_param_group(self, param_group):
        self.optimizer.add_param_group(param_group)

    def state_dict(self):
        return self.optimizer.state_dict()

    def load_state_dict(self, state_dict):
        self.optimizer.load_state_dict(state_dict)

    def save_sharded_state_dict(self, output_dir, num_workers_per_step=8):
        self.optimizer.save_sharded_state_dict(output_dir, num_workers_per_step)

    def load_sharded_state_dict(self, output_dir, num_workers_per_step=8):
        self.optimizer.load_sharded_state_dict(output_dir, num_workers_per_step)

    def zero_grad(self, set_to_none=True):
        self.optimizer.zero_grad(set_to_none=set_to_none)

    def __getstate__(self):
        return self.optimizer.__getstate__()

    def _fetch_gradients(self):
        """(of plain parameters, of experts)"""
        found = [], []
        for p in self.params:
            g = p.grad if p.grad is not None else getattr(p, "main_grad", None)
            if g is not None:
                found[bool(getattr(p, "expert_model_parallel", False))].append(g.data)
        return found

    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        grads.allreduce_context_parallel_gradients(self)
        if self.nxd_config["sequence_parallel"]:
            grads.allreduce_sequence_parallel_gradients(self)
        config = self.nxd_config["optimizer_config"]
        if not config["zero_one_enabled"]:
            plain, experts = self._fetch_gradients()
            grads.bucket_allreduce_gradients(plain + experts)
            if experts:
                grads.bucket_allreduce_gradients(plain, reduce_over_ep_group=True)
            if config["grad_clipping"]:
                self._grad_norm = grads.clip_grad_norm(self.params, config["max_grad_norm"])
        self.optimizer.step()
        if config["zero_one_enabled"]:
            self._grad_norm = self.optimizer.grad_norm
        return loss
