"""A migration written down: one screen, a Markdown page and an HTML page a manager reads in two minutes and an engineer can rerun."""

import html

from trine.chart import Chart
from trine.decide.audit.page import STYLE, table
from trine.decide.tco_report import sentence, usd


def as_dict(project, done):
    return {"version": 1, "kind": "migrate", "project": project.file.name, "unit": project.unit, "months": project.traffic["months"],
            "items_per_day": project.traffic["items_per_day"], "p99_ms": project.traffic["p99_ms"], **done}  # fmt: skip


def setting(row):
    return f"{row['machines']} × {row['instance']}, {row['precision']}, batch {row['batch']}"


def milliseconds(value):
    return f"{value:.3g} ms"


def cost_of(out, name):
    return next((r for r in out["evaluate"]["tco"]["rows"] if r["machine"] == name), None)


def answer(out):
    """The answer in one sentence."""
    best, tco = out["evaluate"]["recommended"], out["evaluate"]["tco"]
    ours, gpu = cost_of(out, best["instance"]), cost_of(out, out["baseline"]["machine"])
    if not gpu:
        return f"{best['instance']} at {usd(ours['total_usd']['likely'])} over {out['months']:g} months; no price of {out['baseline']['machine']} is known."
    chance = tco["chance_cheaper"] if tco["chance_cheaper"] is not None else 0.0
    if ours["total_usd"]["likely"] < gpu["total_usd"]["likely"]:
        return f"Move: {best['instance']} likely costs {usd(ours['total_usd']['likely'])} over {out['months']:g} months, {gpu['machine']} {usd(gpu['total_usd']['likely'])}; cheaper in {100 * chance:.0f} % of draws."
    return f"Stay: {gpu['machine']} likely costs {usd(gpu['total_usd']['likely'])} over {out['months']:g} months, the best of Neuron's, {best['instance']}, {usd(ours['total_usd']['likely'])}; the move is cheaper in {100 * chance:.0f} % of draws."


def facts(out):
    """[(word, text)] of each step, for all three forms."""
    port, check, base, best = out["port"], out["validate"], out["baseline"], out["evaluate"]["recommended"]
    low, high = port["hours"]
    rows = [("port", f"{len(port['before']['findings'])} places depend on CUDA, {len(port['before']['findings']) - len(port['after']['findings'])} patched in {len(port['patched'])} files; "
                     f"runs {port['will_run']}, {low:g}–{high:g} hours left; {port['ops']} kinds of ops, {len(port['ops_on_cpu'])} on the CPU")]  # fmt: skip
    if "script" in port:
        rows.append(("script", "ran on the virtual device" if port["script"]["ok"] else f"failed: {port['script']['tail'].splitlines()[-1] if port['script']['tail'] else ''}"))
    errors = ", ".join(f"{name} {row['relative']:.2g}" for name, row in check["rows"].items())
    rows.append(("validate", f"{check['of']} {'hold' if check['holds'] else 'DO NOT HOLD'}: relative error {errors}"))
    rows.append(("baseline", f"{milliseconds(base['call_ms'])} a call, {base['items_per_s'][1]:,.0f} {out['unit']}/s of one GPU ({base['basis']})"))
    rows.append(("take", f"{setting(best)}: {milliseconds(best['call_ms'])} ({best['band_ms'][0]:.3g}–{best['band_ms'][1]:.3g}), p99 {milliseconds(best['p99_ms'])}, bound by {best['bound']}, ${best['usd_per_million']:.3g} a million {out['unit']}"))
    second = out["evaluate"]["runner_up"]
    if second:
        rows.append(("runner-up", f"{setting(second)}: {milliseconds(second['call_ms'])}, ${second['usd_per_million']:.3g} a million {out['unit']}"))
    rows += [("flips at", sentence(p)) for p in out["evaluate"]["tco"]["break_even"]]
    return rows


def text(out):
    return "\n".join([f"{out['project']}: {answer(out)}", *(f"  {word:10} {words}" for word, words in facts(out))])


def cost_rows(out):
    rows = out["evaluate"]["tco"]["rows"]
    return [[r["machine"], r["way"], usd(r["total_usd"]["low"]), usd(r["total_usd"]["likely"]), usd(r["total_usd"]["high"]), r["basis"]] for r in rows]


def cell_rows(out):
    rows = []
    for c in out["evaluate"]["cells"]:
        timed = [f"{c['call_ms']:.3g}", f"{c['p99_ms']:.3g}", f"{c['items_per_s'][1]:,.0f}", f"{c['usd_per_million']:.3g}" if "usd_per_million" in c else "–"] if "call_ms" in c else ["–"] * 4
        rows.append([c["instance"], c["precision"], str(c["batch"]), *timed, c.get("why_not", "")])
    return rows


COSTS = ["machine", "bought", "low", "likely", "high", "speed from"]
CELLS = ["instance", "precision", "batch", "call ms", "p99 ms", "items/s", "$ a million", "why not"]


def markdown(out):
    def lines(head, rows):
        return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(c.replace("|", "\\|") for c in r) + " |" for r in rows), ""]

    parts = [f"# {out['project']}", "", answer(out), "", *(f"- **{word}**: {words}" for word, words in facts(out)), "", f"## {out['months']:g} months", "",
             *lines(COSTS, cost_rows(out)), "## What was tried, in chip time", "", *lines(CELLS, cell_rows(out)), "## Again", "", f"    trine migrate {out['project']}", ""]  # fmt: skip
    return "\n".join(parts)


def cost_picture(out):
    rows = out["evaluate"]["tco"]["rows"]
    chart = Chart(f"Cost over {out['months']:g} months: low, likely, high", 720, 60 + 34 * len(rows) + 48, 190, 44)
    x = chart.across(max(r["total_usd"]["high"] for r in rows) / 1e3, "thousand USD")
    for i, row in enumerate(rows):
        y, total = 62 + 34 * i, row["total_usd"]
        chart.text(180, y + 4, row["machine"], anchor="end")
        chart.shape("first" if row["basis_kind"] == "modelled" else "second", "rect", x=x(0), y=y - 9, width=max(1.0, x(total["likely"] / 1e3) - x(0)), height=18)
        chart.shape("ink", "line", x1=x(total["low"] / 1e3), x2=x(total["high"] / 1e3), y1=y, y2=y)
    return chart.svg()


def page(out):
    e = html.escape
    parts = [f"<h1>{e(out['project'])}</h1>", f"<p class=answer>{e(answer(out))}</p>", table(["", ""], [[f"<b>{e(w)}</b>", e(t)] for w, t in facts(out)]),
             f"<h2>{out['months']:g} months, {out['items_per_day']:,.0f} {out['unit']} a day</h2>", cost_picture(out), table(COSTS, [[e(c) for c in r] for r in cost_rows(out)], (2, 3, 4)),
             "<h2>What was tried, in chip time</h2>", table(CELLS, [[e(c) for c in r] for r in cell_rows(out)], (2, 3, 4, 5, 6)), "<h2>What is left to port</h2>"]  # fmt: skip
    left = [[f"<code>{e(f['file'])}:{f['line']}</code>", e(f["what"]), e(f["instead"])] for f in out["port"]["after"]["findings"]]
    parts.append(table(["where", "what", "instead"], left) if left else "<p>Nothing.</p>")
    parts.append(f"<h2>Again</h2><p><code>trine migrate {e(out['project'])}</code> does what has changed since; <code>--again validate</code> does a step anew. Times are the chip's, predicted with their 90 % band; nothing here was measured on a chip.</p>")
    style = STYLE + "svg { max-width: 100% } td:first-child, td:nth-child(2):not(:last-child) { white-space: nowrap }"
    return f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>{e(out['project'])}: migration</title><style>{style}</style><body>{''.join(parts)}</body></html>\n"
