"""A script as users of neuronx_distributed.lightning write it: `torchrun --nproc_per_node=4 lightning_script.py OUT STEPS [FROM]`.

A small model in parts under Lightning's Trainer, with a checkpoint every two steps; rank 0 writes its losses to OUT/losses.json.
"""

import json
import os
import sys
from pathlib import Path

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

import neuronx_distributed as nxd
from neuronx_distributed.lightning import (
    NeuronHooksCallback,
    NeuronLTModule,
    NeuronTensorBoardLogger,
    NeuronTQDMProgressBar,
    NeuronXLAPrecisionPlugin,
    NeuronXLAStrategy,
)
from neuronx_distributed.parallel_layers import checkpointing, layers, parallel_state
from neuronx_distributed.utils import mark_step

WIDTH, BATCH = 16, 4


def whole_weights():
    g = torch.Generator().manual_seed(7)
    return {"up.weight": torch.randn(32, WIDTH, generator=g) / 4, "up.bias": torch.zeros(32),
            "down.weight": torch.randn(WIDTH, 32, generator=g) / 6, "down.bias": torch.zeros(WIDTH)}  # fmt: skip


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = layers.ColumnParallelLinear(WIDTH, 32, gather_output=False)
        self.down = layers.RowParallelLinear(32, WIDTH, input_is_parallel=True)
        self.load_state_dict(checkpointing.get_sharded_model_dict(self, whole_weights()))

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(x)))


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 16  # an epoch is two steps, so that a run goes on where an epoch begins

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.randn(WIDTH, generator=g), torch.randn(WIDTH, generator=g)


class Module(NeuronLTModule):
    losses = []

    def train_dataloader(self):
        sampler = torch.utils.data.DistributedSampler(Rows(), **self.trainer.strategy.distributed_sampler_kwargs, shuffle=False)
        return torch.utils.data.DataLoader(Rows(), BATCH, sampler=sampler)

    def configure_optimizers(self):
        optimizers, schedules = super().configure_optimizers()
        return optimizers, [{**s, "interval": "step"} for s in schedules]

    def training_step(self, batch, index):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.model(x), y)
        if self.automatic_optimization:
            self.log("loss", loss)
            self.loss = loss.detach()
            return loss
        loss.backward()
        optimizer = self.optimizers()
        optimizer.step()
        self.global_norm = optimizer.grad_norm
        optimizer.zero_grad()
        self.lr_schedulers().step()
        mark_step()
        self.loss = loss.detach()
        return loss

    def on_train_batch_end(self, *args, **kwargs):
        mean = self.trainer.strategy.reduce(self.loss, reduce_op="mean")
        self.losses.append(float(mean))
        self.log("global_step", self.global_step, on_step=True)
        for logger in self.trainer.loggers:
            logger.print_step = self.global_step
        if not self.automatic_optimization:
            self.log("loss", mean, prog_bar=True)


class Hooks:
    hooks, target_layers, hooks_interval = True, "up", 2
    master_print_model_layers = dump_only_norms = enable_activation_dumps = enable_grad_dumps = True
    dump_only_master_rank = True


def main(out, steps, begin=None):
    os.chdir(out)
    zero = os.environ.get("ZERO") == "1"
    config = nxd.neuronx_distributed_config(tensor_parallel_size=2, optimizer_config={"zero_one_enabled": zero, "grad_clipping": True, "max_grad_norm": 1.0})
    module = Module(config, torch.optim.AdamW, lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda s: 1 / (1 + s)), model_fn=Net,
                    opt_kwargs={"lr": 0.02}, train_batch_size=BATCH, manual_opt=os.environ.get("AUTOMATIC") != "1")  # fmt: skip
    kept = ModelCheckpoint(save_top_k=2, monitor="global_step", mode="max", every_n_train_steps=2, dirpath=out / "kept", filename="step{step}", auto_insert_metric_name=False)
    trainer = Trainer(strategy=NeuronXLAStrategy(nxd_config=config, save_load_xser=not zero), plugins=[NeuronXLAPrecisionPlugin()], max_steps=steps,
                      callbacks=[NeuronTQDMProgressBar(), kept, NeuronHooksCallback(Hooks)], log_every_n_steps=1,
                      logger=NeuronTensorBoardLogger(save_dir=str(out / "tb")), enable_model_summary=False)  # fmt: skip
    trainer.fit(module, ckpt_path=begin)
    if torch.distributed.get_rank() == 0:
        Path(out, "losses.json").write_text(json.dumps({"losses": module.losses, "tp": parallel_state.get_tensor_model_parallel_size()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
