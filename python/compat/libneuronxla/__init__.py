"""The name `libneuronxla`: its functions compile files of HLO, which nothing here makes."""

from trine.torch.old.absent import absent

globals().update(absent(__name__, "neuron_xla_compile", "neuron_xla_wlo_compile"))
