"""torch_neuronx.xla_impl.structure."""

from trine.torch.old.absent import absent

globals().update(absent(__name__, "Flattener", "Packer"))
