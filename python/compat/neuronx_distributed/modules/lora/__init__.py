"""neuronx_distributed.modules.lora."""

from neuronx_distributed.modules.lora.config import LoraConfig
from neuronx_distributed.modules.lora.model import LoraModel

__all__ = ["LoraConfig", "LoraModel", "get_lora_model"]


def get_lora_model(model, lora_config):
    """The model with adapters; a model of the trainer keeps its wrapper."""
    from neuronx_distributed.trainer.model import NxDModel

    if lora_config is None:
        return model
    if isinstance(model, NxDModel):
        model.module = LoraModel(model.module, lora_config)
        return model
    return LoraModel(model, lora_config)
