"""torch_xla.debug.profiler: names for stretches of a program, seen by torch.profiler."""

from trine.torch.old.profiler import StepTrace, Trace

__all__ = ["StepTrace", "Trace"]
