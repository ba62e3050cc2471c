"""neuronxcc.nki._private_kernels.collectives: the newer name."""

from neuronxcc.nki._pre_prod_kernels.collectives import CollectivesConfig

__all__ = ["CollectivesConfig"]
