"""The name `neuronx_distributed`: tensor, pipeline, sequence, context, expert and data parallel training, over virtual NeuronCores or
with NXD_CPU_MODE=1 over torch's own CPU tensors and gloo."""

from trine.torch import installed

installed.need_device()
import torch  # noqa: E402, F401 makes the device known

from neuronx_distributed import kernels, parallel_layers, utils  # noqa: E402, F401
from neuronx_distributed.trainer.checkpoint import (  # noqa: E402
    CheckpointIOState,
    finalize_checkpoint,
    has_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from neuronx_distributed.trainer.trainer import (  # noqa: E402
    initialize_parallel_model,
    initialize_parallel_optimizer,
    neuronx_distributed_config,
)

__version__ = "0.17.0"
__all__ = ["CheckpointIOState", "finalize_checkpoint", "has_checkpoint", "initialize_parallel_model", "initialize_parallel_optimizer",
           "load_checkpoint", "neuronx_distributed_config", "save_checkpoint"]  # fmt: skip
