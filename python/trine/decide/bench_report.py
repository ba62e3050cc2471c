"""A benchmark's report in words, and as one page with its pictures: latency CDF, load curve, cost against latency."""

import html

from trine.chart import Chart

LEVELS = ("p50_ms", "p90_ms", "p95_ms", "p99_ms", "p99.9_ms")


def ms(value):
    return "–" if value is None else f"{value:.3g}"


def load_lines(part):
    out = [f"  {'offered/s':>10} {'served/s':>10} {'p50':>8} {'p90':>8} {'p95':>8} {'p99':>8} {'p99.9':>8}  ms"]
    for row in part["load"]:
        cells = " ".join(f"{ms(row['latency'].get(level)):>8}" for level in LEVELS)
        late = f"  begun late p99 {row['begun_late_p99_ms']:.2g} ms" if "begun_late_p99_ms" in row else ""
        lost = f"  lost {row['lost']}" if row.get("lost") else ""
        out.append(f"  {row['offered_per_s']:10.4g} {row['served_per_s']:10.4g} {cells}{late}{lost}")
    return out


def host_lines(part):
    cold, single, burst = part["cold_start"], part["single"], part["burst"]
    out = ["host time, measured here", f"  cold start   load {cold['load_s']:.3g} s, first call {cold['first_call_s']:.3g} s"]
    out.append(f"  one by one   p50 {ms(single['p50_ms'])}  p95 {ms(single['p95_ms'])}  p99 {ms(single['p99_ms'])} ms of {single['count']} calls")
    out += ["  open loop, from the scheduled time", *load_lines(part)]
    out.append(f"  burst        {burst['requests']} at once: the last after {burst['last_ms']:.3g} ms")
    for i, row in enumerate(part.get("fidelity", [])):
        apart = f"max {row['max_ulp_f32']:.3g} ulp of f32, relative {row['relative'] or 0:.2g}"
        out.append(f"  fidelity {i}   {'bit-exact' if row['bit_exact'] else apart}")
    for key, value in part.get("loadgen", {}).items():
        if key.startswith(("Result is", "Samples per", "Scheduled", "99", "Scenario")):
            out.append(f"  LoadGen      {key}: {value}")
    return out


def chip_lines(part):
    call = part["call_ms"]
    out = [f"chip time, predicted: {part['model']}, {part['nodes']} × {part['instance']}, {part['copies']} copies"]
    out.append(f"  one call     {call['p50']:.3g} ms ({call['low']:.3g} – {call['high']:.3g}), capacity {part['capacity_per_s']:.4g} requests/s")
    out += ["  open loop, simulated", *load_lines(part)]
    out.append(f"  burst        {part['burst']['requests']} at once: the last after {part['burst']['last_ms']:.3g} ms")
    for name, f in part["failures"].items():
        back = f"recovered after {f['recovered_after_s']:.3g} s" if f["recovered_after_s"] is not None else f"not recovered within {f['seen_to_s']:.3g} s"
        out.append(f"  {name:22}  lost {f['lost']}, {back}, p99 while it lasted {ms(f['p99_ms_while'])} ms")
    for rent in part["cost"]["rents"]:
        out.append(f"  {rent['way']:18}  ${rent['usd_per_million']:.3g} a million results, ${rent['with_egress_per_million']:.3g} with what is sent")
    joules = part["energy"].get("wall_joules_per_result")
    if joules is not None:
        out.append(f"  energy       {joules:.3g} J a result at the wall (modelled)")
    return out


def text(report):
    parts = ([*host_lines(report["host"]), ""] if "host" in report else []) + (chip_lines(report["chip"]) if "chip" in report else [])
    return "\n".join(parts).rstrip()


def load_curve(part):
    chart = Chart(f"Latency under load, {part['time']} time", 640, 320, 70, 50)
    rows = [r for r in part["load"] if r["latency"].get("p99_ms")]
    if not rows:
        return ""
    x, y = chart.across(max(r["offered_per_s"] for r in rows), "requests offered a second"), chart.up(max(r["latency"]["p99_ms"] for r in rows), "ms")
    for kind, level in (("first", "p50_ms"), ("second", "p99_ms")):
        chart.curve(kind, [(x(r["offered_per_s"]), y(r["latency"][level])) for r in rows])
    chart.legend(360, 24, [("first", "p50"), ("second", "p99")])
    return chart.svg()


def distribution(part):
    """The CDF by its percentiles, of the middle row of the load."""
    row = part["load"][len(part["load"]) // 2]["latency"]
    points = [(row[level], float(level[1:].removesuffix("_ms"))) for level in LEVELS if row.get(level)]
    if not points:
        return ""
    chart = Chart(f"Latency CDF, {part['time']} time", 640, 320, 70, 50)
    x, y = chart.across(points[-1][0], "ms"), chart.up(100, "%")
    chart.curve("first", [(x(v), y(level)) for v, level in [(points[0][0] / 2, 0.0), *points]])
    return chart.svg()


def cost_curve(part):
    """Dollars of a million results against p99: at low load machines stand idle and are paid for."""
    rents = part["cost"]["rents"]
    rows = [r for r in part["load"] if r["latency"].get("p99_ms") and r["offered_per_s"] <= part["capacity_per_s"]]
    if not rents or not rows:
        return ""
    dollars = [(r["latency"]["p99_ms"], rents[0]["usd_per_million"] * part["capacity_per_s"] / r["offered_per_s"]) for r in rows]
    chart = Chart(f"Cost against p99, {rents[0]['way']}", 640, 320, 70, 50)
    x, y = chart.across(max(d[0] for d in dollars), "p99, ms"), chart.up(max(d[1] for d in dollars), "USD a million")
    chart.curve("first", [(x(a), y(b)) for a, b in dollars])
    return chart.svg()


def page(report):
    """One HTML file."""
    pictures = [draw(report[key]) for key in ("host", "chip") if key in report for draw in (load_curve, distribution)]
    if "chip" in report:
        pictures.append(cost_curve(report["chip"]))
    style = "body{font:15px/1.5 system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 1em}pre{overflow:auto}svg{max-width:100%}"
    body = f"<h1>Benchmark</h1><pre>{html.escape(text(report))}</pre>" + "\n".join(pictures)
    return f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Benchmark</title><style>{style}</style>{body}</html>\n'
