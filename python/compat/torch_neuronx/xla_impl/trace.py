"""torch_neuronx.xla_impl.trace."""

from torch_neuronx import trace
from trine.torch.old.absent import absent

globals().update(absent(__name__, "HloArtifacts", "NeffArtifacts", "XLA_DTYPE_TO_METANEFF_DTYPE", "create_neuron_model", "generate_hlo", "generate_neff",
                        "get_hlo_computation_by_id", "get_hlo_root_instruction", "get_torch_dtype", "hlo_compile", "hlo_entry_computation",
                        "setup_compiler_dirs"))  # fmt: skip
__all__ = ["trace"]
