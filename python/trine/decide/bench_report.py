"""A benchmark's report in words, and as one page with its pictures: latency CDF, load curve, cost against latency."""

import html
import math

from trine.chart import Chart
from trine.decide import paper
from trine.decide.paper import plain

LEVELS = ("p50_ms", "p90_ms", "p95_ms", "p99_ms", "p99.9_ms")


def ms(value):
    return "–" if value is None else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def load_lines(part):
    out = [f"  {'offered/s':>10} {'served/s':>10} {'p50':>8} {'p90':>8} {'p95':>8} {'p99':>8} {'p99.9':>8}  ms"]
    for row in part["load"]:
        cells = " ".join(f"{ms(row['latency'].get(level)):>8}" for level in LEVELS)
        late = f"  begun late p99 {ms(row['begun_late_p99_ms'])} ms" if "begun_late_p99_ms" in row else ""
        late += f"  first token p50 {ms(row['first_token'].get('p50_ms'))} ms" if "first_token" in row else ""
        lost = f"  lost {row['lost']}" if row.get("lost") else ""
        out.append(f"  {row['offered_per_s']:10.4g} {row['served_per_s']:10.4g} {cells}{late}{lost}")
    return out


def fidelity_words(row):
    return "bit-exact" if row["bit_exact"] else f"max {row['max_ulp_f32']:.3g} ulp of f32, relative {row['relative'] or 0:.2g}"


def loadgen_words(part):
    """Of LoadGen's summary what a reader looks for first: its verdict with what it lacks, rates, and latencies in ms."""
    found = part.get("loadgen", {})
    if not found:
        return []
    lacks = [key.removesuffix(" satisfied").lower() for key, value in found.items() if key.endswith("satisfied") and value == "NO"]
    out = [f"{found.get('Scenario', '')}: {found.get('Result is', 'no result')}" + (f", as its rules for {', '.join(lacks)} are not met" if lacks else "")]
    out += [f"{key.lower()} {value}" for key, value in found.items() if "samples per second" in key.lower() and "inc." not in key]
    levels = [(key.split()[0].rstrip("0").rstrip("."), value) for key, value in found.items() if key.endswith("percentile latency (ns)")]
    if levels:
        out.append(", ".join(f"p{level} {float(ns) * 1e-6:.3g} ms" for level, ns in levels if level in ("50", "90", "99", "99.9")))
    return out + ([f"{found['lost']} calls failed"] if found.get("lost") else [])


def recovered(fault):
    if fault["recovered_after_s"] is None:
        return f"not recovered within {fault['seen_to_s']:.3g} s"
    return f"recovered after {fault['recovered_after_s']:.3g} s" if fault["recovered_after_s"] else "never slower than before"


def fault_words(fault):
    """What a fault did; of one that was not tried, why."""
    if "not_tried" in fault:
        return f"not tried: {fault['not_tried']}"
    return f"lost {fault['lost']}, p99 meanwhile {ms(fault['p99_ms_while'])} ms, {recovered(fault)}"


def first_token(part):
    """Of a server that streams; nothing of others."""
    found = part.get("first_token")
    return f", first token p50 {ms(found.get('p50_ms'))} ms" if found else ""


def cold_words(cold):
    return f"load {cold['load_s']:.3g} s, first call {cold['first_call_s']:.3g} s" + (f", its first token after {cold['first_token_s']:.3g} s" if "first_token_s" in cold else "")


def limited(part):
    """Said where calls are shorter than what it takes to begin one."""
    return "; no more could be begun here" if part.get("limited_by") == "this machine's clock" else ""


def host_lines(part):
    cold, single, burst = part["cold_start"], part["single"], part["burst"]
    out = ["host time, measured here", f"  cold start   {cold_words(cold)}"]
    out.append(f"  one by one   p50 {ms(single['p50_ms'])}  p95 {ms(single['p95_ms'])}  p99 {ms(single['p99_ms'])} ms of {single['count']} calls{first_token(single)}")
    out += [f"  open loop, from the scheduled time{limited(part)}", *load_lines(part)]
    out.append(f"  burst        {burst['requests']} at once: the last after {ms(burst['last_ms'])} ms" + (f", {burst['lost']} lost" if burst["lost"] else ""))
    out += [f"  fidelity {i}   {fidelity_words(row)}" for i, row in enumerate(part.get("fidelity", []))]
    out += [f"  LoadGen      {words}" for words in loadgen_words(part)]
    return out + [f"  {name:22}  {fault_words(fault)}" for name, fault in part.get("failures", {}).items()]


def chip_rows(part):
    """(word, text) of what a chip would do, beside load and faults."""
    call, cold = part["call_ms"], part["cold_start"]
    yield "one call", f"{call['p50']:.3g} ms ({call['low']:.3g} – {call['high']:.3g}), capacity {part['capacity_per_s']:.4g} requests/s"
    yield "cold start", f"{cold['weight_bytes'] / 1e9:.3g} GB of weights to load, first call {cold['first_call_ms']:.3g} ms"
    yield "burst", f"{part['burst']['requests']} at once: the last after {ms(part['burst']['last_ms'])} ms"
    joules = part["energy"].get("wall_joules_per_result")
    if joules is not None:
        yield "energy", f"{joules:.3g} J a result at the wall, PUE included (modelled)"


def chip_lines(part):
    out = [f"chip time, predicted: {part['model']}, {part['nodes']} × {part['instance']}, {part['copies']} copies"]
    out += [f"  {word:11}  {words}" for word, words in chip_rows(part)]
    out += ["  open loop, simulated", *load_lines(part)]
    for name, f in part["failures"].items():
        out.append(f"  {name:22}  {fault_words(f)}")
    for rent in part["cost"]["rents"]:
        out.append(f"  {rent['way']:18}  ${rent['usd_per_million']:.3g} a million results, ${rent['with_egress_per_million']:.3g} with what is sent")
    return out


def answer(report):
    """What was found in a sentence for each kind of time."""
    out = []
    if "host" in report:
        last = report["host"]["load"][-1]
        out.append(f"Measured here: {ms(report['host']['single']['p50_ms'])} ms a call alone; p99 {ms(last['latency'].get('p99_ms') or last['latency'].get('max_ms'))} ms at {last['offered_per_s']:.3g} requests a second.")
    if "chip" in report:
        part = report["chip"]
        at = next((r for r in part["load"] if r["offered_per_s"] >= 0.55 * part["capacity_per_s"]), part["load"][0])
        out.append(f"Predicted for {part['nodes']} × {part['instance']}: {part['capacity_per_s']:.4g} requests a second at most; p99 {ms(at['latency'].get('p99_ms'))} ms at {at['offered_per_s']:.4g}.")
    return "\n".join(out)


def text(report):
    parts = ([*host_lines(report["host"]), ""] if "host" in report else []) + (chip_lines(report["chip"]) if "chip" in report else [])
    return "\n".join(parts).rstrip()


def load_curve(part):
    chart = Chart(f"Latency under load, {part['time']} time", 640, 320, 70, 50)
    # Beyond its capacity a queue only grows: in the table, not here, where it would flatten all else.
    rows = [r for r in part["load"] if r["latency"].get("p99_ms") and r["offered_per_s"] <= part.get("capacity_per_s", math.inf)]
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
    chart.curve("first", [(x(v), y(level)) for v, level in [(row["min_ms"], 0.0), *points]])
    return chart.svg()


def cost_curve(part):
    """Dollars of a million results against p99: at low load machines stand idle and are paid for."""
    rents = part["cost"]["rents"]
    rows = [r for r in part["load"] if r["latency"].get("p99_ms") and r["offered_per_s"] <= part["capacity_per_s"]]
    if not rents or not rows:
        return ""
    dollars = [(r["latency"]["p99_ms"], rents[0]["usd_per_million"] * part["capacity_per_s"] / r["offered_per_s"]) for r in rows]
    chart = Chart(f"USD a million results against p99, {rents[0]['way']}", 640, 320, 70, 50)
    x, y = chart.across(max(d[0] for d in dollars), "p99, ms"), chart.up(max(d[1] for d in dollars), "USD")
    chart.curve("first", [(x(a), y(b)) for a, b in dollars])
    return chart.svg()


def load_table(part):
    rows = [[f"{r['offered_per_s']:.4g}", f"{r['served_per_s']:.4g}", *(ms(r["latency"].get(level)) for level in LEVELS), str(r.get("lost", 0))] for r in part["load"]]
    head = ["offered/s", "served/s", *(f"{level.removesuffix('_ms')} ms" for level in LEVELS), "lost"]
    return plain(head, rows, tuple(range(8)))


def host_parts(part):
    cold, single, burst = part["cold_start"], part["single"], part["burst"]
    rows = [("cold start", cold_words(cold)),
            ("one by one", f"p50 {ms(single['p50_ms'])}, p95 {ms(single['p95_ms'])}, p99 {ms(single['p99_ms'])} ms of {single['count']} calls{first_token(single)}"),
            ("burst", f"{burst['requests']} at once: the last after {ms(burst['last_ms'])} ms, {burst['lost']} lost")]  # fmt: skip
    rows += [("fidelity", fidelity_words(row)) for row in part.get("fidelity", [])] + [("LoadGen", words) for words in loadgen_words(part)]
    faults = [(name, fault_words(fault)) for name, fault in part.get("failures", {}).items()]
    return ["<h2>Host time, measured here</h2>", plain(("", ""), rows), f"<h2>Under load, from the scheduled time{html.escape(limited(part))}</h2>", load_table(part),
            *(["<h2>Faults, at half of capacity</h2>", plain(("fault", ""), faults)] if faults else [])]  # fmt: skip


def chip_parts(part):
    rows = [(name, str(f["lost"]), ms(f["p99_ms_while"]), recovered(f)) for name, f in part["failures"].items()]
    rents = [(r["way"], f"{r['usd_per_million']:.3g}", f"{r['with_egress_per_million']:.3g}") for r in part["cost"]["rents"]]
    title = f"Chip time, predicted: {part['model']}, {part['nodes']} × {part['instance']}, {part['copies']} copies"
    return [f"<h2>{html.escape(title)}</h2>", plain(("", ""), list(chip_rows(part))), "<h2>Under load, simulated</h2>", load_table(part),
            "<h2>Faults, each for a minute at 60 % of capacity</h2>", plain(("fault", "requests lost", "p99 ms meanwhile", "after it"), rows, (1, 2)),
            "<h2>USD a million results</h2>", plain(("way", "machines", "with what is sent"), rents, (1, 2))]  # fmt: skip


def page(report):
    """One HTML file: what was found first, then the tables, then the pictures."""
    parts = ["<h1>Benchmark</h1>", f"<p class=answer>{html.escape(answer(report))}</p>"]
    for key, made in (("host", host_parts), ("chip", chip_parts)):
        if key in report:
            parts += made(report[key]) + [load_curve(report[key]), distribution(report[key])]
    if "chip" in report:
        parts.append(cost_curve(report["chip"]))
    return paper.page("Benchmark", parts)
