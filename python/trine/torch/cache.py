"""Programs of whole graphs, kept from one process to the next in the compile cache that `trine cache` shows.

The key is everything that decides the program, as text, and the state of the rows. What takes over a second says so on
stderr, once when it is made and where it was kept, and again when a later process finds it.
"""

import collections
import json
import sys
import time

from trine import _core
from trine.torch import disk

COUNTS = collections.Counter()  # "made", "found"
SLOW = 1.0  # seconds


def get_or_make(name, text, ops, make):
    """What `make()` gives, a dict that JSON can hold, or gave in an earlier process."""
    state, began = disk.state(), time.perf_counter()
    short = _core.cache_hash(text, state)[:12]
    kept = _core.cache_get(text, state)
    if kept is not None:
        said = json.loads(kept)
        COUNTS["found"] += 1
        if said["took"] >= SLOW:
            say(f"{name}, {ops} ops: found as {short} in {time.perf_counter() - began:.2f} s (made in {said['took']:.1f} s)")
        return said["program"]
    is_shown = sys.stderr.isatty()
    if is_shown:
        print(f"compiling {name}, {ops} ops …", end="\r", file=sys.stderr, flush=True)
    program = make()
    took = time.perf_counter() - began
    COUNTS["made"] += 1
    kept = _core.cache_put(text, state, f"torch {name}, {ops} ops", json.dumps({"program": program, "took": took}).encode())
    if took >= SLOW:
        say(f"compiled {name}, {ops} ops, in {took:.1f} s, " + (f"cached as {short}" if kept else "not cached: the cache cannot be written"))
    elif is_shown:
        print("\x1b[2K", end="\r", file=sys.stderr, flush=True)
    return json.loads(json.dumps(program))  # the same types whether made or found


def say(line):
    print(line, file=sys.stderr, flush=True)
