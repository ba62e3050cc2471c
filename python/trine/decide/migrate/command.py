"""`trine migrate`: src/tools/commands/migrate.cpp has its options."""

import json
import os
from pathlib import Path

from trine.command import CHECK_FAILED, OK, USAGE, Stop, note
from trine.decide.migrate import project, report, steps
from trine.decide.migrate.state import State
from trine.decide.paper import write
from trine.decide.prices import Prices


def run(asked) -> int:
    wanted = project.read(asked.words[0])
    os.environ.setdefault("JAX_PLATFORMS", "cpu,neuron" if wanted.is_decoder else "cpu")  # a decoder's likeness runs on the device by JAX
    again = tuple(filter(None, (asked.again or "").split(",")))
    for name in again:
        if name not in steps.STEPS:
            raise Stop(USAGE, f"found --again {name}, expected of {', '.join(steps.STEPS)}")
    folder = Path(asked.output or wanted.file.with_suffix(".migration")).resolve()
    if wanted.root.is_relative_to(folder):
        raise Stop(USAGE, f"found -o {asked.output}, in which the project itself lies; expected a folder for reports and the ported copy")
    state = State(asked.output or wanted.file.with_suffix(".migration"))
    if state.trouble:
        note(f"trine migrate: {state.trouble}")
    done = steps.all_steps(steps.Run(wanted, state, Prices(asked.trine, asked.prices)), again)
    out = report.as_dict(wanted, done)
    for name, text in (("report.html", report.page(out)), ("report.md", report.markdown(out)), ("report.json", json.dumps(out, indent=1) + "\n")):
        write(state.folder / name, text)
    print(json.dumps(out, indent=2) if asked.json else report.text(out))
    note(f"→ {state.folder / 'report.html'}, report.md, report.json")
    return OK if out["validate"]["holds"] in (True, None) and out["port"].get("script", {"ok": True})["ok"] else CHECK_FAILED
