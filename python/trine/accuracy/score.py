"""Errors, bands and coverage by class: pure arithmetic on cases and their predictions.

A case is left out with all of its group (a model family, a kernel, a collective's run), and apart from that with all of its
instance; the fit is made on what remains. Errors are logarithms of predicted over measured. Rows that a number of ours was read off (`input`) and upper bounds (`gate`) are in no error and no band.
"""

import dataclasses
import math
import statistics

from trine.accuracy import store
from trine.estimate import calibration, fit

COVERED = 0.9
ROWS_MIN = 8  # of a class, for a factor or a band of its own


@dataclasses.dataclass(frozen=True)
class Point:
    """A case with its prediction: what a fit needs of it."""

    case: object
    prediction: object

    @property
    def kind(self):
        return self.case.kind

    @property
    def group(self):
        return self.case.group

    @property
    def terms(self):
        return self.prediction.terms

    @property
    def measured(self):
        return self.case.time_ms

    def error(self, fitted):
        return math.log(fit.predicted(self.terms, fitted) / self.measured)

    @property
    def is_rate(self):
        return "copies" in self.case.ask


def points(cases, predictions):
    """Those that count: with a time, a prediction and nothing of ours read off."""
    return [Point(c, predictions[c.id]) for c in cases if c.id in predictions and not predictions[c.id].skip and c.time_ms and c.role == "check"]


def left_out(all_points, of=lambda p: p.group):
    """{case id: error}: each under a fit without all that `of` calls by the same name."""
    out = {}
    for name in dict.fromkeys(of(p) for p in all_points):
        fitted = fit.fitted([p for p in all_points if of(p) != name])
        out |= {p.case.id: p.error(fitted) for p in all_points if of(p) == name}
    return out


def instance_of(point):
    return point.case.instance


def roofline_errors(all_points):
    """({case id: error of the datasheet's roofline}, {case id: error with one efficiency for a class, left out})."""
    plain = {p.case.id: math.log(p.prediction.roofline_ms / p.measured) for p in all_points if p.prediction.roofline_ms > 0}
    scaled = {}
    for p in all_points:
        if p.case.id not in plain:
            continue
        others = [plain[q.case.id] for q in all_points if q.kind == p.kind and q.group != p.group and q.case.id in plain]
        if others:
            scaled[p.case.id] = plain[p.case.id] - statistics.median(others)
    return plain, scaled


# ---- bands


def spread(errors):
    """The factor that nine in ten lie within, of so many seen: the rank that keeps the promise for one not seen."""
    ordered = sorted(abs(e) for e in errors)
    return ordered[min(len(ordered), math.ceil(COVERED * (len(ordered) + 1))) - 1]


@dataclasses.dataclass(frozen=True)
class Band:
    """log of the factor on either side, the measurements behind it, and which those are."""

    width: float
    rows: int
    wider: str = ""  # what it was borrowed from
    away: float = 0.0  # by which it is wider, as nothing was measured on its core


def band(kind, core, residuals):
    """residuals: (kind, core, group, error) of cases not in the fit. Of the class on its own core, the class on all cores, all of
    its sort, all programs: whichever first has enough rows."""
    own = [e for k, c, _, e in residuals if k == kind and c == core]
    if len(own) >= ROWS_MIN:
        return Band(spread(own), len(own))
    sort = sort_of(kind)
    for name, among in ((f"{kind} on all chips", {kind}), (f"all {sort}", SORTS[sort]), ("all programs", PROGRAMS)):
        wide = [(c, e) for k, c, _, e in residuals if k in among]
        if len(wide) >= ROWS_MIN:
            away = 0.0 if any(c == core for c, _ in wide) else transfer(residuals)
            return Band(spread([e for _, e in wide]) + away, len(wide), name, away)
    return None


SORTS = {
    "models": {*calibration.CLASSES, "generation"},
    "kernels": {"kernels"},
    "collectives": {"collectives in a node", "collectives between nodes"},
    "parts of programs": {"instructions and transfers"},
}
PROGRAMS = SORTS["models"] | SORTS["kernels"]


def sort_of(kind):
    """The wider class."""
    return next(name for name, among in SORTS.items() if kind in among)


def transfer(residuals):
    """The worst by which the middle of a class lies elsewhere on one core than on another, of those with two cases each."""
    worst = 0.0
    for kind in {k for k, *_ in residuals}:
        by_core = {}
        for k, c, _, e in residuals:
            if k == kind:
                by_core.setdefault(c, []).append(e)
        middles = [statistics.median(es) for es in by_core.values() if len(es) >= 2]
        if len(middles) > 1:
            worst = max(worst, max(middles) - min(middles))
    return worst


def residuals_of(all_points, errors):
    return [(p.kind, p.case.core, p.group, errors[p.case.id]) for p in all_points]


def covered(all_points, errors):
    """{case id: whether it lies in the band made without its group}."""
    residuals = residuals_of(all_points, errors)
    out = {}
    for p in all_points:
        made = band(p.kind, p.case.core, [r for r in residuals if r[2] != p.group])
        if made:
            out[p.case.id] = abs(errors[p.case.id]) <= made.width
    return out


# ---- the table

COLUMNS = ("built_on", "left_out", "by_instance", "roofline", "scaled")


@dataclasses.dataclass(frozen=True)
class Line:
    """One class: (median, 90th percentile) of errors as fractions, and how many bands held. None: there are none."""

    kind: str
    cases: int  # measurements that count
    rows: int  # numbers published of them
    built_on: tuple | None
    left_out: tuple | None  # with its family; of another's file: as it is
    by_instance: tuple | None  # left out with its instance
    coverage: float | None
    roofline: tuple | None
    scaled: tuple | None  # roofline with one efficiency for the class
    skipped: dict  # why a case has no prediction -> how many

    def as_dict(self):
        names = ("median", "p90")
        out = dataclasses.asdict(self)
        return {k: dict(zip(names, v, strict=True)) if isinstance(v, tuple) else v for k, v in out.items()}


def figures(errors):
    """(median, 90th percentile) of |predicted / measured - 1|; None where there are none."""
    sizes = sorted(abs(math.expm1(e)) for e in errors)
    return (statistics.median(sizes), sizes[math.ceil(0.9 * len(sizes)) - 1]) if sizes else None


def share(flags):
    return sum(flags) / len(flags) if flags else None


def skipped(cases, predictions):
    out = {}
    for c in cases:
        why = predictions[c.id].skip or ("" if c.time_ms else "no time was published")
        why = why or ("" if c.role == "check" else c.role)
        if why:
            out[why] = out.get(why, 0) + 1
    return out


def table(cases, predictions):
    """A Line for each class of Trine's own file: fitted here, and left out by groups."""
    all_points = points(cases, predictions)
    fitted, errors = fit.fitted(all_points), left_out(all_points)
    plain, scaled = roofline_errors(all_points)
    columns = {"built_on": {p.case.id: p.error(fitted) for p in all_points}, "left_out": errors, "by_instance": left_out(all_points, instance_of),
               "roofline": plain, "scaled": scaled}  # fmt: skip
    return lines(cases, predictions, all_points, columns, covered(all_points, errors))


def unseen(cases, predictions):
    """The same of another's file: errors of the stored calibration, and whether its bands held."""
    all_points, fitted = points(cases, predictions), calibration.fitted()
    errors = {p.case.id: p.error(fitted) for p in all_points}
    held = {p.case.id: abs(errors[p.case.id]) <= stored_width(p) for p in all_points}
    plain, scaled = roofline_errors(all_points)
    return lines(cases, predictions, all_points, {"left_out": errors, "roofline": plain, "scaled": scaled}, held)


def stored_width(point):
    """log of the band's factor that a user is shown."""
    if sort_of(point.kind) == "models":
        return calibration.width(point.kind, point.case.chip)
    return store.kernel_width(point.prediction.bound, point.case.chip)


def lines(cases, predictions, all_points, columns, held):
    """columns: errors by case id, by the name of a Line's field."""
    out = []
    for kind in dict.fromkeys(c.kind for c in cases):
        ids = [p.case.id for p in all_points if p.kind == kind]
        mine = [c for c in cases if c.kind == kind]
        of = {name: figures([columns[name][i] for i in ids if i in columns[name]]) if name in columns else None for name in COLUMNS}
        out.append(Line(kind=kind, cases=len(ids), rows=sum(c.rows for c in mine), coverage=share([held[i] for i in ids if i in held]),
                        skipped=skipped(mine, predictions), **of))  # fmt: skip
    return out
