"""`trine accuracy`: errors by class on Trine's own measurements, or on anybody's file of the same format."""

import json
import os
import sys
from pathlib import Path

from trine.accuracy import page, predict, rows, score, store
from trine.command import OK, USAGE, Stop, note

KERNELS = "examples/nki"


def run(a):
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if a.rows and (a.each or a.markdown or a.update):
        raise Stop(USAGE, "--rows shows classes only: not with --each, --markdown or --update")
    try:
        cases = rows.cases(rows.load(a.rows))
    except (ValueError, KeyError, TypeError) as e:
        raise Stop(USAGE, f"{a.rows or 'measurements.json'}: {e}") from None
    if wanted := getattr(a, "class"):
        cases = [c for c in cases if c.kind == wanted]
        if not cases:
            raise Stop(USAGE, f'no class "{wanted}" in it')
    folder = a.kernels or (KERNELS if Path(KERNELS).is_dir() else None)
    predictions = predict.predict_all(cases, folder)
    if a.rows:
        show(score.unseen(cases, predictions), a.json, "kept back")
        return OK
    if a.update:
        store.write(cases, predictions)
        note("calibration.json and bands.json written; build again so that kernels have their bands")
    lines = score.table(cases, predictions)
    if a.markdown:
        print("\n".join(page.page(cases, predictions, lines)))
    else:
        show(lines, a.json, "left out")
        if a.each and not a.json:
            print("\n" + "\n".join(page.each(cases, predictions)))
    return OK


def show(lines, as_json, what):
    if as_json:
        json.dump({"version": 1, "errors": what, "classes": [line.as_dict() for line in lines]}, sys.stdout, indent=2)
        print()
    else:
        print("\n".join(page.text(lines, what)))
