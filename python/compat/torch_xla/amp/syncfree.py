"""torch_xla.amp.syncfree: the optimisers of torch, which need no synchronisation here."""

from torch.optim import SGD, Adam, AdamW

__all__ = ["SGD", "Adam", "AdamW"]
