"""An audit as one self-contained HTML page: the answer, what is to be done, every place. No script is needed to read or print it."""

import html
import os

from trine.decide.audit import report
from trine.decide.audit.rule import EFFORTS

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #1b1f24; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; vertical-align: top; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid #d8dee4 }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums } code { font: 13px ui-monospace, monospace; overflow-wrap: anywhere }
.answer { font-size: 1.1rem; padding: .7rem 1rem; background: #f1f5f9; border-left: 4px solid #2563eb; white-space: pre-line }
.error { color: #b42318 } .warning { color: #8a5a00 } .note { color: #57606a } .quiet { color: #57606a }
@media print { body { margin: 0; max-width: none } tr { break-inside: avoid } }
@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3 } .answer { background: #161b22 } th, td { border-color: #30363d }
  .error { color: #ff7b72 } .warning { color: #d29922 } .note, .quiet { color: #8b949e } }
"""
e = html.escape


def row(cells, tag="td", right=()):
    return "<tr>" + "".join(f"<{tag}{' class=n' if i in right else ''}>{c}</{tag}>" for i, c in enumerate(cells)) + "</tr>"


def table(head, rows, right=()):
    return f"<table><thead>{row(map(e, head), 'th', right)}</thead><tbody>{''.join(row(r, 'td', right) for r in rows)}</tbody></table>"


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
            rows = [[f"<code>{e(f.file)}:{f.line}</code>", f"<span class={f.severity}>{e(f.kind)}</span>", f"<code>{e(f.text[:120])}</code>",
                     "--fix" if f.edits else e(report.range_of(f.effort_h))] for f in found]  # fmt: skip
            parts += [f"<h2>{title}</h2>", table(["where", "kind", "line", "hours"], rows)]
    if audit.skipped:
        parts += ["<h2>Not read</h2>", table(["file", "why"], [[e(n), e(why)] for n, why in audit.skipped])]
    return f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>{name}: audit</title><style>{STYLE}</style><body>{''.join(parts)}</body></html>\n"
