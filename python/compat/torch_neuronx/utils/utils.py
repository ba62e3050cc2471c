"""torch_neuronx.utils.utils: which machine a program is for."""

from trine.nki import machine

SUPPORTED_TYPES = ("inf2", "trn1", "trn1n", "trn2", "trn2u", "trn3")


def get_platform_target():
    """The family of the chosen instance: trn1, trn2, inf2."""
    return (machine.chosen_instance() or machine.DEFAULT_INSTANCE).split(".")[0]
