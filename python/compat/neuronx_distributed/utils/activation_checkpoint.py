"""neuronx_distributed.utils.activation_checkpoint: modules whose activations are computed again in the backward."""

from trine.torch.old.checkpoint import checkpoint_module


def apply_activation_checkpointing(model, check_fn):
    for module in list(model.modules()):
        if check_fn(module):
            checkpoint_module(module)
