"""neuronx_distributed.lightning.progress_bar: on the one rank whose stage has the loss."""

from lightning.pytorch.callbacks import TQDMProgressBar


class NeuronTQDMProgressBar(TQDMProgressBar):
    def setup(self, trainer, pl_module, stage):
        self._trainer = trainer
        if not trainer.strategy.is_printing_rank(getattr(pl_module, "log_rank0", False)):
            self.disable()
