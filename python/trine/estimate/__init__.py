"""Time and cost of a whole model from its configuration alone: no weights, no chip.

`estimate(...)` compiles one phase of the model for one core, times it, adds what other cores and the host add, and
turns time into throughput, memory, dollars and joules. Needs JAX, which writes the model's program.
"""

from trine.estimate.answer import Answer, estimate
from trine.estimate.lowering import stablehlo

__all__ = ["Answer", "estimate", "stablehlo"]
