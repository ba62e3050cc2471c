"""The threads that torch runs backward passes on, when the interpreter ends.

Such a thread frees what its last backward pass held after the caller has gone on, and takes the GIL for it inside a
destructor. Once the interpreter finalizes, taking the GIL ends the thread instead, and unwinding out of a destructor is
std::terminate: the program aborts after all its work is done. So the exit waits, without the GIL, until they sleep.
"""

import atexit
import pathlib
import time

PREFIX = "pt_autograd_"
POLL_S, POLLS_MOST = 0.0005, 2000


def wait_at_exit():
    atexit.register(wait)


def wait():
    """Until every backward thread sleeps twice in a row without having run in between."""
    threads, before = _threads(), None
    for _ in range(POLLS_MOST if threads else 0):
        time.sleep(POLL_S)  # without the GIL: a thread that waits for it goes on
        now = [_state(t) for t in threads]
        if now == before and all(state in "SZ" for state, _ in now):
            return
        before = now


def _threads():
    try:
        return [t for t in pathlib.Path("/proc/self/task").iterdir() if (t / "comm").read_text().startswith(PREFIX)]
    except OSError:
        return []


def _state(thread):
    """(letter of its state, how often it was switched to); a thread that has ended is as good as asleep."""
    try:
        lines = dict(line.split(":\t", 1) for line in (thread / "status").read_text().splitlines())
        return lines["State"][0], lines["voluntary_ctxt_switches"] + "+" + lines["nonvoluntary_ctxt_switches"]
    except (OSError, KeyError, ValueError):
        return "Z", ""
