"""neuronx_distributed.lightning.strategy: the process group, the parts of a model and its checkpoints for Lightning's Trainer."""

import os

import torch
import torch.distributed as dist
from lightning.fabric.plugins.environments import LightningEnvironment, TorchElasticEnvironment
from lightning.fabric.utilities import move_data_to_device
from lightning.pytorch.strategies import ParallelStrategy
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from neuronx_distributed.lightning.accelerator import NeuronXLAAccelerator
from neuronx_distributed.lightning.checkpoint_io import NeuronCheckpointIO
from neuronx_distributed.parallel_layers import parallel_state
from neuronx_distributed.utils import cpu_mode, get_device, mark_step

SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "expert_parallel_size", "context_parallel_size")


class NeuronXLAStrategy(ParallelStrategy):
    strategy_name = "neuron_xla"

    def __init__(self, nxd_config=None, tensor_parallel_size=1, pipeline_parallel_size=1, expert_parallel_size=1, context_parallel_size=1,
                 debug=False, sync_module_states=False, checkpoint_io=None, save_load_xser=True):  # fmt: skip
        if checkpoint_io is not None and not isinstance(checkpoint_io, NeuronCheckpointIO):
            raise NotImplementedError(f"NeuronXLAStrategy: found checkpoint_io {type(checkpoint_io).__name__}, expected a NeuronCheckpointIO")
        environment = TorchElasticEnvironment() if TorchElasticEnvironment.detect() else LightningEnvironment()
        super().__init__(accelerator=NeuronXLAAccelerator(), cluster_environment=environment,
                         checkpoint_io=checkpoint_io or NeuronCheckpointIO(save_load_xser=save_load_xser))  # fmt: skip
        self.nxd_config, self.debug, self.sync_module_states = nxd_config, debug, sync_module_states
        given = dict(zip(SIZES, (tensor_parallel_size, pipeline_parallel_size, expert_parallel_size, context_parallel_size), strict=True))
        for name in SIZES:
            setattr(self, name, nxd_config[name] if nxd_config is not None else given[name])

    @property
    def root_device(self):
        return get_device()

    @property
    def is_zero(self):
        return bool((self.nxd_config or {}).get("optimizer_config", {}).get("zero_one_enabled"))

    def is_printing_rank(self, log_rank0=False):
        """The first of those whose stage has the loss."""
        stage = 0 if log_rank0 else self.pipeline_parallel_size - 1
        return (self.data_parallel_rank, self.tensor_parallel_rank, self.pipeline_parallel_rank) == (0, 0, stage)

    def setup_environment(self):
        self._join()
        super().setup_environment()

    def _join(self):
        """This process becomes a rank of the job, and of the groups that share the model."""
        environment = self.cluster_environment
        if not dist.is_initialized():
            os.environ.setdefault("MASTER_ADDR", environment.main_address)
            os.environ.setdefault("MASTER_PORT", str(environment.main_port))
            if not cpu_mode():
                import torch_xla.distributed.xla_backend  # noqa: F401
            dist.init_process_group("gloo" if cpu_mode() else "xla", rank=environment.global_rank(), world_size=environment.world_size())
        rank_zero_only.rank = dist.get_rank()
        if not parallel_state.model_parallel_is_initialized():
            lnc = (self.nxd_config or {}).get("lnc_size", 1)
            parallel_state.initialize_model_parallel(self.tensor_parallel_size, self.pipeline_parallel_size, self.context_parallel_size,
                                                     self.expert_parallel_size, lnc_size=lnc)  # fmt: skip
        self.data_parallel_rank, self.data_parallel_size = parallel_state.get_data_parallel_rank(), parallel_state.get_data_parallel_size()
        self.tensor_parallel_rank = parallel_state.get_tensor_model_parallel_rank()
        self.pipeline_parallel_rank = parallel_state.get_pipeline_model_parallel_rank()

    @property
    def distributed_sampler_kwargs(self):
        return {"num_replicas": parallel_state.get_data_parallel_size(), "rank": parallel_state.get_data_parallel_rank()}

    def model_to_device(self):
        pass  # initialize_parallel_model put this rank's part there

    def batch_to_device(self, batch, device=None, dataloader_idx=0):
        device = torch.device("cpu") if self.pipeline_parallel_size > 1 else device or self.root_device  # stages move what they take
        if self.lightning_module is not None:
            return self.lightning_module._apply_batch_transfer_handler(batch, device=device, dataloader_idx=dataloader_idx)
        return move_data_to_device(batch, device)

    def reduce(self, tensor, group=None, reduce_op="mean"):
        """Sums or means over all ranks; on the host, as it is for people to read."""
        names = {"sum": "sum", "mean": "mean", "avg": "mean", dist.ReduceOp.SUM: "sum", dist.ReduceOp.AVG: "mean", None: "mean"}
        op = names.get(reduce_op.lower() if isinstance(reduce_op, str) else reduce_op)
        if op is None:
            raise ValueError(f"reduce: found reduce_op {reduce_op!r}, expected sum, mean or avg")
        summed = torch.as_tensor(tensor).to(self.root_device, copy=True)
        mark_step()
        dist.all_reduce(summed, group=group)
        mark_step()
        found = summed.cpu()
        return found / dist.get_world_size(group) if op == "mean" else found

    def barrier(self, name=None):
        if dist.is_initialized():
            mark_step()
            dist.barrier()

    def broadcast(self, obj, src=0):
        if not dist.is_initialized() or dist.get_world_size() == 1:
            return obj
        held = [obj]
        dist.broadcast_object_list(held, src=src)
        return held[0]

    # A step that was recorded runs before its results are written or read.
    def save_checkpoint(self, checkpoint, filepath, storage_options=None):
        mark_step()
        self.checkpoint_io.save_checkpoint(checkpoint, filepath, storage_options=storage_options, master_dp_only=not self.is_zero)

    def load_checkpoint(self, checkpoint_path, weights_only=None):
        return self.checkpoint_io.load_checkpoint(checkpoint_path, weights_only=weights_only, master_dp_only=not self.is_zero)

    def remove_checkpoint(self, filepath):
        if self.is_global_zero:
            self.checkpoint_io.remove_checkpoint(filepath)
        self.barrier()
