"""`trine explain PROFILE`: what bounds a captured program, and what to change first, by the lines of the user's model."""

import os

from trine import command
from trine.profile import explaining, reading, summing
from trine.text import duration


def of(profile) -> dict:
    """What `trine explain profile.ntff --json` prints under `explain`."""
    rows = sorted(profile.info["programs"], key=lambda p: -p["total_ns"])
    lines = [{"file": r["file"], "line": r["line"], "text": r["text"], "ns": r["ns"], "share": r["share"], "engines": r["engines"]} for r in profile.source()[:10]]
    return {"time_ns": profile.info["time_ns"], "instance": profile.info["instance"], "advice": profile.advice(), "lines": lines,
            "programs": [{"name": r["name"], "total_ns": r["total_ns"], "bound": r["bound"], "runs": r["runs"]} for r in rows]}  # fmt: skip


def text(profile, found, every) -> str:
    steps = max(1, profile.info["steps"])
    unit = " a step" if profile.info["steps"] else ""
    per = duration(summing.step_ns(profile) or found["time_ns"])
    out = [f"{os.path.basename(profile.path)} on {found['instance']} — {per}{unit}, bound by {found['programs'][0]['bound'] if found['programs'] else '–'}", ""]
    for n, a in enumerate(found["advice"] if every else found["advice"][:3]):
        out += [f"{n + 1}. {a['what']:76} {a['where']}", f"   {a['why']}",
                f"   {a['fix']}: about {duration(a['gain_ns'] / steps)} less{unit}{' at best' if a.get('at_best') else ''}.  (rule {a['rule']})"]  # fmt: skip
    if not found["advice"]:
        out.append("Nothing to advise: no rule of docs/explain.md finds a gain.")
    if found["lines"]:
        out += ["", "lines that take longest"]
        out += [f"  {explaining.shown_line(r['file'], r['line']):<16} {duration(r['ns'] / steps):>9}  {max(r['engines'], key=r['engines'].get):7}  {r['text'][:70]}" for r in found["lines"]]
    return "\n".join(out)


def run(asked) -> int:
    try:
        profile = reading.open(asked.words[0])
    except ValueError as e:
        raise command.Stop(command.UNSUPPORTED, str(e)) from None
    found = of(profile)
    print(reading.to_json({"version": 1, "report": "explain", "explain": found}) if asked.json else text(profile, found, asked.all))
    return command.OK
