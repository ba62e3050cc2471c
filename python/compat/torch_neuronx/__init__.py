"""The name `torch_neuronx` of the older stack, served by trine.torch.old."""

from trine.torch.old.trace import (
    DataParallel,
    analyze,
    async_load,
    dynamic_batch_size,
    lazy_load,
    move_trace_to_device,
    trace,
)

__all__ = ["DataParallel", "analyze", "async_load", "dynamic_batch_size", "lazy_load", "move_trace_to_device", "trace"]
