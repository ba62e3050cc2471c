"""neuronx_distributed.lightning.neuron_hooks_callback: what chosen layers take and give, and their gradients, written to files."""

import os

import torch
from lightning.pytorch.callbacks import Callback

from neuronx_distributed.parallel_layers import parallel_state
from neuronx_distributed.utils import cpu_mode, master_print

WISHES = ("master_print_model_layers", "dump_only_master_rank", "dump_only_norms", "enable_activation_dumps", "enable_grad_dumps",
          "enable_tb_logging_master_rank_activation_norms", "enable_tb_logging_master_rank_grad_norms")  # fmt: skip


class NeuronHooksCallback(Callback):
    """cfg has hooks, target_layers ("a,b"), hooks_interval and the switches of WISHES."""

    def __init__(self, cfg):
        self.hooks = bool(cfg.hooks)
        for name in WISHES:
            setattr(self, name, self.hooks and bool(getattr(cfg, name, False)))
        self.target_layers = [s.strip() for s in cfg.target_layers.split(",") if s.strip()] if self.hooks else []
        self.hooks_interval = int(getattr(cfg, "hooks_interval", 1) or 1) if self.hooks else 1
        self.hooks_dump_base_directory = f"./hooks_outputs/{os.environ.get('SLURM_JOB_ID')}/hooks_dumps"

    def on_train_start(self, trainer, pl_module):
        layers = dict(pl_module.model.named_modules())
        if self.master_print_model_layers:
            master_print("\n".join(["Printing Model Layers:", *layers]))
        for name in self.target_layers:
            if name not in layers:
                continue  # of another stage
            if self.enable_activation_dumps:
                layers[name].register_forward_hook(self._hook(name, pl_module, "layer", "activation", self.enable_tb_logging_master_rank_activation_norms))
            if self.enable_grad_dumps:
                layers[name].register_full_backward_hook(self._hook(name, pl_module, "grad", "grad", self.enable_tb_logging_master_rank_grad_norms))

    def _hook(self, layer, pl_module, prefix, log_name, is_logged):
        def hook(module, given, made):
            step = pl_module.global_step
            if step % self.hooks_interval == 0:
                _after_step(lambda: self._write(layer, step, prefix, given, made, pl_module if is_logged else None, log_name))

        return hook

    def _write(self, layer, step, prefix, given, made, pl_module, log_name):
        if self.dump_only_master_rank and torch.distributed.get_rank() != 0:
            return
        folder = os.path.join(self.hooks_dump_base_directory, layer, f"global_step_{step}")
        os.makedirs(folder, exist_ok=True)
        for which, value in (("input", given), ("output", made)):
            value = next((v for v in (value if isinstance(value, tuple) else (value,)) if isinstance(v, torch.Tensor)), None)
            if value is None:
                continue  # the first layer's input has no gradient
            value = value.detach().cpu()
            if self.dump_only_norms:
                value = value.norm().item()
            kind = "norm" if self.dump_only_norms else "raw"
            torch.save(value, os.path.join(folder, f"{parallel_state.get_rank_info_str()}_{prefix}_{which}_{kind}.pt"))
            if pl_module is not None and self.dump_only_master_rank and self.dump_only_norms:
                pl_module.log(f"{log_name}_{which}_norm", value, on_step=True, on_epoch=False, logger=True)


def _after_step(work):
    """When the step that is being recorded has run; at once where nothing is recorded."""
    if cpu_mode():
        work()
    else:
        import torch_xla.core.xla_model as xm

        xm.add_step_closure(work)
