"""Requests that come when they come: open-loop arrivals on a server of this machine, and on copies of a modelled one.

Latency counts from the time a request was scheduled, not from when somebody was free to send it, so that a slow answer does
not hide the wait of those behind it. Host time is measured by run_open; chip time is simulated by queue: never mixed.
"""

import concurrent.futures
import dataclasses
import heapq
import math
import time

import numpy

LEVELS = (50, 90, 95, 99, 99.9)


def arrivals(count, rate, seed, variation=1.0):
    """Seconds at which requests come: gaps of a Gamma distribution with that coefficient of variation; 1 is Poisson."""
    shape = 1 / variation**2
    return numpy.cumsum(numpy.random.default_rng(seed).gamma(shape, 1 / (shape * rate), count))


def summary(seconds):
    """Percentiles in ms with the count; a band of 95 % about the median, by ranks; None where too few answered for a level."""
    ms = numpy.sort(numpy.asarray(seconds)[numpy.isfinite(seconds)]) * 1e3
    if not len(ms):
        return {"count": 0}
    out = {"count": len(ms), "mean_ms": float(ms.mean()), "min_ms": float(ms[0]), "max_ms": float(ms[-1])}
    for level in LEVELS:
        enough = len(ms) * (1 - level / 100) >= 1
        out[f"p{level:g}_ms"] = float(ms[max(0, math.ceil(level / 100 * len(ms)) - 1)]) if enough or level == 50 else None
    half = 0.98 * math.sqrt(len(ms))
    ends = [max(0, int(len(ms) / 2 - half)), min(len(ms) - 1, int(len(ms) / 2 + half))]
    return out | {"p50_band_ms": [float(ms[i]) for i in ends]}


def run_open(call, times, workers):
    """(latencies from the schedule, NaN where the call failed; how late each was begun; errors) in host seconds."""
    begin, late, took, errors = time.perf_counter(), [0.0] * len(times), [math.nan] * len(times), []

    def one(i):
        late[i] = time.perf_counter() - begin - times[i]
        try:
            call()
            took[i] = time.perf_counter() - begin - times[i]
        except Exception as e:  # whatever the user's code or server does is a lost request
            errors.append(f"{type(e).__name__}: {e}"[:200])

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for i, at in enumerate(times):
            wait = begin + at - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            pool.submit(one, i)
    return took, late, errors


def most_rate(workers, count=400):
    """Requests a second that run_open can begin here where they do nothing: beyond half of it a load says more of this machine."""
    begin = time.perf_counter()
    run_open(lambda: None, [0.0] * count, workers)
    return count / (time.perf_counter() - begin)


@dataclasses.dataclass
class Fault:
    """From `begin` to `end` some copies are gone (factor 0) or take `factor` times as long."""

    begin: float
    end: float
    copies: set
    factor: float


def queue(times, copies, batch, service_s, faults=()):
    """Latencies in chip seconds, NaN for requests that were lost: each free copy takes up to `batch` of those that wait."""
    out, i = numpy.full(len(times), math.nan), 0
    free = [(0.0, c) for c in range(copies)]
    while i < len(times):
        at, copy = heapq.heappop(free)
        start = max(at, times[i])
        struck = [f for f in faults if copy in f.copies]
        gone = next((f for f in struck if f.factor == 0 and f.begin <= start < f.end), None)
        if gone:
            heapq.heappush(free, (gone.end, copy))
            continue
        last = i + 1
        while last < len(times) and last - i < batch and times[last] <= start:
            last += 1
        end = start + service_s * max([f.factor for f in struck if f.factor and f.begin <= start < f.end], default=1.0)
        broken = next((f for f in struck if f.factor == 0 and start < f.begin < end), None)
        if not broken:
            out[i:last] = end - times[i:last]
        heapq.heappush(free, (broken.end if broken else end, copy))
        i = last
    return out


def recovery(times, latencies, begin, size=500):
    """Seconds after `begin` until three windows of requests in a row lose none and have a p99 within a tenth of the worst
    before; 0: they always did (one window alone is chance), None: not seen."""

    def worst(part):
        return math.inf if numpy.isnan(part).any() else numpy.percentile(part, 99)

    usual = 1.1 * max(worst(part) for _, part in windows(times, latencies, 0.0, begin, size))
    after = windows(times, latencies, begin, times[-1], size)
    bad = [worst(part) > usual for _, part in after]
    first = next((i for i, (_, part) in enumerate(after) if numpy.isnan(part).any() or all(bad[i : i + 2])), None)
    if first is None:
        return 0.0
    well = next((i for i in range(first, len(bad) - 2) if not any(bad[i : i + 3])), None)
    return None if well is None else float(after[well - 1][0] - begin)


def windows(times, latencies, begin, end, size):
    """[(time of its last request, latencies)] of whole windows between two times."""
    first, last = numpy.searchsorted(times, [begin, end])
    return [(times[i + size - 1], latencies[i : i + size]) for i in range(int(first), int(last) - size + 1, size)]
