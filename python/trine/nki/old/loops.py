"""Loops and the launch grid of the functional dialect. Every loop is unrolled while tracing."""

import contextlib
import functools
import sys

from trine.nki import language as current_language
from trine.nki.old.index import whole
from trine.nki.trace import current, error


class LoopIndex(int):
    """An int that knows the loop it counts, for nl.loop_reduce."""


class _Loop:
    """A loop and its running iteration. static: AWS's tracer unrolls it too, the others it walks through once."""

    def __init__(self, static):
        self.at, self.static, self.call_path = None, static, _call_path()


def _call_path():
    """The lines that lead here from the kernel's launch."""
    here, frame = [], sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "_trace":
        here.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(here)


def _range(*args, static=False, directives=None, **_):
    ordered = directives if hasattr(directives, "__enter__") else contextlib.nullcontext()
    loops = current().dialect.loops
    loop = _Loop(static)
    loops.append(loop)
    try:
        for n in range(*(whole(a) for a in args)):
            loop.at = i = LoopIndex(n)
            i.loop = loop
            with ordered:
                yield i
    finally:
        loops.remove(loop)


affine_range = sequential_range = _range
static_range = functools.partial(_range, static=True)
dynamic_range = current_language.dynamic_range


def reduction_key(loop_indices):
    """A key that is the same for the iterations of the given loops, and for nothing else."""
    indices = loop_indices if isinstance(loop_indices, (list, tuple)) else [loop_indices]
    over = {i.loop for i in indices if isinstance(i, LoopIndex)}
    loops = current().dialect.loops
    if not over & set(loops):
        raise error("NKI028", f"loop_indices={loop_indices!r}", "indices of the nl.affine_range loops around the call")
    outermost = min(loops.index(loop) for loop in over if loop in loops)
    # a loop inside those reduced over is made anew in each of their iterations: its place in the source stands for it
    around = tuple((loop if n < outermost else loop.call_path, int(loop.at)) for n, loop in enumerate(loops) if loop not in over)
    return _call_path(), loops[outermost], around


def first_placement(buffer):
    """Where the first iteration put this tensor: a kernel that counts addresses up in a loop does so once, not each time."""
    recorder = current().dialect
    now = tuple((loop, loop.at) for loop in recorder.loops if not loop.static)
    if not now:
        return buffer
    here = _call_path()
    before, count = recorder.placings.get(here, (None, 0))
    count = count + 1 if before == now else 0
    recorder.placings[here] = now, count
    return recorder.placements.setdefault((here, count), buffer)


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
