"""neuronx_distributed.lightning.logger: scalars for TensorBoard, written by the rank whose stage has the loss, at the steps the module names."""

from lightning.pytorch.loggers.tensorboard import TensorBoardLogger

from neuronx_distributed.parallel_layers import parallel_state


class _Nothing:
    """Takes every call and does nothing: what ranks that do not write have for a writer."""

    def __getattr__(self, name):
        return lambda *args, **kwargs: None

    def __getitem__(self, index):
        return self

    def __setitem__(self, index, value):
        pass


class NeuronTensorBoardLogger(TensorBoardLogger):
    def __init__(self, save_dir=".", log_rank0=False, **kwargs):
        super().__init__(save_dir=save_dir, **kwargs)
        self.log_rank0, self.print_step, self._writer = log_rank0, -1, None

    def should_print(self):
        return self.print_step >= 0 and self._is_writer()

    def _is_writer(self):
        if not parallel_state.model_parallel_is_initialized():
            return False
        stage = 0 if self.log_rank0 else parallel_state.get_pipeline_model_parallel_size() - 1
        found = parallel_state.get_data_parallel_rank(), parallel_state.get_tensor_model_parallel_rank(), parallel_state.get_pipeline_model_parallel_rank()
        return found == (0, 0, stage)

    # Lightning's own writes on global rank 0 alone, which with stages is not the one that has the loss.
    @property
    def experiment(self):
        if not self.should_print():
            return _Nothing()
        if self._writer is None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                from tensorboardX import SummaryWriter

            self._writer = SummaryWriter(log_dir=self.log_dir, **self._kwargs)
        return self._writer

    def log_metrics(self, metrics, step=None):
        writer = self.experiment
        for name, value in metrics.items():
            name = f"{self._prefix}{self.LOGGER_JOIN_CHAR}{name}" if self._prefix else name
            if isinstance(value, dict):
                writer.add_scalars(name, value, self.print_step)
            else:
                writer.add_scalar(name, value.item() if hasattr(value, "item") else value, self.print_step)

    def log_hyperparams(self, params, metrics=None, step=None):
        if self._is_writer():
            super().log_hyperparams(params, metrics)

    def save(self):
        if self._writer is not None:
            self._writer.flush()

    def finalize(self, status):
        if self._writer is not None:
            self._writer.flush()
            self._writer.close()
