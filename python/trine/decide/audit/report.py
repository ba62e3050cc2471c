"""An audit as text and as JSON: the answer first, then what is to be done, one line for each kind."""

import math
import os

from trine.decide.audit.rule import EFFORTS, LINE, RUNS
from trine.text import aligned, byte_count, duration

SHOWN, WIDTH = 12, 58  # places without --all; characters of what they are
ORDER = list(EFFORTS)


def likely(hours):
    """Between a range's ends: their geometric mean, as efforts are skewed."""
    low, high = hours
    return math.sqrt(low * high) if low > 0 else high / 2


def number(hours):
    return "0" if hours == 0 else f"{hours:.1f}" if hours < 10 else f"{hours:.0f}"


def range_of(hours):
    return "" if hours[1] == 0 else f"({number(hours[0])}–{number(hours[1])})"


def counted(n, one, many=None):
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def sum_hours(found):
    return tuple(round(sum(f.effort_h[i] for f in found), 2) for i in (0, 1))


def kinds_of(found):
    """(rule, findings) by how many, most hours first."""
    by = {}
    for f in found:
        by.setdefault(f.kind, []).append(f)
    return sorted(by.values(), key=lambda fs: (-sum_hours(fs)[1], -len(fs)))


def summary(audit):
    """One row for each effort that the project asks for: what, and its hours."""
    rows = []
    for effort in ORDER:
        found = [f for f in audit.of("code") if f.rule.effort == effort]
        if not found:
            continue
        shown, names = 3, [f"{fs[0].rule.what}" + (f" ×{len(fs)}" if len(fs) > 1 else "") for fs in kinds_of(found)]
        while len("; ".join(names[:shown])) > WIDTH and shown > 1:
            shown -= 1
        what = "; ".join(names[:shown])[:WIDTH] + (f"; {len(names) - shown} more" if len(names) > shown else "")
        fixes = sum(bool(f.edits) for f in found)
        note = "" if effort != LINE or not fixes else "--fix writes them" if fixes == len(found) else f"--fix writes {fixes}"
        hours = sum_hours(found)
        rows.append([f"  {len(found):,}", EFFORTS[effort], what, note, number(likely(hours)), range_of(hours)])
    return rows


def text(audit, dry=None, every=False):
    name = os.path.basename(os.path.abspath(audit.root))
    code = audit.of("code")
    files = len({f.file for f in code})
    read = f"{counted(audit.files, 'file')}, {counted(audit.lines, 'line')} read"
    if not code:
        out = [f"{name}: nothing depends on CUDA  ({read})"]
    else:
        head = [f"{name}: {counted(len(code), 'place')} depend{'s' if len(code) == 1 else ''} on CUDA in {counted(files, 'file')}", "hours", "(range)"]
        rows = summary(audit)
        body = aligned([["", "", "", "", head[1], head[2]], *rows], right=(0, 4)).splitlines()
        out = [head[0] + body[0][len(head[0]) :] if len(body[0]) > len(head[0]) else f"{head[0]}   {' '.join(head[1:])}", *body[1:]]
    for part in ("tests", "vendored"):
        if there := audit.of(part):
            hours = sum_hours(there)
            out.append(f"  in {'tests' if part == 'tests' else 'vendored code'}: {counted(len(there), 'place')}, {number(likely(hours))} h {range_of(hours)}, not counted above")
    out += ["", answer(audit, dry), *op_lines(dry)]
    out += places(audit, every)
    if audit.skipped:
        out += ["", f"not read: {counted(len(audit.skipped), 'file')}" + ("" if every else "; --all lists them")]
        out += [f"  {n}: {why}" for n, why in (audit.skipped if every else audit.skipped[:3])]
    if any(f.edits for f in audit.findings):
        out += ["", f"next: trine audit {audit.root} --diff    (then --fix)"]
    return "\n".join(out)


def answer(audit, dry=None):
    """The three numbers: will it run, hours to port, and what it then takes, holds and costs."""
    hours = audit.hours()
    first = f"runs {audit.will_run()} · hours to port {number(likely(hours))}" + (f" {range_of(hours)}" if hours[1] else "")
    if dry is None:
        return first + " · step time, memory and dollars: --model MODULE:FACTORY --inputs …"
    if dry.time_ns is None:
        return first + f" · not timed: {dry.why_not_timed}"
    low, high = dry.band_ns
    cost = "no price" if dry.cost_usd is None else f"${1e6 * dry.cost_usd:.3g} per 1M {'steps' if dry.train else 'runs'}"
    share = 100 * dry.hbm_used_bytes / dry.hbm_room_bytes
    fits = f"fits, {share:.0f} % of" if dry.fits else f"does not fit: {byte_count(dry.hbm_used_bytes)} of"
    what = "step" if dry.train else "run"
    return first + f"\n{what} {duration(dry.time_ns)} ({duration(low)} – {duration(high)}) on one core of {dry.instance} · {fits} {byte_count(dry.hbm_room_bytes)} a core · {cost}"


def op_lines(dry):
    if dry is None:
        return []
    total = sum(r["count"] for r in dry.ops)
    out = ["", f"{dry.model}: {counted(total, 'op')} of {counted(len(dry.ops), 'kind')}, {sum(r['count'] for r in dry.on_cpu)} on the CPU"]
    out += [f"  {r['op']} ×{r['count']} runs on the CPU\n    at {r['lines'][0]}" for r in dry.on_cpu]
    held = [r for r in dry.ops if r["runs_on"] == "neuron"]
    return out + ["  on neuron: " + ", ".join(f"{r['op'].removeprefix('aten.')} ×{r['count']}" for r in held[:12]) + (", …" if len(held) > 12 else "")]


def places(audit, every):
    """File, line, what and instead: all of them, or the first that need a person."""
    found = audit.findings if every else [f for f in audit.of("code") if f.rule.effort != RUNS and not f.edits]
    if not found:
        return []
    found = found if every else sorted(found, key=lambda f: (-f.effort_h[1], f.file, f.line))
    rows = [[f"  {f.file}:{f.line}", f.rule.what, f"→ {f.rule.instead}", "--fix" if f.edits else range_of(f.effort_h)] for f in found[: None if every else SHOWN]]
    if not every:
        rows = [[r[0], r[1], r[3]] for r in rows]
    more = len(found) - len(rows)
    return ["", *aligned(rows).splitlines(), *([f"  … and {counted(more, 'more place')}: --all"] if more > 0 else [])]


def as_dict(audit, dry=None):
    low, high = audit.hours()
    out = {"version": 1, "report": "audit", "root": audit.root, "files": audit.files, "lines": audit.lines, "runs": audit.will_run(),
           "hours": {"low": low, "likely": round(likely((low, high)), 2), "high": high},
           "findings": [f.as_dict() for f in audit.findings], "skipped": [{"file": n, "why": why} for n, why in audit.skipped]}  # fmt: skip
    return out if dry is None else {**out, "dry_run": dry.as_dict()}
