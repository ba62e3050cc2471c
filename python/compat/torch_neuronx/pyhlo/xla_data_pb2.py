"""torch_neuronx.pyhlo.xla_data_pb2: messages of XLA's HLO, as names."""

from trine.torch.old.absent import absent

globals().update(absent(__name__, "LayoutProto", "PrimitiveType", "ProgramShapeProto", "ShapeProto"))
