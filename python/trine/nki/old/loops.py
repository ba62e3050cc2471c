"""Loops and the launch grid of the functional dialect. Every loop is unrolled while tracing."""

import contextlib

from trine.nki import language as current_language
from trine.nki.old.index import whole
from trine.nki.trace import current, error, user_frame


class LoopIndex(int):
    """An int that knows the loop it counts, for nl.loop_reduce."""


class _Loop:
    """The running iteration of a loop."""

    def __init__(self):
        self.at = None


def _range(*args, directives=None, **_):
    ordered = directives if hasattr(directives, "__enter__") else contextlib.nullcontext()
    loops = current().dialect.loops
    loop = _Loop()
    loops.append(loop)
    try:
        for n in range(*(whole(a) for a in args)):
            loop.at = i = LoopIndex(n)
            i.loop = loop
            with ordered:
                yield i
    finally:
        loops.remove(loop)


affine_range = sequential_range = static_range = _range
dynamic_range = current_language.dynamic_range


def reduction_place(loop_indices):
    """A key that is the same for the iterations of the given loops, and for nothing else."""
    indices = loop_indices if isinstance(loop_indices, (list, tuple)) else [loop_indices]
    over = {id(i.loop) for i in indices if isinstance(i, LoopIndex)}
    loops = current().dialect.loops
    if not over:
        raise error("NKI028", f"loop_indices={loop_indices!r}", "indices of the nl.affine_range loops around the call")
    return user_frame(), tuple((id(loop), loop.at) for loop in loops if id(loop) not in over)


class SpmdDim:
    """A dimension of the launch grid that is dealt to physical cores."""

    def __init__(self, size, cores, first):
        self.size, self.cores, self.first = size, cores, first

    def __repr__(self):
        per = self.size // self.cores
        return f"nl.nc({self.cores}) * {per}" if self.first else f"{per} * nl.nc({self.cores})"

    def core(self, i):
        return i // (self.size // self.cores) if self.first else i % self.cores


class nc:
    """nl.nc(n): n physical cores."""

    def __init__(self, cores):
        self.cores = self.size = cores

    def __repr__(self):
        return f"nl.nc({self.cores})"

    def core(self, i):
        return i

    def __mul__(self, n):
        return spmd_dim(self, n)

    def __rmul__(self, n):
        return spmd_dim(n, self)


def spmd_dim(a, b):
    """Cores outermost (nc, n) or innermost (n, nc)."""
    if isinstance(a, nc) == isinstance(b, nc):
        raise error("NKI007", f"nl.spmd_dim({a!r}, {b!r})", "nl.nc(n) on one side")
    return SpmdDim(a.cores * b, a.cores, True) if isinstance(a, nc) else SpmdDim(a * b.cores, b.cores, False)
