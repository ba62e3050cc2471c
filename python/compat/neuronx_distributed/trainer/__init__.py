"""neuronx_distributed.trainer."""

from neuronx_distributed.trainer.checkpoint import finalize_checkpoint, has_checkpoint, load_checkpoint, save_checkpoint
from neuronx_distributed.trainer.trainer import initialize_parallel_model, initialize_parallel_optimizer, neuronx_distributed_config

__all__ = ["finalize_checkpoint", "has_checkpoint", "initialize_parallel_model", "initialize_parallel_optimizer", "load_checkpoint",
           "neuronx_distributed_config", "save_checkpoint"]  # fmt: skip
