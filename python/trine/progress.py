"""What a long job does, on stderr: a line for each stage that takes more than a second."""

import contextlib
import sys
import threading
import time


@contextlib.contextmanager
def stage(name):
    """Says that the stage runs once it has run for a second, and how long it took."""
    began = time.perf_counter()
    is_terminal = sys.stderr.isatty()
    shown = threading.Event()

    def say():
        shown.set()
        print(f"  {name} …", end="" if is_terminal else "\n", file=sys.stderr, flush=True)

    timer = threading.Timer(1.0, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if shown.is_set():
            print(f"{chr(13) if is_terminal else ''}  {name}  {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)


_shown = set()


def say_once(text):
    """A line that a user must see, once in a process."""
    if text not in _shown:
        _shown.add(text)
        print(f"trine: {text}", file=sys.stderr, flush=True)


def cache_trouble(why):
    """A cache that cannot be used only costs time, but that time again and again."""
    if not any(text.startswith("the compile cache") for text in _shown):
        say_once(f"the compile cache cannot be used, so every process compiles anew: {why}")
