"""What accuracy gives to the rest of Trine: factors and bands of whole models (python/trine/estimate/calibration.json), and
bands of kernels and collectives (src/run/accuracy/bands.json). Written from a source folder, by `make accuracy`.
"""

import functools
import json
import math
from pathlib import Path

from trine import _core
from trine.estimate import calibration, fit

ROOT = Path(__file__).resolve().parents[3]
BANDS = ROOT / "src/run/accuracy/bands.json"
CALIBRATION = Path(calibration.__file__).parent / "calibration.json"
BOUNDS = ("tensor", "vector", "scalar", "gpsimd", "dma", "launch")


@functools.cache
def kernel_bands():
    return {(b["generation"], b["bound"]): b for b in json.loads(_core.accuracy_file("bands.json"))["bands"]}


def kernel_width(bound, chip):
    """log of the larger side of the band that a report prints."""
    b = kernel_bands()[(_core.chip(chip)["generation"], bound)]
    return max(math.log(b["high"]), -math.log(b["low"]))


def summary(made, core, kind):
    """Which measurements a band was made of, in words."""
    if not made.wider:
        return f"{made.rows} measurements of {kind} on {core}"
    wider = ", wider by the worst step between chips" if made.away else ""
    return f"{made.rows} measurements of {made.wider}: fewer than eight of {kind} on {core}{wider}"


def write(cases, predictions):
    """Both files, from all cases."""
    from trine.accuracy import score

    points = score.points(cases, predictions)
    errors, fitted = score.left_out(points), fit.fitted(points)
    residuals = score.residuals_of(points, errors)
    cores = list(calibration.GENERATIONS.values())
    table = json.loads(CALIBRATION.read_text())
    counts = {kind: sum(p.kind == kind for p in points) for kind in {p.kind for p in points}}
    table["classes"] = {k: {"factor": round(fitted["factors"].get(k, 1.0), 3), "cases": counts.get(k, 0)} for k in calibration.CLASSES}
    for name in fit.HOST:
        table["host"][name]["is"] = round(fitted["host"].get(name, 0.0), 2)
    for group, waiting in table["waiting"].items():
        waiting["is"] = round(fitted["waiting"].get(group, 0.0), 2)
    table["bands"] = []
    for kind in (*calibration.CLASSES, "generation"):
        for core in cores:
            if made := score.band(kind, core, residuals):
                table["bands"].append({"class": kind, "core": core, "factor": round(math.exp(made.width), 3), "cases": made.rows, "from": summary(made, core, kind)})
    CALIBRATION.write_text(as_text(table))
    calibration.table.cache_clear()
    BANDS.write_text(as_text({"about": "Written by `trine accuracy --update`: where nine in ten measurements lay that the model was not built on, as factors of the predicted time.", "bands": kernel_rows(residuals, cores)}))


def kernel_rows(residuals, cores):
    from trine.accuracy import score

    out = []
    for generation, core in enumerate(cores, 1):
        for bound in (*BOUNDS, "collective"):
            kind = "collectives in a node" if bound == "collective" else "kernels"
            if made := score.band(kind, core, residuals):
                factor = math.exp(made.width)
                out.append({"generation": generation, "bound": bound, "low": round(1 / factor, 3), "high": round(factor, 3), "rows": made.rows, "from": summary(made, core, kind)})
    return out


def as_text(content):
    """JSON with a line for each member of a list or of a table of tables."""
    lines = []
    for key, value in content.items():
        if isinstance(value, list):
            lines.append(f'  "{key}": [\n' + ",\n".join("    " + json.dumps(v) for v in value) + "\n  ]")
        elif isinstance(value, dict):
            lines.append(f'  "{key}": {{\n' + ",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()) + "\n  }")
        else:
            lines.append(f'  "{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"
