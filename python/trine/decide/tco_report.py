"""A TCO in words: one screen on the terminal, or one HTML file with its pictures in it."""

import html

from trine.chart import Chart
from trine.decide import paper
from trine.decide.paper import plain

WIDE = 6  # rows of the tornado


def usd(value):
    """$ 61k, $ 1.2M."""
    size = abs(value)
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= limit:
            return f"{'-' if value < 0 else ''}${size / limit:,.3g}{unit}"
    return f"{'-' if value < 0 else ''}${size:,.0f}"


def cents(value):
    """Dollars of a million tokens: two places, three of what is below ten cents."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def number(value):
    size = abs(value)
    for limit, unit in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if size >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value:,.3g}" if size < 1000 else f"{value:,.0f}"


# What an input is called beside its machine, and how its value reads: {} is the number.
CALLED = {"usd_per_hour": ("price", "{} USD an hour for"), "tokens_per_s": ("speed", "{} results a second of"), "port_hours": ("hours to port", "{} hours to port to"),
          "tokens_per_day": ("results a day", "{} results a day"), "tokens": ("tokens of the run", "{} tokens of the run")}  # fmt: skip


def called(name):
    """An input of the tornado in words: "tokens_per_s of p5" is "speed of p5"."""
    own, of, machine = name.partition(" of ")
    return CALLED.get(own, (own.replace("_", " "),))[0] + of + machine


def title(report):
    w = report["workload"]
    if w["train"]:
        return f"{w['config']} trained on {number(w['tokens'])} tokens within {w['months']:g} months ({w['steps']:,} steps of {w['global_batch']:,} × {w['seq']:,})"
    unit = "generated tokens" if w["writes"] else "inferences"
    return f"{w['months']:g} months, {number(w['tokens_per_day'])} {unit} a day, {w['config']}"


def sentence(point):
    """Where the answer flips."""
    name, of = point["input"], f" {point['of']}" if point["of"] else ""
    at = CALLED[name][1].format(number(point["at"])) if name in CALLED else f"{name.replace('_', ' ')} of {100 * point['at']:.0f} %"
    return f"{at}{of}: above it {point['cheaper_above']} is cheaper"


def answer(report):
    """The whole in a sentence or two: which is cheaper, by how much, how surely."""
    rows = {r["machine"]: r["total_usd"]["likely"] for r in report["rows"]}
    cheapest = report["rows"][0]
    if not report["compared"]:
        return f"{cheapest['machine']} is the cheapest of {len(rows)}: {usd(cheapest['total_usd']['likely'])}."
    ours, theirs = report["compared"]
    less = 100 * (rows[theirs] - rows[ours]) / rows[theirs]
    beside = f"{abs(less):.0f} % {'less' if less >= 0 else 'more'} than" if abs(less) >= 0.5 else "as much as"
    sure = f"cheaper in {100 * report['chance_cheaper']:.0f} % of draws"
    rest = "" if cheapest["machine"] in (ours, theirs) else f" Cheapest of all: {cheapest['machine']}, {usd(cheapest['total_usd']['likely'])}."
    return f"{ours} costs {usd(rows[ours])}, {beside} {theirs} ({usd(rows[theirs])}); {sure}.{rest}"


def text(report):
    """The answer first: rows by likely cost, what decides it, where it flips."""
    rows, train = report["rows"], report["workload"]["train"]
    wide = max([len(r["machine"]) for r in rows] + [8])
    rents = max(len(r["way"]) for r in rows)
    job = f"{'machines':>10} {'days':>6}" if train else ""
    out = [title(report), "", f"{'machine':{wide}}  {'way':{rents}}        low    likely      high   $/1M{job}  basis"]
    for r in rows:
        t, job = r["total_usd"], f"{r['lines']['nodes']:10.0f} {r['lines']['run_days']:6.3g}" if train else ""
        out.append(f"{r['machine']:{wide}}  {r['way']:{rents}}  {usd(t['low']):>9} {usd(t['likely']):>9} {usd(t['high']):>9} {cents(r['usd_per_million_tokens']):>6}{job}  {r['basis']}")
    late = [r["machine"] for r in rows if train and r["lines"]["run_hours"] > r["lines"]["hours"]]
    if late:
        out.append(f"later than asked for: {', '.join(late)}; --nodes takes more")
    for w in report["without"]:
        match = f"; it would match the best at {w['price_to_match']:.2f} USD an hour" if w.get("price_to_match") else ""
        out.append(f"{w['machine']:{wide}}  {w['why']}{match}")
    if report["compared"]:
        a, b = report["compared"]
        out += ["", f"{a} is cheaper than {b} in {100 * report['chance_cheaper']:.0f} % of {report['draws']} draws"]
        decides = ", ".join(f"{called(name)} ({usd(abs(high - low) / 2)} either way)" for name, low, high in report["tornado"][:3])
        out.append(f"what decides it: {decides}")
        out += [f"flips at  {sentence(p)}" for p in report["break_even"]]
    if len({r["basis_kind"] for r in rows}) > 1:
        out.append("speeds of different kinds stand side by side (basis); --basis roofline compares peers at one batch")
    for c in report["claims"]:
        if c["ratio_here"]:
            out.append(f"claimed: {c['claim']}; here {c['ratio_here']:.2f} of the dollars a token, machines full, {' against '.join(c['ways'])}")
    if report["stale_prices"]:
        out.append(f"{report['stale_prices']} prices are older than 90 days: trine tco --check-prices lists them")
    return "\n".join(out)


def bars(report):
    """Low, likely, high of each machine."""
    rows = report["rows"]
    chart = Chart("Cost: low, likely, high", 860, 70 + 30 * len(rows) + 30, 250, 44)
    thousands = chart.across(max(r["total_usd"]["high"] for r in rows) / 1e3, "thousand USD")

    def place(dollars):
        return thousands(dollars / 1e3)

    for i, r in enumerate(rows):
        y, t = chart.top + 8 + i * (chart.high - 8) / len(rows), r["total_usd"]
        chart.text(chart.left - 8, y + 12, f"{r['machine']}, {r['way']}", "", "end")
        chart.shape("first", "rect", x=chart.left, y=y, width=place(t["likely"]) - chart.left, height=16)
        chart.whisker(place(t["low"]), place(t["high"]), y + 8)
    return chart.svg()


def tornado(report):
    """What the difference of the two compared does as each input goes from its low to its high."""
    listed = report["tornado"][:WIDE]
    ends = [abs(v) for _, low, high in listed for v in (low, high)]
    chart = Chart(f"{report['compared'][0]} less {report['compared'][1]}, USD: what decides it", 860, 80 + 30 * len(listed) + 20, 290, 44)
    most = max(ends) or 1.0

    def place(value):
        return chart.left + chart.wide * (value + most) / (2 * most)

    chart.shape("axis", "line", x1=place(0), x2=place(0), y1=chart.top, y2=chart.top + chart.high)
    for i, (name, low, high) in enumerate(listed):
        y = chart.top + 4 + i * chart.high / len(listed)
        chart.text(chart.left - 8, y + 12, called(name), "", "end")
        chart.shape("second", "rect", x=place(min(low, high)), y=y, width=abs(place(high) - place(low)), height=16)
    for value in (-most, 0, most):
        chart.text(place(value), chart.top + chart.high + 18, usd(value), "faint", "middle")
    return chart.svg()


def page(report, shared):
    """The whole as one HTML file."""
    rows = [(r["machine"], r["way"], *(usd(r["total_usd"][k]) for k in ("low", "likely", "high")), cents(r["usd_per_million_tokens"]), r["basis"]) for r in report["rows"]]
    head, right = ("machine", "way", "low", "likely", "high", "$/1M", "speed from"), (2, 3, 4, 5)
    if report["workload"]["train"]:
        jobs = [(f"{r['lines']['nodes']:.0f}", f"{r['lines']['run_days']:.3g}") for r in report["rows"]]
        rows, head, right = [(*row[:6], *job, row[6]) for row, job in zip(rows, jobs, strict=True)], (*head[:6], "machines", "days", head[6]), (2, 3, 4, 5, 6, 7)
    parts = [f"<h1>{html.escape(title(report))}</h1>", f"<p class=answer>{html.escape(answer(report))}</p>", plain(head, rows, right), bars(report)]
    if report["compared"]:
        parts += [tornado(report), "<h2>Where it flips</h2><ul>"]
        parts += [f"<li>{html.escape(sentence(p))}</li>" for p in report["break_even"]] + ["</ul>"]
    claimed = [(c["claim"], " to ".join(f"{x:.2f}" for x in sorted(set(c["claimed_ratio"]))), f"{c['ratio_here']:.2f}" if c["ratio_here"] else "–", c["from"]) for c in report["claims"]]
    parts += ["<h2>Claims, as a ratio of dollars</h2>", plain(("claim", "claimed", "here", "source"), claimed, (1, 2))]
    priced = [(r["machine"], r["way"], r["price"].get("usd_per_hour", r["price"].get("usd")), r["price"].get("region"), r["price"].get("date"), r["price"].get("from")) for r in report["rows"]]
    parts += ["<h2>Prices</h2>", plain(("machine", "way", "USD an hour", "region", "date", "source"), priced, (2,))]
    inputs = [(i.name, number(i.low), number(i.likely), number(i.high), i.unit, i.source) for i in shared.values()]
    parts += ["<h2>Inputs</h2>", plain(("input", "low", "likely", "high", "unit", "source"), inputs, (1, 2, 3))]
    if report["without"]:
        parts += ["<h2>Not compared</h2>", plain(("machine", "why"), [(w["machine"], w["why"]) for w in report["without"]])]
    return paper.page(title(report), parts)
