"""Published times of whole models beside ours, as docs/accuracy_models.md, and the calibration fitted on them.

`python -m trine.estimate.accuracy` prints the page; `--update` writes calibration.json from the same numbers. A class's
factor is the geometric mean of measured over our device time; the band is the widest distance of any row from it.
"""

import json
import math
import os
import sys
from pathlib import Path

from trine.estimate import calibration

FOLDER = Path(__file__).parent
ROWS_LEAST = 2  # of a class, for a factor


def rows():
    return json.loads((FOLDER / "measurements.json").read_text())["rows"]


def run(row):
    """The Answer of a row, or why there is none."""
    from trine.estimate.answer import estimate

    names = ("phase", "batch", "seq", "instance", "tp", "auto_cast", "dtype")
    try:
        return estimate(row["config"], **{n: row[n] for n in names if n in row})
    except ValueError as e:
        return str(e)


def fitted(found):
    """Factor and spread of every class. One row says nothing of a class: its factor stays 1.

    No class has rows enough for a spread of its own yet, so all have the widest distance that any row shows.
    """
    classes = {}
    for row, answer in found:
        if isinstance(answer, str):
            continue
        rest = row["measured_ms"] - answer.collectives_ms - answer.launch_ms - answer.host_ms
        if rest > 0:
            classes.setdefault(answer.kind, []).append((row["id"], math.log(rest / answer.device_ms)))
    means = {k: sum(x for _, x in r) / len(r) if len(r) >= ROWS_LEAST else 0.0 for k, r in classes.items()}
    spread = math.exp(max(abs(x - means[k]) for k, r in classes.items() for _, x in r))
    return {
        k: {"factor": round(math.exp(means.get(k, 0.0)), 3), "spread": round(spread, 3), "rows": [i for i, _ in classes.get(k, [])]}
        for k in calibration.table()["classes"]
    }


def update(found):
    path = FOLDER / "calibration.json"
    table = json.loads(path.read_text())
    for kind, fit in fitted(found).items():
        table["classes"][kind] = fit
    path.write_text(json.dumps(table, indent=2) + "\n")


def page(found):
    lines = [
        "# Accuracy on whole models",
        "",
        "Written by `python -m trine.estimate.accuracy`. Published times, what `trine estimate` says (p50, with the class's"
        " calibration, which was fitted on these very rows), and what our own program takes.",
        "",
        "| id | instance | p50 ms | band | ours ms | measured ms | error |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    errors = []
    for row, a in found:
        if isinstance(a, str):
            lines.append(f"| {row['id']} | {row['instance']} | – | – | – | {row['measured_ms']:g} | {a} |")
            continue
        error = a.likely_ms / row["measured_ms"] - 1
        errors.append(abs(error))
        low, high = (a.likely_ms * b for b in a.band)
        lines.append(
            f"| {row['id']} | {row['instance']} | {a.likely_ms:.3g} | {low:.3g} – {high:.3g} | {a.achievable_ms:.3g} |"
            f" {row['measured_ms']:g} | {error:+.1%} |"
        )
    errors.sort()
    if errors:
        lines += ["", f"{len(errors)} rows; median error {errors[len(errors) // 2]:.1%}, worst {errors[-1]:.1%}."]
    return "\n".join(lines)


def main():
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    found = [(row, run(row)) for row in rows()]
    if "--update" in sys.argv:
        update(found)
        calibration.table.cache_clear()
    print(page(found))


if __name__ == "__main__":
    main()
