"""`trine migrate`: src/tools/commands/migrate.cpp has its options."""

import json
import os

from trine.command import CHECK_FAILED, OK, USAGE, Stop, note
from trine.decide.audit.command import write
from trine.decide.migrate import project, report, steps
from trine.decide.migrate.state import State
from trine.decide.prices import Prices


def run(asked) -> int:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    wanted = project.read(asked.words[0])
    again = tuple(filter(None, (asked.again or "").split(",")))
    for name in again:
        if name not in steps.STEPS:
            raise Stop(USAGE, f"found --again {name}, expected of {', '.join(steps.STEPS)}")
    state = State(asked.output or wanted.file.with_suffix(".migration"))
    if state.trouble:
        note(f"trine migrate: {state.trouble}")
    done = steps.all_steps(steps.Run(wanted, state, Prices(asked.trine, asked.prices)), again)
    out = report.as_dict(wanted, done)
    for name, text in (("report.html", report.page(out)), ("report.md", report.markdown(out)), ("report.json", json.dumps(out, indent=1) + "\n")):
        write(state.folder / name, text)
    print(json.dumps(out, indent=2) if asked.json else report.text(out))
    note(f"→ {state.folder / 'report.html'}, report.md, report.json")
    return OK if out["validate"]["holds"] and out["port"].get("script", {"ok": True})["ok"] else CHECK_FAILED
