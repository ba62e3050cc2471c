"""neuronx_distributed.lightning.precision_plugin: numbers are as the model has them; the optimizer brings gradients together."""

from lightning.pytorch.plugins.precision import Precision


class NeuronXLAPrecisionPlugin(Precision):
    def __init__(self, mixed_precision_enabled=False):
        super().__init__()
        self.mixed_precision_enabled = mixed_precision_enabled
