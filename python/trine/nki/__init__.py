"""NKI kernels on a virtual chip: values, time, and every illegal use with its line.

Use it as `import trine.nki as nki, trine.nki.language as nl, trine.nki.isa as nisa`.
"""

from trine.nki import collectives, compiler, isa, language, typing
from trine.nki import dtypes as dtype  # `nki.dtype`: a module of formats, and an annotation
from trine.nki.errors import NkiError
from trine.nki.kernel import Kernel, jit, shape, simulate
from trine.nki.trace import missing as _missing

__version__ = "0.6.0"
__all__ = ["Kernel", "NkiError", "collectives", "compiler", "dtype", "isa", "jit", "language", "shape", "simulate",
           "typing"]  # fmt: skip


def __getattr__(name):
    raise _missing("nki", name, globals())
