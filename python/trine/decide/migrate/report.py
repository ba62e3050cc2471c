"""A migration written down: one screen, a Markdown page and an HTML page a manager reads in two minutes and an engineer can rerun."""

import html
import math

from trine.chart import Chart
from trine.decide import paper
from trine.decide.paper import place, plain, table
from trine.decide.tco_report import sentence, usd


def as_dict(project, done):
    return {"version": 1, "kind": "migrate", "project": project.file.name, "unit": project.unit, "months": project.traffic["months"],
            "items_per_day": project.traffic["items_per_day"], "p99_ms": project.traffic["p99_ms"], **done}  # fmt: skip


def setting(row):
    shape = f", tp {row['tp']}, window {row['context']}" if "tp" in row else ""
    return f"{row['machines']} × {row['instance']}{shape}, {row['precision']}, batch {row['batch']}"


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


def ported_words(port):
    before, after = len(port["before"]["findings"]), len(port["after"]["findings"])
    low, high = port["hours"]
    ops = f"; {port['ops']} kinds of ops, {len(port['ops_on_cpu'])} on the CPU" if "ops" in port else ""
    return f"{before} places depend on CUDA, {before - after} patched in {len(port['patched'])} files; runs {port['will_run']}, {low:g}–{high:g} hours left{ops}"


def checked_words(check):
    if check["holds"] is None:
        return f"not checked: {check['why_not']}"
    errors = ", ".join(f"{name} {row['l2_relative']:.2g}" for name, row in check["rows"].items())
    of = f" of a likeness ({check['likeness']})" if "likeness" in check else ""
    return f"{check['of']}{of} {'hold' if check['holds'] else 'DO NOT HOLD'}: relative error {errors}"


def taken_words(row, unit):
    """A setting with its times and dollars."""
    band = f"{milliseconds(row['call_ms'])} ({row['band_ms'][0]:.3g}–{row['band_ms'][1]:.3g})"
    times = f"{band} a token, p99 {milliseconds(row['p99_ms'])}, first token {milliseconds(row['first_token_ms'])}" if "tp" in row else f"{band}, p99 {milliseconds(row['p99_ms'])}"
    return f"{setting(row)}: {times}, bound by {row['bound']}, ${row['usd_per_million']:.3g} a million {unit} on full machines{'' if row['way'] == 'on-demand' else ', ' + row['way']}"


def window_words(evaluated):
    """What a longer context does: dearer, or another instance."""
    best, out = evaluated["recommended"], []
    for row in evaluated.get("windows", []):
        if row["context"] != best["context"]:
            who = "still" if row["instance"] == best["instance"] else "then"
            out.append(f"a window of {row['context']:,} tokens: {who} {row['instance']}, tp {row['tp']}, batch {row['batch']}, ${row['usd_per_million']:.3g} a million")
    return out


def facts(out):
    """[(word, text)] of each step, for all three forms."""
    base, found = out["baseline"], out["evaluate"]
    rows = [("port", ported_words(out["port"]))]
    if "script" in out["port"]:
        tail = out["port"]["script"]["tail"].splitlines()
        rows.append(("script", "ran on the virtual device" if out["port"]["script"]["ok"] else f"failed: {tail[-1] if tail else ''}"))
    rows.append(("validate", checked_words(out["validate"])))
    call = f"{milliseconds(base['call_ms'])} a call, " if "call_ms" in base else ""
    rows.append(("baseline", f"{call}{base['items_per_s'][1]:,.0f} {out['unit']}/s of one GPU ({base['basis']})"))
    rows.append(("take", taken_words(found["recommended"], out["unit"])))
    second = found["runner_up"]
    if second:
        rows.append(("runner-up", f"{setting(second)}: {milliseconds(second['call_ms'])}, ${second['usd_per_million']:.3g} a million {out['unit']}"))
        rows += [("it leads", sentence(p)) for p in found["runner_up_flips"]][:3]
    rows += [("longer", words) for words in window_words(found)]
    rows += [("flips at", sentence(p)) for p in found["tco"]["break_even"]]
    return rows


def text(out):
    return "\n".join([f"{out['project']}: {answer(out)}", *(f"  {word:10} {words}" for word, words in facts(out))])


def cost_rows(out):
    rows = out["evaluate"]["tco"]["rows"]
    return [[r["machine"], r["way"], usd(r["total_usd"]["low"]), usd(r["total_usd"]["likely"]), usd(r["total_usd"]["high"]), r["basis"]] for r in rows]


def cell_rows(out):
    rows, is_decoder = [], "windows" in out["evaluate"]
    for c in out["evaluate"]["cells"]:
        shape = [str(c["tp"]), f"{c['context']:,}"] if is_decoder else []
        first = [f"{c['first_token_ms']:.3g}" if "call_ms" in c else "–"] if is_decoder else []
        timed = [f"{c['call_ms']:.3g}", f"{c['p99_ms']:.3g}", *first, f"{c['items_per_s'][1]:,.0f}", f"{c['usd_per_million']:.3g}" if "usd_per_million" in c else "–"] if "call_ms" in c else ["–"] * (4 + len(first))
        rows.append([c["instance"], *shape, c["precision"], str(c["batch"]), *timed, c.get("why_not", "")])
    return rows


COSTS = ["machine", "bought", "low", "likely", "high", "speed from"]
CELLS = ["instance", "precision", "batch", "call ms", "p99 ms", "items/s", "$ a million", "why not"]
DECODER_CELLS = ["instance", "tp", "window", "precision", "batch", "token ms", "p99 ms", "first token ms", "tokens/s", "$ a million", "why not"]


def cell_head(out):
    """The columns, and which of them are numbers."""
    return (DECODER_CELLS, (1, 2, 4, 5, 6, 7, 8, 9)) if "windows" in out["evaluate"] else (CELLS, (2, 3, 4, 5, 6))


def markdown(out):
    def lines(head, rows):
        return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(c.replace("|", "\\|") for c in r) + " |" for r in rows), ""]

    head, rows = glance(out)
    steps = [r for r in facts(out) if r[0] not in ("flips at", "it leads", "longer")]
    parts = [f"# {out['project']}: move to Trainium?", "", answer(out), "", *lines(head, rows), "## What would change it", "", *(f"- {w}" for w in flips(out)), "",
             "## Next", "", *(f"{i}. {w}" for i, w in enumerate(next_steps(out), 1)), "", "## How it was found", "", *(f"- **{word}**: {words}" for word, words in steps), "",
             f"## {out['months']:g} months", "", *lines(COSTS, cost_rows(out)), "## What was tried, in chip time", "", *lines(cell_head(out)[0], cell_rows(out)),
             "## Again", "", f"    trine migrate {out['project']}", ""]  # fmt: skip
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


def flips(out):
    """What would change the answer, one thing at a time."""
    found, second = out["evaluate"], out["evaluate"]["runner_up"]
    rows = [sentence(p) for p in found["tco"]["break_even"]]
    rows += [f"beside the runner-up: {sentence(p)}" for p in (found["runner_up_flips"] if second else []) if p["of"] == found["recommended"]["instance"]][:2]
    return rows + window_words(found)


def glance(out):
    """(head, rows): the recommended setting, the runner-up and the GPU side by side."""
    found, base = out["evaluate"], out["baseline"]
    ours, second, gpu = found["recommended"], found["runner_up"], cost_of(out, base["machine"])
    sides = [s for s in (ours, second) if s]
    costs = [cost_of(out, s["instance"]) for s in sides] + ([gpu] if gpu else [])
    rows = [["machines", *(setting(s) for s in sides), f"{max(1, math.ceil(gpu['lines']['machines_mean']))} × {gpu['machine']}" if gpu else base["machine"]],
            [f"{out['months']:g} months", *(f"{usd(c['total_usd']['likely'])} ({usd(c['total_usd']['low'])} – {usd(c['total_usd']['high'])})" for c in costs)],
            [f"USD a million {out['unit']}, all costs", *(f"{c['usd_per_million_tokens']:.3g}" for c in costs)],
            ["one token" if "windows" in found else "one call", *(f"{s['call_ms']:.3g} ms ({s['band_ms'][0]:.3g} – {s['band_ms'][1]:.3g})" for s in sides), milliseconds(base["call_ms"]) if "call_ms" in base else "–"],
            ["p99", *(milliseconds(s["p99_ms"]) for s in sides), milliseconds(base["p99_ms"]) if "p99_ms" in base else "–"],
            ["times are", *("predicted" for _ in sides), base["kind"]]]  # fmt: skip
    head = ["", "recommended", *(["runner-up"] if second else []), "GPU today"]
    return head, [r + ["–"] * (len(head) - len(r)) for r in rows]


def next_steps(out):
    """What to do with the answer, with what it costs."""
    best, hourly = out["evaluate"]["recommended"], out["evaluate"]["prices"][out["evaluate"]["recommended"]["instance"]].get("usd_per_hour")
    rent = f" ({usd(24 * hourly)} at {hourly:g} USD an hour)" if hourly else ""
    steps = [f"Rent one {best['instance']} for a day{rent} and run the ported copy there: {best['call_ms']:.3g} ms ({best['band_ms'][0]:.3g} – {best['band_ms'][1]:.3g}) is what this report stands or falls with."]
    if out["baseline"]["kind"] != "measured":
        steps.insert(0, "Measure the GPU you have: trine baseline -o gpu_baseline.py, run it there, and name its file in [baseline]. Its speed is not measured here.")
    if out["port"]["after"]["findings"]:
        low, high = out["port"]["hours"]
        steps.append(f"Port what is left: {len(out['port']['after']['findings'])} of the places, {low:g}–{high:g} hours, listed below.")
    return steps


def page(out):
    e = html.escape
    head, rows = glance(out)
    steps = [r for r in facts(out) if r[0] not in ("flips at", "it leads", "longer")]
    parts = [f"<h1>{e(out['project'])}: move to Trainium?</h1>", f"<p class=answer>{e(answer(out))}</p>", plain(head, rows),
             "<h2>What would change it</h2><ul>", *(f"<li>{e(w)}</li>" for w in flips(out)), "</ul><h2>Next</h2><ol>", *(f"<li>{e(w)}</li>" for w in next_steps(out)), "</ol>",
             f"<h2>{out['months']:g} months, {out['items_per_day']:,.0f} {out['unit']} a day</h2>", cost_picture(out), plain(COSTS, cost_rows(out), (2, 3, 4)),
             "<h2>How it was found</h2>", plain(("", ""), steps), "<h2>What was tried, in chip time</h2>", plain(cell_head(out)[0], cell_rows(out), cell_head(out)[1]),
             "<h2>What is left to port</h2>"]  # fmt: skip
    left = [[place(f["file"], f["line"]), e(f["what"]), e(f["instead"])] for f in out["port"]["after"]["findings"]]
    parts.append(table(["where", "what", "instead"], left) if left else "<p>Nothing.</p>")
    parts.append(f"<h2>Again</h2><p><code>trine migrate {e(out['project'])}</code> does what has changed since; <code>--again validate</code> does a step anew. Times are the chip's, predicted with their 90 % band; nothing here was measured on a chip.</p>")
    return paper.page(f"{out['project']}: migration", parts)
