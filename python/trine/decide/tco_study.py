"""What the bands mean: a seeded Monte Carlo, what matters most, where the answer flips, and the vendor's claims."""

import numpy

from trine.decide.formula import evaluate
from trine.decide.tco_model import at, lines_of

SWEPT = {"tokens_per_day": (1e5, 1e13), "utilisation": (0.01, 1.0), "tokens": (1e6, 1e17), "goodput": (0.1, 1.0)}  # between which a point is looked for
NEURON = ("Trn1", "Trn2", "Trn3", "Inf2")


def drawn(inputs, draws, rng):
    out = {}
    for name, i in inputs.items():
        out[name] = numpy.full(draws, float(i.likely)) if i.fixed else rng.triangular(i.low, i.likely, i.high, draws)
    return out


def monte_carlo(shared, machines, draws, seed):
    """Totals of each machine; what is shared is drawn once, so that differences between machines are theirs."""
    common = drawn(shared, draws, numpy.random.default_rng(seed))
    rngs = numpy.random.default_rng(seed + 1).spawn(len(machines))
    return [evaluate(m.lines, {**common, **drawn(m.inputs, draws, rng)})["total_usd"] for m, rng in zip(machines, rngs, strict=True)]


def tornado(shared, ours, theirs):
    """[(input, difference at its low, at its high)] of ours less theirs, the widest first."""
    rows = []
    for name, i in shared.items():
        if not i.fixed:
            ends = [lines_of(shared, ours, **{name: v})["total_usd"] - lines_of(shared, theirs, **{name: v})["total_usd"] for v in (i.low, i.high)]
            rows.append((name, float(ends[0]), float(ends[1])))
    for machine, sign, other in ((ours, 1, theirs), (theirs, -1, ours)):
        for name, i in machine.inputs.items():
            if not i.fixed:
                rest = lines_of(shared, other)["total_usd"]
                ends = [sign * (lines_of(shared, machine, **{name: v})["total_usd"] - rest) for v in (i.low, i.high)]
                rows.append((f"{name} of {machine.name}", float(ends[0]), float(ends[1])))
    return sorted(rows, key=lambda r: -abs(r[2] - r[1]))


def crossing(function, low, high):
    """Where the function passes zero between low and high, by halving; None where its ends have one sign."""
    a, b = function(low), function(high)
    if not (a < 0 < b or b < 0 < a):
        return None
    for _ in range(60):
        middle = (low + high) / 2
        if (function(middle) < 0) == (a < 0):
            low = middle
        else:
            high = middle
    return (low + high) / 2


def break_evens(shared, ours, theirs):
    """Values of single inputs at which both cost the same, all else likely."""

    def shared_difference(name):
        return lambda v: float(lines_of(shared, ours, **{name: v})["total_usd"] - lines_of(shared, theirs, **{name: v})["total_usd"])

    def own_difference(machine, other, name):
        rest = float(lines_of(shared, other)["total_usd"])
        return lambda v: float(lines_of(shared, machine, **{name: v})["total_usd"]) - rest

    tries = [(name, "", shared_difference(name), low, high) for name, (low, high) in SWEPT.items() if name in shared]
    for machine, other in ((ours, theirs), (theirs, ours)):
        tries.append(("usd_per_hour", machine.name, own_difference(machine, other, "usd_per_hour"), 0.0, 2000.0))
        tries.append(("tokens_per_s", machine.name, own_difference(machine, other, "tokens_per_s"), 1.0, 1e7))
    tries.append(("port_hours", ours.name, own_difference(ours, theirs, "port_hours"), 0.0, 1e6))
    found = []
    for name, of, function, low, high in tries:
        value = crossing(function, low, high)
        if value is not None:
            found.append({"input": name, "of": of, "at": value, "cheaper_above": ours.name if function(high) * (1 if of != theirs.name else -1) < 0 else theirs.name})
    return found


def price_to_match(shared, machine, best):
    """USD an hour at which a machine without a known price costs what the best does; None where even free is more."""
    target = float(best)
    return crossing(lambda v: float(lines_of(shared, machine, usd_per_hour=v)["total_usd"]) - target, 0.0, 1e5)


def claims(listed, rows):
    """The vendor's headline claims beside the ratio that follows here: dollars of a token on machines that are full."""
    best = {}
    for row in rows:
        lines = row["lines"]
        if lines["usd_per_hour"]:
            best.setdefault(row["family"], (lines["usd_per_hour"] / lines["tokens_per_s"], row["way"]))
    out = []
    for c in listed:
        both = c["of"] in best and c["against"] in best
        ratio = best[c["of"]][0] / best[c["against"]][0] if both else None
        rented = [best[c["of"]][1], best[c["against"]][1]] if both else None
        out.append({"claim": c["claim"], "from": c["from"], "claimed_ratio": c["ratio"], "ratio_here": ratio, "ways": rented})
    return out


def percentiles(totals):
    return {f"p{p}": float(numpy.percentile(totals, p)) for p in (5, 25, 50, 75, 95)}


def likely(shared, machine):
    """All lines of a machine, as plain numbers."""
    return {name: float(v) for name, v in lines_of(shared, machine).items() if name not in at(shared)}
