"""The calibration of published rows: a factor of device time for each class of program, and the host's part of a first
token. Pure arithmetic on what accuracy.py has computed; no row is looked at twice by its own prediction under
leave-one-out.
"""

import dataclasses
import math
import statistics

CLASSES = ("encoder", "convolution", "prefill", "streaming", "train")
OFF = 3.0  # a program of ours that is off by more than this says nothing of Neuron's: it has no part in a fit
PRIOR_ROWS = 1  # a class is drawn towards the mean of all classes as if by this many rows


@dataclasses.dataclass(frozen=True)
class Point:
    """A measured time and what ours is made of, in ms."""

    id: str
    kind: str
    measured: float
    device: float
    rest: float  # collectives, launch and what crosses the bus: taken as they are
    first_token: bool  # whether the host's part of a first token is in it

    def predicted(self, fit):
        return self.device * fit["factors"][self.kind] + self.rest + (fit["first_token_ms"] if self.first_token else 0.0)

    def ratio(self, first_token_ms):
        """log of what is left of the measured time over our device time; None where nothing is left."""
        left = self.measured - self.rest - (first_token_ms if self.first_token else 0.0)
        return math.log(left / self.device) if left > 0 else None

    def error(self, fit):
        return math.log(self.predicted(fit) / self.measured)


def factors(points, first_token_ms):
    """Medians by class, each drawn towards that of all classes: some rows are off for reasons no factor covers."""
    ratios = {}
    for p in points:
        r = p.ratio(first_token_ms)
        if r is not None and abs(r) <= math.log(OFF):
            ratios.setdefault(p.kind, []).append(r)
    everywhere = statistics.median(statistics.median(r) for r in ratios.values()) if ratios else 0.0
    return {k: math.exp(statistics.median([*ratios.get(k, []), *[everywhere] * PRIOR_ROWS])) for k in CLASSES}


def fitted(points):
    """The first token's host time that leaves the least errors, as logarithms, and the factors that go with it."""
    most = min((p.measured for p in points if p.first_token), default=0.0)
    best = None
    for step in range(100):
        first = most * step / 100
        fit = {"factors": factors(points, first), "first_token_ms": first}
        errors = sum(abs(p.error(fit)) for p in points)
        if best is None or errors < best[0]:
            best = errors, fit
    return best[1]


def left_out(points):
    """{id: the error of each row under a fit on all others}, as a logarithm."""
    return {p.id: p.error(fitted([q for q in points if q is not p])) for p in points}


def spread(errors):
    """The factor that nine in ten of the rows lie within when they are left out."""
    ordered = sorted(abs(e) for e in errors)
    return math.exp(ordered[min(len(ordered) - 1, math.ceil(0.9 * len(ordered)) - 1)])
