"""torch_xla.utils.serialization."""

from trine.torch.old.serialization import TensorReference, _get_tensor_file, _get_tensors_folder, load, save  # noqa: F401

__all__ = ["TensorReference", "load", "save"]
