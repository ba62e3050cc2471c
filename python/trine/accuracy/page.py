"""Accuracy for people: the table of classes as text, docs/accuracy.md, and a line for each measurement."""

import math
import statistics

from trine.accuracy import score
from trine.estimate import calibration, fit
from trine.text import columns

HEAD = ("class", "measured", "built on", "left out", "by instance", "in band", "roofline", "scaled roofline")


def percent(figures):
    return "–" if figures is None else " / ".join(f"{f:.0%}" if f < 10 else f"{f:.0f}×" for f in figures)


def cells(line):
    held = "–" if line.coverage is None else f"{line.coverage:.0%}"
    return (line.kind, str(line.cases), percent(line.built_on), percent(line.left_out), percent(line.by_instance), held, percent(line.roofline), percent(line.scaled))


def row(line):
    """The cells of a line on the page, the error to go by first."""
    kind, count, built, out, instance, held, plain, scaled = cells(line)
    return kind, count, out, held, instance, built, "–", plain, scaled


def text(lines, what):
    """Of each class the median error and the 90th percentile, and what was not scored. what: whose errors those are."""
    yield from columns([tuple(what if name == "left out" else name for name in HEAD), *(cells(line) for line in lines)], right=(1, 2, 3, 4, 5, 6, 7))
    yield "\nerrors: median / 90th percentile; scaled: with one efficiency for the class, left out too"
    for line in lines:
        for why, count in line.skipped.items():
            yield f"  not scored, {line.kind}: {count} × {why}"


INTRO = """# Accuracy

Written by `make accuracy`, which predicts every published measurement of `src/run/accuracy/measurements.json` and holds it
against what was measured. `trine accuracy --rows FILE` does the same with anybody's file of that format.

- **measured**: measurements that count. Latency, throughput and counters of one run are one measurement.
- **built on**: the error where the calibration was fitted on this measurement too.
- **left out**: the error where it was fitted without all measurements of the same model family (type and width), kernel or run
  of a collective. This is the one to go by.
- **by instance**: likewise, without all measurements on the same instance type, which often leaves too few for a fit.
- **kept back**: measurements that only others hold: they score them with `trine accuracy --rows FILE`, which shows no row.
- **in band**: how many left-out measurements lie in the 90 % band, which is made without their family too.
- **roofline**: the datasheet's peak and bandwidth alone; **scaled roofline**: the same with one efficiency for each class,
  fitted without the family. What does not beat that is said below.

Errors are median / 90th percentile of |predicted / measured − 1|.
"""


def page(cases, predictions, lines):
    yield INTRO
    yield "| class | measured | left out | in band | by instance | built on | kept back | roofline | scaled roofline |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    for line in lines:
        yield f"| {' | '.join(row(line))} |"
    yield "\nNobody has reported a file of their own yet: column `kept back` is empty.\n"
    yield from beaten(lines)
    yield from not_scored(lines)
    yield from calibrated()
    yield "## Every measurement\n"
    yield "`left out`: the error as above. `input`: a number of a chip file, or the choice of a mechanism, was read off it, so it is in no error and no band. `gate`: only an upper bound was published.\n"
    yield from each(cases, predictions)
    yield from bytes_of(cases, predictions)
    yield "\n## Sources\n"
    yield "Measurements by the repository that published them; each row of measurements.json has the page.\n"
    repositories = [c.source.split(":")[0].split(" ")[0] for c in cases if c.source]
    for name in sorted(set(repositories)):
        yield f"- {name}: {repositories.count(name)}"


def beaten(lines):
    behind = [line for line in lines if line.left_out and line.scaled and line.left_out[0] >= line.scaled[0]]
    if behind:
        yield "Not better than a scaled roofline: " + "; ".join(f"{b.kind} ({b.left_out[0]:.0%} against {b.scaled[0]:.0%})" for b in behind) + ".\n"
    wide = [line for line in lines if line.coverage is not None and line.cases >= score.ROWS_MIN and not 0.85 <= line.coverage <= 0.95]
    if wide:
        yield "Bands that hold fewer or more than 85 to 95 %: " + "; ".join(f"{w.kind} ({w.coverage:.0%})" for w in wide) + ".\n"


def not_scored(lines):
    yield "## Not scored\n"
    for line in lines:
        for why, count in line.skipped.items():
            yield f"- {line.kind}: {count} × {why}"
    yield ""


def calibrated():
    t = calibration.table()
    yield "## What was fitted\n"
    yield "Neuron's time over our device time, by class; one where fewer than eight measurements say anything.\n"
    yield "| class | factor | measurements |\n|---|--:|--:|"
    for kind, c in t["classes"].items():
        yield f"| {kind} | {'–' if kind in (*fit.WAITING, *fit.PLAIN) else format(c['factor'], '.2f')} | {c['cases']} |"
    first, each_ = (t["host"][n]["is"] for n in fit.HOST)
    yield f"\nThe host's part of a first token: {first:g} ms, of each that follows: {each_:g} ms."
    shares = ", ".join(f"{w['is']:g} in {name}" for name, w in t["waiting"].items())
    yield f"Of the shorter of compute and DMA engines the other waits for {shares}: classes without a factor.\n"


def number(value):
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def each(cases, predictions):
    points = score.points(cases, predictions)
    errors, fitted = score.left_out(points), calibration.fitted()
    plain, _ = score.roofline_errors(points)
    yield "| measurement | class | instance | predicted ms | measured ms | error | left out | roofline |"
    yield "|---|---|---|--:|--:|--:|--:|--:|"
    for c in cases:
        p = predictions[c.id]
        if p.skip or not c.time_ms:
            continue
        value = fit.predicted(p.terms, fitted)
        off = f"{value / c.time_ms - 1:+.0%}"
        out = f"{math.expm1(errors[c.id]):+.0%}" if c.id in errors else c.role
        roof = f"{math.expm1(plain[c.id]):+.0%}" if c.id in plain else ""
        yield f"| {c.id} | {c.kind} | {c.instance} | {number(value)} | {number(c.time_ms)} | {off} | {out} | {roof} |"


def bytes_of(cases, predictions):
    """HBM traffic of device profiles and kernels beside ours."""
    yield "\n## Bytes\n"
    yield "Predicted over measured HBM traffic of one core, where a profile has it.\n"
    yield "| measurement | read | written |\n|---|--:|--:|"
    ratios = {"hbm_read_bytes": [], "hbm_write_bytes": []}
    for c in cases:
        ours = predictions[c.id].others
        if "hbm_read_bytes" not in c.measured or "hbm_read_bytes" not in ours:
            continue
        shown = []
        for name, found in ratios.items():
            ratio = ours[name] / c.measured[name] if c.measured.get(name) else None
            shown.append("" if ratio is None else f"{ratio - 1:+.0%}")
            if ratio:
                found.append(abs(ratio - 1))
        yield f"| {c.id} | {' | '.join(shown)} |"
    for name, found in ratios.items():
        if found:
            yield f"\n{name.replace('_', ' ')}: median {statistics.median(found):.0%}"
