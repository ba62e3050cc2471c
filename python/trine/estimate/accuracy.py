"""Published times of whole models beside ours, as a part of docs/accuracy.md, and the calibration fitted on them.

`python -m trine.estimate.accuracy` prints the part; `--update` writes calibration.json from the same numbers first.
"""

import json
import math
import os
import statistics
import sys
from pathlib import Path

from trine.estimate import calibration, fit

FOLDER = Path(__file__).parent
ARGUMENTS = ("phase", "batch", "seq", "instance", "tp", "lnc", "auto_cast", "dtype", "new_tokens", "accumulate", "nodes", "pp")
TIMES = {"p50_ms": lambda a: a.likely_ms, "device_ms": lambda a: a.on_device_ms}
METRICS = TIMES | {
    "results_per_s": lambda a: a.throughput,
    "tokens_per_s": lambda a: a.generation["tokens_per_s"],
    "hbm_read_gb": lambda a: a.report["hbm_read_bytes"] / 1e9,
    "hbm_write_gb": lambda a: a.report["hbm_write_bytes"] / 1e9,
    "mfu_pct": lambda a: a.mfu * a.likely_ms / a.on_device_ms,
}
FAR = 0.30  # from here on a row has a paragraph in explanations.json


def held():
    return json.loads((FOLDER / "measurements.json").read_text())


def run(row):
    """The Answer of a row, or why there is none."""
    from trine.estimate.answer import estimate

    try:
        return estimate(row["config"], **{n: row[n] for n in ARGUMENTS if n in row})
    except (ValueError, MemoryError) as e:
        return str(e).splitlines()[0]


def point(row, answer):
    """What the calibration sees of a row; None where it holds no time."""
    measured = row["measured"]
    if isinstance(answer, str) or not set(measured) & {*TIMES, "results_per_s"}:
        return None
    profile = "device_ms" in measured
    time = measured.get("device_ms") or measured.get("p50_ms") or answer.copies * answer.results / measured["results_per_s"] * 1e3
    moved = sum(run.host_bytes * count for run, count in answer.runs)
    rest = answer.collectives_ms + (0.0 if profile else answer.launch_ms + calibration.host_ms("forward", moved))
    host = None if profile else calibration.HOST_PARTS.get(answer.phase)
    return fit.Point(row["id"], answer.kind, time, answer.device_ms, rest, host)


def update(found):
    points = [p for p in (point(*f) for f in found) if p]
    path = FOLDER / "calibration.json"
    table = json.loads(path.read_text())
    best, errors = fit.fitted(points), fit.left_out(points)
    for kind in fit.CLASSES:
        rows = [p.id for p in points if p.kind == kind]
        table["classes"][kind] = {"factor": round(best["factors"][kind], 3), "spread": round(fit.spread(errors.values()), 3), "rows": rows}
    for name in fit.HOST:
        table["host"][name]["is"] = round(best[name], 2)
    path.write_text(json.dumps(table, indent=2) + "\n")
    calibration.table.cache_clear()


def number(value):
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def lines_of(row, answer, left):
    """One line of the table for each published number of a row, and the errors of its times."""
    for name, measured in row["measured"].items():
        if isinstance(answer, str):
            yield f"| {row['id']} | {row['instance']} | {name} | – | – | – | {number(measured)} | {answer} | |", None
            continue
        value = METRICS[name](answer)
        error = value / measured - 1
        is_time = name in TIMES or name in ("results_per_s", "tokens_per_s")
        low, high = (value * b for b in answer.band)
        band = f"{number(low)} – {number(high)}" if is_time else ""
        ours = {"p50_ms": answer.achievable_ms, "device_ms": answer.device_ms + answer.collectives_ms}.get(name)
        out = f"{math.exp(left[row['id']]) - 1:+.0%}" if name in TIMES and row["id"] in left else ""
        shown = f"{value - measured:+.1f} points" if name == "mfu_pct" else f"{error:+.1%}"
        yield (f"| {row['id']} | {row['instance']} | {name} | {number(value)} | {band} | {number(ours) if ours else ''} |"
               f" {number(measured)} | {shown} | {out} |"), (row["id"], name, error)  # fmt: skip


def classes():
    yield "| class | factor of our device time | rows |"
    yield "|---|--:|--:|"
    for kind, c in calibration.table()["classes"].items():
        yield f"| {kind} | {c['factor']:.2f} | {len(c['rows'])} |"


def summary(errors, left):
    times = [(i, e) for i, name, e in errors if name in TIMES or name == "results_per_s"]
    loo = [abs(math.exp(e) - 1) for e in left.values()]
    far = sorted({i for i, e in times if abs(e) > FAR})
    yield (f"{len(times)} times and rates: median error {statistics.median(abs(e) for _, e in times):.1%}, worst"
           f" {max(abs(e) for _, e in times):.1%}, {len(times) - sum(abs(e) > FAR for _, e in times)} of {len(times)} within 30 %."
           f" Left out of the fit: median {statistics.median(loo):.1%}, worst {max(loo):.1%}.")  # fmt: skip
    why = json.loads((FOLDER / "explanations.json").read_text())
    for i in [*far, *sorted({i for i, name, e in errors if abs(e) > FAR and i not in far and name not in ("mfu_pct",)})]:
        yield f"\n- {i}: {why.get(i, 'not explained')}"


def page(found):
    left = fit.left_out([p for p in (point(*f) for f in found) if p])
    errors = []
    yield "## Whole models\n"
    yield (
        "What `trine estimate` says (p50 of a call, or what a device profile would show), what our own program takes, and"
        " what was published. The factors below were fitted on the times of these rows; the last column is the error of"
        " each when it is left out of the fit.\n"
    )
    yield from classes()
    first, each = (calibration.table()["host"][name]["is"] for name in fit.HOST)
    yield f"\nThe host's part of a first token: {first:g} ms, of each that follows: {each:g} ms.\n"
    yield "| id | instance | what | predicted | band | ours | measured | error | left out |"
    yield "|---|---|---|--:|--:|--:|--:|--:|--:|"
    for row, answer in found:
        for text, error in lines_of(row, answer, left):
            yield text
            errors += [error] if error else []
    yield ""
    yield from summary(errors, left)
    yield "\nSources:\n"
    for name, source in held()["sources"].items():
        yield f"- {source}: {', '.join(row['id'] for row, _ in found if row['from'] == name)}"


def main():
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    found = [(row, run(row)) for row in held()["rows"]]
    if "--update" in sys.argv:
        update(found)
    print("\n".join(page(found)))


if __name__ == "__main__":
    main()
