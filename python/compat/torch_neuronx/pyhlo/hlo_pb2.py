"""torch_neuronx.pyhlo.hlo_pb2: messages of XLA's HLO, as names."""

from trine.torch.old.absent import absent

globals().update(absent(__name__, "HloComputationProto", "HloInputOutputAliasProto", "HloInstructionProto", "HloModuleProto", "HloProto", "Kind"))
