"""neuronx_distributed.parallel_layers."""

from neuronx_distributed.parallel_layers import mappings, parallel_state  # noqa: F401
from neuronx_distributed.parallel_layers.checkpointing import load, save  # noqa: F401
from neuronx_distributed.parallel_layers.grads import clip_grad_norm  # noqa: F401
from neuronx_distributed.parallel_layers.layers import ColumnParallelLinear, ParallelEmbedding, RowParallelLinear
from neuronx_distributed.parallel_layers.loss_functions import parallel_cross_entropy
from neuronx_distributed.parallel_layers.mappings import (
    copy_to_tensor_model_parallel_region,
    gather_from_tensor_model_parallel_region,
    reduce_from_tensor_model_parallel_region,
    scatter_to_tensor_model_parallel_region,
)
from neuronx_distributed.parallel_layers.parallel_state import initialize_model_parallel  # noqa: F401
from neuronx_distributed.parallel_layers.random import get_xla_rng_tracker, model_parallel_xla_manual_seed  # noqa: F401
from neuronx_distributed.parallel_layers.utils import (  # noqa: F401
    copy_tensor_model_parallel_attributes,
    move_model_to_device,
    set_defaults_if_not_set_tensor_model_parallel_attributes,
    set_tensor_model_parallel_attributes,
    split_tensor_along_last_dim,
)

PARALLEL_MODULES = [ColumnParallelLinear, RowParallelLinear, ParallelEmbedding]
PARALLEL_FUNCTIONS = [
    parallel_cross_entropy,
    copy_to_tensor_model_parallel_region,
    gather_from_tensor_model_parallel_region,
    reduce_from_tensor_model_parallel_region,
    scatter_to_tensor_model_parallel_region,
]
