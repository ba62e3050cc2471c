"""The name `torch_neuronx` of the older stack, served by trine.torch.old."""

from trine.torch import installed

installed.need_device()
import torch  # noqa: E402

from trine.nki import jit as nki_jit  # noqa: E402
from trine.torch.kernels import nki_op, wrap_nki  # noqa: E402
from trine.torch.old import absent  # noqa: E402
from trine.torch.old.trace import (  # noqa: E402
    DataParallel,
    analyze,
    async_load,
    dynamic_batch_size,
    lazy_load,
    load,
    move_trace_to_device,
    replace_weights,
    trace,
)

__version__ = "2.9.0"
torch.jit.load = load  # the same, but a damaged file is named and the error says what to do
absent.torch_classes()
globals().update(absent.absent(__name__, "BucketModelConfig", "contexts"))

__all__ = ["DataParallel", "analyze", "async_load", "dynamic_batch_size", "lazy_load", "move_trace_to_device", "nki_jit", "nki_op", "replace_weights",
           "trace", "wrap_nki"]  # fmt: skip
