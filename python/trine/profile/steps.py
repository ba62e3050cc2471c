"""Steps of a program: the sequence of runs that repeats, as a training loop or a generation makes it."""

import numpy as np

ALIKE = 0.95  # of the runs that must be the same one period later
SHARE = 0.4  # of all runs that the steps must be
PERIODS_TRIED = 400


def _periods(what):
    """Distances between a run and the next of the same program that occur, shortest first."""
    order = np.lexsort((np.arange(len(what)), what))
    same = what[order][1:] == what[order][:-1]
    gaps = np.diff(order)[same]
    gaps = np.unique(gaps[gaps <= len(what) // 2])
    return gaps[:PERIODS_TRIED]


def find(what) -> tuple:
    """(first, period, count): `count` steps of `period` runs each from run `first`; count 0 where nothing repeats."""
    n = len(what)
    if n < 2:
        return 0, 0, 0
    what = np.asarray(what)
    for period in map(int, _periods(what)):
        same = what[:-period] == what[period:]
        # Back from the end as long as runs repeat, but for the few that may differ: first steps are not like the others.
        wrong = np.cumsum(~same[::-1])
        alike = np.flatnonzero(wrong <= (1 - ALIKE) * np.arange(1, len(wrong) + 1))
        reach = int(alike[-1]) + 1 if len(alike) else 0
        count = (reach + period) // period
        if count >= 2 and count * period >= SHARE * n:
            return n - count * period, period, count
    return 0, 0, 0
