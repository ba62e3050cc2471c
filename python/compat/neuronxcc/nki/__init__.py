"""`neuronxcc.nki`, the functional dialect of NKI (SDK 2.26 and before), on Trine's tracer and instructions."""

import os
import sys

from neuronxcc.nki import compiler, isa, language, typing
from neuronxcc.nki.run import baremetal, benchmark, jit, profile, simulate_kernel, trace
from trine.nki.errors import NkiError
from trine.nki.trace import add_internal_root

add_internal_root(os.path.dirname(__file__))
sys.modules["neuronxcc.nki.isa.constants"] = isa

__all__ = ["NkiError", "baremetal", "benchmark", "compiler", "isa", "jit", "language", "profile", "simulate_kernel",
           "trace", "typing"]  # fmt: skip
