"""Several answers beside one another: by which way to rent they are priced, which are fast enough, in which order.

Prices of different ways to rent (on-demand, a capacity block) are never in one column: an instance that cannot be rented
the way the column is for has none there.
"""

import re

PURCHASES = {"on-demand": "on-demand", "reserved": "reserved", "reserved-3y": "reserved, 3 years", "capacity-block": "capacity block"}
UNITS = {"us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3, "": 1.0}


def rent(answer, purchase):
    """What the answer costs rented that way; None where its instance is not."""
    return next((r for r in answer.cost()["rents"] if r["way"] == purchase), None)


def usual_purchase(found):
    """The way to rent that most of the instances have; of several, the first of PURCHASES."""
    return max(PURCHASES.values(), key=lambda purchase: sum(rent(a, purchase) is not None for a in found))


def _dollars(answer, purchase):
    found = rent(answer, purchase)
    return found["usd_per_million"] if found else float("inf")


ORDERS = {
    "latency": lambda a, purchase: a.likely_ms,
    "throughput": lambda a, purchase: -a.throughput,
    "cost": _dollars,
    "energy": lambda a, purchase: a.cost()["wall_joules_per_result"],
}


def milliseconds(text, option):
    """"20ms" in ms; a number alone is of ms."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(us|µs|ms|s)?", text.strip())
    if not found or float(found[1]) == 0:
        raise ValueError(f'{option} "{text}": a time such as 20ms, 1.5s or 800us')
    return float(found[1]) * UNITS[found[2] or ""]


def chosen(found, *, sort=None, purchase=None, p50=None, p99=None):
    """(answers that are fast enough, in order; those that are not). Where none is priced that way, they keep their order."""
    purchase = purchase or usual_purchase(found)
    slow = [a for a in found if (p50 and a.likely_ms > p50) or (p99 and a.p99_ms > p99)]
    fast = [a for a in found if a not in slow]
    return (sorted(fast, key=lambda a: ORDERS[sort](a, purchase)) if sort else fast), slow
