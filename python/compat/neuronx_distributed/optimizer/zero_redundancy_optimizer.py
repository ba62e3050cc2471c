"""neuronx_distributed.optimizer: ZeRO-1 over the data parallel ranks, with the norm of tensor and pipeline parallel models."""

import os

import torch

from neuronx_distributed.parallel_layers import grads
from neuronx_distributed.parallel_layers import parallel_state as state
from neuronx_distributed.parallel_layers.utils import copy_tensor_model_parallel_attributes, move_all_tensor_to_cpu
from neuronx_distributed.utils.model_utils import recursive_filter
from trine.torch.old import ordinals
from trine.torch.old.zero import ZeroRedundancyOptimizer


class NeuronZero1Optimizer(ZeroRedundancyOptimizer):
    def __init__(self, *args, **kwargs):
        if not state.model_parallel_is_initialized():
            raise RuntimeError("NeuronZero1Optimizer: found no parallel state, expected a call of initialize_model_parallel before")
        kwargs["sharding_groups"] = kwargs.get("sharding_groups") or state.get_data_parallel_replica_groups()
        super().__init__(*args, **kwargs)

    def _shards(self):
        """With what their parameters know of themselves."""
        for p, shard in self._pairs(False):
            copy_tensor_model_parallel_attributes(shard, p)
            yield shard

    @torch.no_grad()
    def _calc_grad_norm(self, norm_type=2.0):
        return grads.get_grad_norm(list(self._shards()), norm_type, zero1_optimizer=True, zero1_optimizer_groups=self._sharding_groups).reshape(())

    @staticmethod
    def _file(output_dir):
        return os.path.join(output_dir, f"optim.dp_rank_{state.get_data_parallel_rank():02d}.tp_rank_{state.get_tensor_model_parallel_rank():02d}")

    def save_sharded_state_dict(self, output_dir, num_workers_per_step=8):
        """This rank's part of the state, a file for each; older scripts call it, newer ones nxd.save_checkpoint."""
        os.makedirs(output_dir, exist_ok=True)
        ranks = {"dp_rank": state.get_data_parallel_rank(), "tp_rank": state.get_tensor_model_parallel_rank()}
        torch.save(move_all_tensor_to_cpu(self.state_dict() | ranks), self._file(output_dir))
        ordinals.rendezvous("neuronx_distributed.optimizer saved")

    def load_sharded_state_dict(self, output_dir, num_workers_per_step=8):
        self.load_state_dict(torch.load(self._file(output_dir), map_location="cpu", weights_only=True))
        ordinals.rendezvous("neuronx_distributed.optimizer loaded")


def _is_expert(t):
    return getattr(t, "expert_model_parallel", False)


class NeuronEPZero1Optimizer(torch.optim.Optimizer):
    """Two of them: experts' parameters are cut over the ranks that have the same experts, all others over the batches."""

    def __init__(self, params, optimizer_class, **options):
        params = list(params)
        options.pop("sharding_groups", None)
        self.grad_clipping, self.max_norm = options.pop("grad_clipping", True), options.pop("max_norm", None) or 1.0
        self.non_ep_zero_optimizer = NeuronZero1Optimizer(recursive_filter(params, lambda p: not _is_expert(p)), optimizer_class, grad_clipping=False, **options)
        groups = state.get_expert_data_parallel_replica_groups()
        self.ep_zero_optimizer = NeuronZero1Optimizer(recursive_filter(params, _is_expert), optimizer_class, grad_clipping=False, sharding_groups=groups, **options)
        self._parts, self._grad_norm = (self.non_ep_zero_optimizer, self.ep_zero_optimizer), None
        self.defaults = self.non_ep_zero_optimizer.defaults

    param_groups = property(lambda self: [g for o in self._parts for g in o.param_groups])
    state = property(lambda self: {k: v for o in self._parts for k, v in o.state.items()})
    grad_norm = property(lambda self: self._grad_norm)

    def __repr__(self):
        return f"NeuronEPZero1Optimizer({self._parts[0]!r}, {self._parts[1]!r})"

    @torch.no_grad()
    def step(self, closure=None):
        for o in self._parts:
            o._reduce_gradients()
        ratio = state.get_expert_data_parallel_size() / state.get_data_parallel_size()
        for _, shard in self.ep_zero_optimizer._pairs(False):
            if shard.grad is not None:
                shard.grad.mul_(ratio)  # experts see the tokens of all batches
        norms = [grads.get_grad_norm(list(o._shards()), zero1_optimizer=True, zero1_optimizer_groups=o._sharding_groups).reshape(()) for o in self._parts]
        self._grad_norm = torch.stack(norms).square().sum().sqrt()
        if self.grad_clipping:
            for o in self._parts:
                grads.clip_grads_with_norm([s for _, s in o._pairs(False)], self._grad_norm, self.max_norm)
        for o in self._parts:
            o._update_parameters()

    def zero_grad(self, set_to_none=True):
        for o in self._parts:
            o.zero_grad(set_to_none)

    def state_dict(self):
        return {"non_ep": self._parts[0].state_dict(), "ep": self._parts[1].state_dict()}

    def load_state_dict(self, state_dict):
        self._parts[0].load_state_dict(state_dict["non_ep"])
        self._parts[1].load_state_dict(state_dict["ep"])
