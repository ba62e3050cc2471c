"""A Comparison as people read it: the answer, one table, one picture."""

import math

from trine.chart import Chart

WORDS = {
    "same": "the same, bit for bit",
    "rounding": "rounding explains it: in f64 both are the same program",
    "narrower": "rounding, of a format narrower than the baseline's",
    "overflow": "a number too large for its format",
    "chip": "not rounding: on the chip an op gives other numbers than its meaning",
    "defect": "a defect, not rounding: in f64 the two programs part",
}
FLOOR = 1e-9


def error(x):
    return "∞" if math.isinf(x) else "0" if x == 0 else f"{x:.1e}"


def text(c):
    lines = [f"{c.name}: {WORDS[c.outcome]} — {'within' if c.passed else 'past'} tolerance"]
    if c.first:
        where = f"   {c.first['line']}" if c.first["line"] else ""
        lines.append(f"  first   {c.first['text']}{where}")
        if c.first["baseline_line"] and c.first["baseline_line"] != c.first["line"]:
            lines.append(f"          baseline: {c.first['baseline_line']}")
    lines.append("")
    for row in c.steps:
        lines.append("  " + row["text"])
    if c.steps:
        lines.append("")
    lines += layer_lines(c)
    lines.append("")
    lines += [output_line(o) for o in c.outputs[:8]]
    if len(c.outputs) > 8:
        past = sum(not o["passed"] for o in c.outputs)
        lines.append(f"  … {len(c.outputs) - 8} outputs more, {past} of all past tolerance")
    lines += [f"  note    {n}" for n in c.notes[:5]]
    return "\n".join(lines)


def layer_lines(c, most=40):
    rows = [("layer", "ops", "max rel", "cosine", "ulp", "worst op", "")]
    shown = c.layers if len(c.layers) <= most else [r for i, r in enumerate(c.layers) if r["is_first"] or i < most // 2 or i >= len(c.layers) - most // 2]
    for r in shown:
        rows.append((r["layer"], str(r["ops"]), error(r["max_relative"]), f"{r['cosine']:.6f}", f"{r['ulp']:.3g}", r["worst"], bar(r["max_relative"]) + ("  ← here" if r["is_first"] else "")))
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    left = (0, 5)
    return ["  " + "  ".join([*(cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))), row[6]]).rstrip() for row in rows]


def bar(x):
    """By powers of ten, from one part in 10⁹ on."""
    if not x > FLOOR:
        return ""
    return "█" * min(18, max(1, round(2 * (math.log10(min(x, 1.0)) + 9))))


def output_line(o):
    line = f"  {o['name']}  {o['dtype']}{o['shape']}  max rel {error(o['max_relative'])}  cosine {o['cosine']:.6f}  {o['ulp']:.3g} ulp"
    if "logits" in o:
        by_k = "  ".join(f"k={r['k']} {error(r['error'])}/{r['tolerance']:g}" for r in o["logits"]["by_k"])
        line += f"\n          logits {by_k}  top-1 {100 * o['top1']:.0f} %  top-5 {100 * o['top5']:.0f} %"
    if o.get("noise") is not None:
        line += f"\n          the host in the same formats: {error(o['noise'])}"
    if o["not_finite"]:
        line += f"\n          {o['not_finite']:,} elements are infinite or no numbers; the baseline has {o['not_finite_reference']:,}"
    return line + ("   ok" if o["passed"] else "   PAST TOLERANCE")


def picture(c):
    """Errors op by op as SVG: height by powers of ten."""
    chart = Chart(f"{c.name}: relative error, op by op", 900, 340, 70, 56)
    low, high = -9, 1

    def up(x):
        return chart.top + chart.high * (1 - (min(max(math.log10(max(x, FLOOR)), low), high) - low) / (high - low))

    for power in range(low, high + 1, 2):
        y = up(10.0**power)
        chart.shape("grid", "line", x1=chart.left, x2=chart.left + chart.wide, y1=y, y2=y)
        chart.text(chart.left - 8, y + 4, f"1e{power}", "faint", "end")
    step = chart.wide / max(1, len(c.ops))
    points = [(chart.left + step * (n + 0.5), up(min(o["max_relative"], 10.0))) for n, o in enumerate(c.ops)]
    own = [(chart.left + step * (n + 0.5), up(o["own"])) for n, o in enumerate(c.ops) if o["own"] is not None and math.isfinite(o["own"])]
    chart.curve("first", points)
    chart.curve("second", own, dashed=True)
    for n, o in enumerate(c.ops):
        if c.first and (o["op"], o["scope"], o["line"]) == (c.first["found_op"] or c.first["op"], c.first["scope"], c.first["line"]):
            x = points[n][0]
            chart.shape("ink", "line", x1=x, x2=x, y1=chart.top, y2=chart.top + chart.high)
            chart.text(min(x + 6, chart.left + chart.wide - 160), chart.top + 12, f"{c.outcome}: {o['op']}", "")
            break
    last = None
    for n, o in enumerate(c.ops):
        name = o["scope"].split("/")[0]
        if name != last and n % max(1, len(c.ops) // 12) == 0:
            chart.text(chart.left + step * n, chart.top + chart.high + 16, name[:14], "faint")
            last = name
    chart.legend(chart.left, 44, [("first", "against the baseline"), ("second", "the op's own")])
    return chart.svg()
