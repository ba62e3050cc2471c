"""An audit as one self-contained HTML page: the answer, what is to be done, every place. No script is needed to read or print it."""

import html
import os

from trine.decide.audit import report
from trine.decide.audit.rule import EFFORTS
from trine.decide.paper import page as paper
from trine.decide.paper import place, table

e = html.escape


def page(audit, dry=None):
    name = e(os.path.basename(os.path.abspath(audit.root)))
    parts = [f"<h1>{name}: what depends on CUDA</h1>", f"<p class=answer>{e(report.answer(audit, dry))}</p>",
             f"<p class=quiet>{audit.files:,} files and {audit.lines:,} lines read, nothing run"
             + ("" if dry is None else f" but {e(dry.model)}") + ".</p>"]  # fmt: skip
    rows = []
    for found in sorted(report.kinds_of(audit.of("code")), key=lambda fs: -list(EFFORTS).index(fs[0].rule.effort)):
        rule, hours = found[0].rule, report.sum_hours(found)
        rows.append([str(len(found)), e(EFFORTS[rule.effort]), e(rule.what), e(rule.purpose), e(rule.instead),
                     f"{report.number(report.likely(hours))} {report.range_of(hours)}", e(rule.basis)])  # fmt: skip
    if rows:
        parts += ["<h2>What is to be done</h2>", table(["places", "effort", "what", "it is for", "on Trainium", "hours (range)", "hours from"], rows, (0,))]
    if dry is not None:
        ops = [[f"<code>{e(r['op'])}</code>", str(r["count"]), r["runs_on"], f"<code>{e(r['lines'][0])}</code>"] for r in dry.ops]
        parts += ["<h2>Ops of the model</h2>", table(["op", "count", "runs on", "first line"], ops, (1,))]
    for part, title in (("code", "Every place"), ("tests", "In tests"), ("vendored", "In vendored code")):
        found = audit.of(part)
        if found:
            rows = [[place(f.file, f.line), f"<span class={f.severity}>{e(f.kind)}</span>", f"<code>{e(f.text[:120])}</code>",
                     "--fix" if f.edits else e(report.range_of(f.effort_h))] for f in found]  # fmt: skip
            parts += [f"<h2>{title}</h2>", table(["where", "kind", "line", "hours"], rows)]
    if audit.skipped:
        parts += ["<h2>Not read</h2>", table(["file", "why"], [[e(n), e(why)] for n, why in audit.skipped])]
    return paper(f"{os.path.basename(os.path.abspath(audit.root))}: audit", parts)
