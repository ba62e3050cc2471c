"""The calibration of published measurements: a factor of device time for each class of program, and the host's part of a
token that is served, the first and each that follows. Pure arithmetic on what trine.accuracy has computed.

A factor needs eight measurements or is one, and so does a part of the host's, or is none: what fewer say is their own.
"""

import math

ROWS_MIN = 8
HOST = ("first_token_ms", "token_ms")  # what a serving loop adds
SUMS = ("generation",)  # classes that are made of others
OWN = ("decode",)  # bound by the DMA engines as Neuron's programs are: profiles lie around our program's own time
PLAIN = ("training",)  # compute engines one after the other, and nothing besides
# Classes with a share of waiting in place of a factor, by group: a decoder's many tokens.
WAITING = {"short prompts": "prompts", "long prompts": "prompts", "decoder forward": "prompts"}


def device(own, serial, dma, waiting):
    """A program on the device as Neuron's compiler overlaps it: at least our program's time, at least its compute engines' one
    after the other, and of the shorter of these and the DMA engines' a share that the other waits for."""
    return max(own, serial) + waiting * min(dma, serial)


def likely(term, fitted):
    return device(term.device, term.serial, term.dma, fitted.get("waiting", {}).get(WAITING.get(term.kind), 0.0))


def predicted(terms, fitted):
    """In ms. terms: as trine.accuracy.predict has them."""
    factors = fitted["factors"]
    return sum(t.count * likely(t, fitted) * factors.get(t.kind, 1.0) for t in terms) + besides(terms, fitted)


def besides(terms, fitted):
    """What no factor is applied to."""
    return sum(t.count * (t.rest + fitted["host"].get(t.host, 0.0)) for t in terms)


def factors(points, fitted):
    """Medians by class of what is left of the measured time over the device's."""
    from statistics import median  # for fitting alone: an estimate needs none of it

    ratios = {}
    for p in points:
        own, rest = sum(t.count * likely(t, fitted) for t in p.terms), besides(p.terms, fitted)
        if p.kind not in (*SUMS, *OWN, *PLAIN, *WAITING) and own > 0 and p.measured > rest:
            ratios.setdefault(p.kind, []).append(math.log((p.measured - rest) / own))
    return {kind: math.exp(median(r)) for kind, r in ratios.items() if len(r) >= ROWS_MIN}


def fitted(points):
    """Factors of what holds nothing of the host's, then with them the parts that leave the least errors (their sum, so that
    one row that is off for a reason of its own does not draw the others)."""
    from statistics import median

    known = {"factors": {}, "host": {}, "waiting": {}}
    plain = [p for p in points if p.kind not in SUMS]
    alone = [p for p in plain if not any(t.host for t in p.terms)]
    known["factors"] = factors(alone, known)
    known["waiting"] = shares_of_waiting([p for p in alone if p.kind in WAITING], known)
    for name in HOST:
        own = [p for p in plain if any(t.host == name for t in p.terms)]
        if len(own) >= ROWS_MIN:
            most = median(p.measured for p in own)
            known["host"] = best([known["host"] | {name: most * step / 200} for step in range(100)], "host", known, own)
    return known


def shares_of_waiting(points, known):
    """One for each group; a group of too few measurements has that of both together."""
    out = {}
    for group in dict.fromkeys(WAITING.values()):
        own = [p for p in points if WAITING[p.kind] == group]
        own = own if len(own) >= ROWS_MIN else points
        if len(own) >= ROWS_MIN:
            tried = [{g: step / 50 for g in WAITING.values()} for step in range(101)]
            out[group] = best(tried, "waiting", known, own)[group]
    return out


def best(tried, name, known, points):
    return min(tried, key=lambda value: sum(abs(math.log(predicted(p.terms, known | {name: value}) / p.measured)) for p in points))
