"""torch_neuronx.xla_impl.bucket_trace."""

from trine.torch.old.absent import absent

globals().update(absent(__name__, "create_bucket_model"))
