"""The calibration of published rows: a factor of device time for each class of program, and the host's part of a token
that is served, the first and each that follows. Pure arithmetic on what accuracy.py has computed; no row is looked at
twice by its own prediction under leave-one-out.
"""

import dataclasses
import math
import statistics

CLASSES = ("encoder", "convolution", "prefill", "streaming", "train")
HOST = ("first_token_ms", "token_ms")  # what a serving loop adds
PRIOR_ROWS = 1  # a class is drawn towards the mean of all classes as if by one row more: the least a prior can weigh (unit information)


@dataclasses.dataclass(frozen=True)
class Point:
    """A measured time and what ours is made of, in ms."""

    id: str
    kind: str
    measured: float
    device: float
    rest: float  # collectives, launch and what crosses the bus: taken as they are
    host: str | None  # the part of the host that is in it besides, of HOST

    def predicted(self, fit):
        return self.device * fit["factors"][self.kind] + self.rest + (fit[self.host] if self.host else 0.0)

    @property
    def ratio(self):
        """log of what is left of the measured time over our device time; None where nothing is left."""
        left = self.measured - self.rest
        return math.log(left / self.device) if left > 0 else None

    def error(self, fit):
        return math.log(self.predicted(fit) / self.measured)


def factors(points):
    """Medians by class, each drawn towards that of all classes: some rows are off for reasons no factor covers. Rows with
    the host's part of a token in them say nothing of it."""
    ratios = {}
    for p in points:
        if not p.host and p.ratio is not None:
            ratios.setdefault(p.kind, []).append(p.ratio)
    everywhere = statistics.median(statistics.median(r) for r in ratios.values()) if ratios else 0.0
    return {k: math.exp(statistics.median([*ratios.get(k, []), *[everywhere] * PRIOR_ROWS])) for k in CLASSES}


def fitted(points):
    """The factors, and with them the host's times that leave the least squares of errors, as logarithms. Squares, as few
    rows tell them and disagree: least errors would meet one of them and pass the others by."""
    known = {"factors": factors(points)}
    for name in HOST:
        on_host = [p for p in points if p.host == name]
        most = min((p.measured for p in on_host), default=0.0)
        tried = [known | {name: most * step / 100} for step in range(100)]
        known = min(tried, key=lambda fit: sum(p.error(fit) ** 2 for p in on_host))
    return known


def left_out(points):
    """{id: the error of each row under a fit on all others}, as a logarithm."""
    return {p.id: p.error(fitted([q for q in points if q is not p])) for p in points}


def spread(errors):
    """The factor that nine in ten of the rows lie within when they are left out."""
    ordered = sorted(abs(e) for e in errors)
    return math.exp(ordered[min(len(ordered) - 1, math.ceil(0.9 * len(ordered)) - 1)])
