"""torch_neuronx.xla_impl.base."""

from trine.torch.old.absent import absent

globals().update(absent(__name__, "xla_call"))
