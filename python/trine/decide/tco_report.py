"""A TCO in words: one screen on the terminal, or one HTML file with its pictures in it."""

import html

from trine.chart import Chart

WIDE = 6  # rows of the tornado


def usd(value):
    """$ 61k, $ 1.2M."""
    size = abs(value)
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= limit:
            return f"${value / limit:,.3g}{unit}"
    return f"${value:,.0f}"


def number(value):
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}" if abs(value) < 1e6 else f"{value:.3g}"


def title(report):
    w = report["workload"]
    unit = "generated tokens" if w["writes"] else "inferences"
    return f"{w['months']:g} months, {number(w['tokens_per_day'])} {unit} a day, {w['config']}"


def sentence(point):
    of = f" of {point['of']}" if point["of"] else ""
    return f"{point['input']}{of} {number(point['at'])}: above it {point['cheaper_above']} is cheaper"


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
    rows = report["rows"]
    wide = max([len(r["machine"]) for r in rows] + [8])
    rents = max(len(r["way"]) for r in rows)
    out = [title(report), "", f"{'machine':{wide}}  {'way':{rents}}        low    likely      high   $/1M  basis"]
    for r in rows:
        t = r["total_usd"]
        out.append(f"{r['machine']:{wide}}  {r['way']:{rents}}  {usd(t['low']):>9} {usd(t['likely']):>9} {usd(t['high']):>9} {r['usd_per_million_tokens']:6.2f}  {r['basis']}")
    for w in report["without"]:
        match = f"; it would match the best at {w['price_to_match']:.2f} USD an hour" if w.get("price_to_match") else ""
        out.append(f"{w['machine']:{wide}}  {w['why']}{match}")
    if report["compared"]:
        a, b = report["compared"]
        out += ["", f"{a} is cheaper than {b} in {100 * report['chance_cheaper']:.0f} % of {report['draws']} draws"]
        decides = ", ".join(f"{name} ({usd(abs(high - low) / 2)} either way)" for name, low, high in report["tornado"][:3])
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
    chart = Chart("Cost, USD", 860, 70 + 30 * len(rows) + 30, 250, 44)
    place = chart.across(max(r["total_usd"]["high"] for r in rows), "USD")
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
        chart.text(chart.left - 8, y + 12, name, "", "end")
        chart.shape("second", "rect", x=place(min(low, high)), y=y, width=abs(place(high) - place(low)), height=16)
    for value in (-most, 0, most):
        chart.text(place(value), chart.top + chart.high + 18, usd(value), "faint", "middle")
    return chart.svg()


STYLE = "body{font:15px/1.5 system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 1em}table{border-collapse:collapse}td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid #ddd}td:first-child,th:first-child,td:last-child,th:last-child{text-align:left}svg{max-width:100%}@media print{body{margin:0}}"


def table(head, rows):
    cells = "".join(f"<th>{html.escape(h)}</th>" for h in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(c))}</td>" for c in row) + "</tr>" for row in rows)
    return f"<table><tr>{cells}</tr>{body}</table>"


def page(report, shared):
    """The whole as one HTML file."""
    rows = [(r["machine"], r["way"], *(usd(r["total_usd"][k]) for k in ("low", "likely", "high")), f"{r['usd_per_million_tokens']:.2f}", r["basis"]) for r in report["rows"]]
    parts = [f"<h1>{html.escape(title(report))}</h1>", table(("machine", "way", "low", "likely", "high", "$/1M", "basis"), rows), bars(report)]
    if report["compared"]:
        share = f"{report['compared'][0]} is cheaper than {report['compared'][1]} in {100 * report['chance_cheaper']:.0f} % of {report['draws']} draws."
        parts += [f"<p>{html.escape(share)}</p>", tornado(report), "<h2>Where it flips</h2><ul>"]
        parts += [f"<li>{html.escape(sentence(p))}</li>" for p in report["break_even"]] + ["</ul>"]
    claimed = [(c["claim"], " to ".join(f"{x:.2f}" for x in sorted(set(c["claimed_ratio"]))), f"{c['ratio_here']:.2f}" if c["ratio_here"] else "–", c["from"]) for c in report["claims"]]
    parts += ["<h2>Claims, as a ratio of dollars</h2>", table(("claim", "claimed", "here", "source"), claimed)]
    priced = [(r["machine"], r["way"], r["price"].get("usd_per_hour", r["price"].get("usd")), r["price"].get("region"), r["price"].get("date"), r["price"].get("from")) for r in report["rows"]]
    parts += ["<h2>Prices</h2>", table(("machine", "way", "USD", "region", "date", "source"), priced)]
    parts += ["<h2>Inputs</h2>", table(("input", "low", "likely", "high", "unit", "source"), [(i.name, number(i.low), number(i.likely), number(i.high), i.unit, i.source) for i in shared.values()])]
    if report["without"]:
        parts += ["<h2>Not compared</h2>", table(("machine", "why"), [(w["machine"], w["why"]) for w in report["without"]])]
    return f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title(report))}</title><style>{STYLE}</style>' + "\n".join(parts) + "</html>\n"
