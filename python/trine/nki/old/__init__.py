"""The functional dialect of NKI (`neuronxcc.nki`, SDK 2.26 and before), on the same tracer and instructions.

Calls return tiles and take masks; indices are expressions of nl.arange and nl.mgrid. Kernels import it by its own name
from the package in python/compat.
"""

from trine.nki.errors import NkiError
from trine.nki.old import compiler, isa, language, typing
from trine.nki.old.kernel import baremetal, benchmark, jit, profile, simulate_kernel, trace
from trine.nki.trace import missing as _missing

tensor = typing.tensor  # in annotations

__all__ = ["NkiError", "baremetal", "benchmark", "compiler", "isa", "jit", "language", "profile", "simulate_kernel",
           "tensor", "trace", "typing"]  # fmt: skip


def __getattr__(name):
    raise _missing("neuronxcc.nki", name, globals())
