"""torch_xla.amp.syncfree: optimisers that skip a step on the device, with nothing read by the host."""

from trine.torch.old.amp import SGD, Adam, AdamW

__all__ = ["SGD", "Adam", "AdamW"]
