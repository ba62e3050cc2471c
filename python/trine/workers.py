"""Processes that work for this one and end with it, however it ends; an interrupt or another error ends them at once."""

import contextlib
import ctypes
import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor


PR_SET_PDEATHSIG = 1


def _begin():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who asked decides
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != multiprocessing.parent_process().pid:
        os._exit(1)  # who asked is gone already


@contextlib.contextmanager
def processes(count, start_method=None):
    """A ProcessPoolExecutor; start_method: "spawn", "fork"; the system's own without it."""
    pool = ProcessPoolExecutor(count, mp_context=multiprocessing.get_context(start_method), initializer=_begin)
    try:
        yield pool
    except BaseException:
        for child in multiprocessing.active_children():
            child.kill()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
