"""neuronx_distributed.lightning: models in parts under Lightning's Trainer, one process a NeuronCore as torchrun starts them."""

try:
    import lightning.pytorch  # noqa: F401
except ModuleNotFoundError as e:
    raise ModuleNotFoundError(f"neuronx_distributed.lightning needs Lightning, and found no {e.name}: pip install lightning") from None

from neuronx_distributed.lightning.accelerator import NeuronXLAAccelerator
from neuronx_distributed.lightning.checkpoint_io import NeuronCheckpointIO
from neuronx_distributed.lightning.logger import NeuronTensorBoardLogger
from neuronx_distributed.lightning.module import NeuronLTModule
from neuronx_distributed.lightning.neuron_hooks_callback import NeuronHooksCallback
from neuronx_distributed.lightning.precision_plugin import NeuronXLAPrecisionPlugin
from neuronx_distributed.lightning.progress_bar import NeuronTQDMProgressBar
from neuronx_distributed.lightning.strategy import NeuronXLAStrategy

__all__ = ["NeuronCheckpointIO", "NeuronHooksCallback", "NeuronLTModule", "NeuronTQDMProgressBar", "NeuronTensorBoardLogger",
           "NeuronXLAAccelerator", "NeuronXLAPrecisionPlugin", "NeuronXLAStrategy"]  # fmt: skip
