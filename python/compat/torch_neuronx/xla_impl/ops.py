"""torch_neuronx.xla_impl.ops."""

from torch_neuronx import nki_jit
from trine.torch.old.absent import absent

globals().update(absent(__name__, "Argmax", "Softmax", "TopK"))
__all__ = ["nki_jit"]
