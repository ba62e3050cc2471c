"""neuronx_distributed.lightning.module: a LightningModule whose model is made in parts by a configuration of neuronx_distributed."""

import numbers

import torch
from lightning.pytorch import LightningModule

from neuronx_distributed.trainer import initialize_parallel_model, initialize_parallel_optimizer
from neuronx_distributed.utils import get_device

NOT_DECAYED = ("bias", "norm")


class NeuronLTModule(LightningModule):
    def __init__(self, nxd_config, opt_cls, scheduler_cls, model_args=(), model_kwargs=None, opt_args=(), opt_kwargs=None, scheduler_args=(),
                 scheduler_kwargs=None, model_fn=None, grad_accum_steps=1, train_batch_size=16, logging_interval=1, log_rank0=False,
                 manual_opt=True):  # fmt: skip
        super().__init__()
        self.nxd_config, self.model_fn, self.opt_cls, self.scheduler_cls = nxd_config, model_fn, opt_cls, scheduler_cls
        self.model_args, self.model_kwargs = model_args, model_kwargs or {}
        self.opt_args, self.opt_kwargs = opt_args, opt_kwargs or {}
        self.scheduler_args, self.scheduler_kwargs = scheduler_args, scheduler_kwargs or {}
        self.grad_accum_steps, self.train_batch_size = grad_accum_steps, train_batch_size
        self.logging_interval, self.log_rank0 = logging_interval, log_rank0
        self.automatic_optimization = not manual_opt
        self.loss = self.lr = self.input_ids = self.global_norm = None  # what a step leaves for its log
        self.should_print = False

    def setup(self, stage=None, include_buffers=False):
        self.model = initialize_parallel_model(self.nxd_config, self.model_fn, include_buffers, *self.model_args, **self.model_kwargs)
        self.averaged_loss = torch.zeros(1, dtype=torch.double).to(get_device())
        self.print_pp_rank = 0 if self.log_rank0 else self.trainer.strategy.pipeline_parallel_size - 1

    def forward(self, *args, **kwargs):
        return self.model(*args, **kwargs)

    def configure_optimizers(self):
        groups = self.get_param_groups_by_weight_decay()
        optimizer = initialize_parallel_optimizer(self.nxd_config, self.opt_cls, groups, *self.opt_args, **self.opt_kwargs)
        return [optimizer], [{"scheduler": self.scheduler_cls(optimizer, *self.scheduler_args, **self.scheduler_kwargs)}]

    def get_param_groups_by_weight_decay(self):
        """Biases and norms are not decayed."""
        groups = {"weight_decay": 0.01, "params": []}, {"weight_decay": 0.0, "params": []}
        for name, parameter in self.named_parameters():
            groups[any(part in name for part in NOT_DECAYED)]["params"].append(parameter)
        return [group for group in groups if group["params"]]

    # The optimizer clips, after it has summed over ranks.
    def configure_gradient_clipping(self, *args, **kwargs):
        pass

    def clip_gradients(self, *args, **kwargs):
        pass

    # Parameters and state are the model's own, without this module's name before theirs.
    def named_parameters(self, *args, **kwargs):
        return self.model.named_parameters(*args, **kwargs) if hasattr(self, "model") else super().named_parameters(*args, **kwargs)

    def state_dict(self, *args, **kwargs):
        return self.model.state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict, strict=True):
        return self.model.load_state_dict(state_dict, strict=strict)

    def log(self, name, value, *args, **kwargs):
        """As Lightning's. Numbers stay on the host: on the device they would become part of the next step's program."""
        if isinstance(value, torch.Tensor):
            value = value.detach().cpu().squeeze()
        elif isinstance(value, numbers.Number):
            value = torch.tensor(value, dtype=torch.float32)
        super().log(name, value, *args, **kwargs)
