"""Programs of whole graphs, kept from one process to the next in the compile cache that `trine cache` shows.

The key is everything that decides the program, as text, and the state of the rows. Each says on stderr that it is compiled
and where it was kept, as Neuron's compiler does: a graph compiled again and again is what makes a program slow. What took over
a second says so again when a later process finds it. `-q` in NEURON_CC_FLAGS silences it.
"""

import collections
import contextlib
import json
import os
import sys
import time

from trine import _core
from trine.torch import disk, lines, threads

COUNTS = collections.Counter()  # "made", "found"
SLOW = 1.0  # seconds
CLEAR = "\x1b[2K"  # the line, on a terminal


def get_or_make(name, text, ops, make):
    """What `make()` gives, a dict that JSON can hold, or gave in an earlier process."""
    state, began = disk.state(), time.perf_counter()
    short = _core.cache_hash(text, state)[:12]
    with _one_of_the_ranks(short) if threads.ranks() > 1 and _core.cache_get(text, state) is None else contextlib.nullcontext():
        return _find_or_make(name, text, ops, make, state, short, began)


@contextlib.contextmanager
def _one_of_the_ranks(short):
    """Ranks of a host come to the same graph together: the first compiles it, the others wait and find it."""
    import fcntl

    try:
        disk.path().parent.mkdir(parents=True, exist_ok=True)
        file = open(disk.path().parent / f"compiling-{short}.lock", "w")
    except OSError:  # nowhere to wait: each for itself
        yield
        return
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                os.unlink(file.name)  # whoever waits holds the same file and finds the program


def _find_or_make(name, text, ops, make, state, short, began):
    stored = _core.cache_get(text, state)
    if stored is not None:
        entry = json.loads(stored)
        COUNTS["found"] += 1
        if lines.is_wanted():
            make()  # for the lines alone: a profile names the user's
        if entry["took"] >= SLOW:
            say(f"{name}, {ops} ops: found as {short} in {time.perf_counter() - began:.2f} s (made in {entry['took']:.1f} s)")
        return entry["program"]
    say(f"compiling {name}, {ops} ops …", passing=True)
    program = make()
    took = time.perf_counter() - began
    COUNTS["made"] += 1
    stored = _core.cache_put(text, state, f"torch {name}, {ops} ops", json.dumps({"program": program, "took": took}).encode())
    where = f"cached as {short} (`trine cache ls`)" if stored else "not cached"
    say(f"compiled {name}, {ops} ops, in {took:.1f} s, {where}")
    return json.loads(json.dumps(program))  # the same types whether made or found


def say(line, passing=False):
    """A line of the compiler's; a passing one is for terminals, where the next takes its place."""
    if not {"-q", "--quiet"}.isdisjoint(os.environ.get("NEURON_CC_FLAGS", "").split()):
        return
    is_terminal = sys.stderr.isatty()
    if is_terminal or not passing:
        print(f"{CLEAR if is_terminal else ''}[NeuronCC] {line}", end="\r" if passing else "\n", file=sys.stderr, flush=True)
