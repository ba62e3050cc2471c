"""Time and cost of a whole model from its configuration alone: no weights, no chip.

`estimate(...)` compiles one phase of the model for one core, times it, adds what other cores and the host add, and
turns time into throughput, memory, dollars and joules. Needs JAX, which writes the model's program.
"""

import importlib

# Loaded when first used: the command says first how JAX is to be imported.
_LAZY = {"Answer": "answer", "estimate": "answer", "stablehlo": "lowering"}

__all__ = ["Answer", "estimate", "stablehlo"]


def __getattr__(name):
    if name in _LAZY:
        return getattr(importlib.import_module(f"trine.estimate.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'trine.estimate' has no attribute '{name}'")
