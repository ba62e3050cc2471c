"""torch_neuronx.proto.metaneff_pb2: what stands beside a NEFF, as names."""

from trine.torch.old.absent import absent

globals().update(absent(__name__, "MetaNeff", "MetaTensor"))
