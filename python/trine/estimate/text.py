"""An estimate on a screen: the answer first, then what it is made of. And as a picture."""

from trine.estimate import compare
from trine.text import aligned, byte_count, columns


def span(ms):
    """A time with three digits and its unit."""
    for unit, scale in (("s", 1e3), ("ms", 1.0), ("µs", 1e-3)):
        if ms >= scale or unit == "µs":
            value = ms / scale
            return f"{value:.{max(0, 2 - (len(str(int(value))) - 1))}f} {unit}"


def table(found, purchase):
    """One line an instance, all prices of one way to rent."""
    product = found[0].as_dict()["result"]
    rows = [("instance", "p50 latency", f"{product}/s", "bound by", "MFU", "MBU", f"$/1M {purchase}", f"J/{product}")]
    for answer in found:
        d, rent = answer.as_dict(), compare.rent(answer, purchase)
        t = d["latency_ms"]
        rows.append(
            (
                d["instance"],
                f"{span(t['p50'])} ({span(t['low'])}–{span(t['high'])})",
                f"{d['throughput_per_s']:,.0f}",
                d["bound"],
                f"{d['mfu_pct']:.0f} %",
                f"{d['mbu_pct']:.0f} %",
                f"{rent['usd_per_million']:.3g}" if rent else "–",
                f"{d['cost']['wall_joules_per_result']:.3g}",
            )
        )
    return aligned(rows, right=(2, 4, 5, 6, 7))


def memory_line(d):
    m = d["memory_bytes_per_core"]
    stored = f" as {d['weights']}" if " (" in d.get("weights", "") else ""
    named = ", ".join(f"{n} {byte_count(m[n])}{stored if n == 'weights' else ''}" for n in ("weights", "cache", "optimiser", "activations",
        "scratch") if m[n])
    line = f"  {'fits' if m['fits'] else 'does not fit'}: {named}, of {byte_count(m['room'])} per core"
    if m["fits"]:
        return line
    most = max(("weights", "cache", "optimiser", "activations", "scratch"), key=m.get)
    more = f"--tp {d['fits_at_tp']} would" if d.get("fits_at_tp") else f"no tp of {d['instance']} would; take a larger one"
    return f"{line}\n  over by {byte_count(m['used'] - m['room'])}, most of it {most}; {more}"


def layer_lines(answer, most=12):
    """Where our program's time goes, the longest first; what is too small to be shown is one line, so that all add up."""
    rows = sorted(answer.by_kind(), key=lambda r: -r["ms"])
    total = sum(r["ms"] for r in rows) or 1.0
    large = [r for r in rows[:most] if r["ms"] > total / 200]
    shown = [(f"  {r['layer']}", r["part"], span(r["ms"]), f"{r['ms'] / total:.0%}", r["bound"]) for r in large]
    rest = total - sum(r["ms"] for r in large)
    if rest > total / 200:
        shown.append(("  the rest", "", span(rest), f"{rest / total:.0%}", ""))
    return columns([("  where", "", "time", "share", "bound by"), *shown], right=(2, 3))


def cost_lines(d):
    """Dollars and joules: of a result, of a training step and run, of a prompt and what is written after it."""
    rents, wall = d["cost"]["rents"], d["cost"]

    def each(key):
        return ", ".join(f"{r['way']} {r[key]:.3g}" for r in rents) or "no price known"

    of = {"token": "tokens", "inference": "inferences", "sequence": "sequences"}[d["result"]]
    written = " written, their prompts included" if "generation" in d else ""
    lines = [f"  $ per million {of}{written}: {each('usd_per_million')}"]
    if t := d.get("training"):
        lines = [f"  $ a step: {each('usd_per_step')}", f"  $ per million tokens: {each('usd_per_million_tokens')}"]
        if r := t.get("run"):
            lines.append(f"  {r['tokens']:,} tokens: {r['steps']:,} steps, {span_of_days(r['hours'])}; $ {each('usd_per_run')}")
    return [*lines, f"  {wall['wall_watts']:,.0f} W at the wall, PUE included; {wall['wall_joules_per_result']:.3g} J per {d['result']}"]


def span_of_days(hours):
    return f"{hours:.3g} hours" if hours < 48 else f"{hours / 24:,.3g} days"


def copies(d):
    many = f"{d['copies']} cop{'y' if d['copies'] == 1 else 'ies'}"
    if "training" not in d:
        return f"{many} on the instance"
    t = d["training"]
    words = [many, f"on {t['nodes']} instance{'s' if t['nodes'] > 1 else ''}", f"in {t['pp']} stages" + (f" of {t['chunks']} chunks" if t["chunks"] > 1 else "") if t["pp"] > 1 else "",
             f"with {t['accumulate']} batches each" if t["accumulate"] > 1 else "", f"by ZeRO-{t['zero']}" if t["zero"] else "",
             f"each sequence on {t['cp']} cores" if t["cp"] > 1 else "", f"experts on {t['ep']} copies" if t["ep"] > 1 else "",
             {"full": "with layers computed again on the way back", "selective": "with scores computed again on the way back"}.get(t["recompute"], "")]  # fmt: skip
    return " ".join(w for w in words if w) + f": {t['global_batch']} sequences a step"


def spilled(d):
    """Of HBM's bytes those that were on chip before."""
    if not d["spill_save_bytes"] + d["spill_reload_bytes"]:
        return ""
    return f"; of these {byte_count(d['spill_save_bytes'])} spilled, {byte_count(d['spill_reload_bytes'])} reloaded"


def step_lines(d):
    """A training step of programs as Neuron's are likely to be: what its longest stage does and waits for, then each stage."""
    if "step" not in d:
        return []
    found = d["step"]["likely"]
    s = found["stages"][found["longest_stage"]]
    words = [f"compute {span(s['compute_ms'])}", f"collectives {span(s['collectives_ms'])} (and {span(s['hidden_ms'])} hidden)"]
    words += [f"{name} {span(s[key])}" for name, key in (("bubbles", "bubbles_ms"), ("slowed by them", "slowed_ms"), ("launch", "launch_ms")) if s[key]]
    lines = [f"  a step: {' · '.join(words)} = {span(found['ms'])}"]
    if len(found["stages"]) > 1:
        rows = [("  stage", "compute", "collectives", "hidden", "bubbles", "in flight", "waits most for")]
        for s in found["stages"]:
            most = next((w for w in s["waits"] if w["ms"] > 0.005 * found["ms"]), None)
            whom = "nobody" if not most else f"stage {most['for_stage']}" + (", the step's end" if most["what"] == "end" else f", {most['what']}")
            rows.append((f"  {s['stage']}", *(span(s[k]) for k in ("compute_ms", "collectives_ms", "hidden_ms", "bubbles_ms")), str(s["in_flight"]), whom))
        lines += columns(rows, right=(1, 2, 3, 4, 5))
    return lines


def search_lines(found):
    """Layouts that were timed, the fastest first, and how many others were not."""
    rows = [("  layout", "sequences/s", "a step", "memory", "lost by")]
    for r in found["timed"]:
        rows.append((f"  {r['layout']}", f"{r['sequences_per_s']:,.1f}", span(r["ms"]), byte_count(r["used_bytes"]), r["lost_by"] or "the fastest"))
    lines = columns(rows, right=(1, 2, 3))
    for r in found["left_out"]:
        named = ", or ".join(r["layouts"][:2])
        lines.append(f"  {len(r['layouts'])} × {r['why']}: {named}" + (" …" if len(r["layouts"]) > 2 else ""))
    return lines


def detail(answer):
    d = answer.as_dict()
    t, lnc = d["latency_ms"], f", logical cores of {d['lnc']}" if d["lnc"] > 1 else ""
    lines = [
        f"\n{d['instance']}: our program {span(t['achievable'])}; Neuron's likely {span(t['p50'])}"
        f" ({', '.join(answer.why_likely())})",
        f"  device {span(t['device'])} · collectives {span(t['collectives']) if t['collectives'] else 'none'}"
        f" · launch {span(t['launch'])} · host {span(t['host'])}",
        f"  HBM {byte_count(d['hbm_read_bytes'])} read, {byte_count(d['hbm_write_bytes'])} written by each core{spilled(d)}",
        memory_line(d),
        *step_lines(d),
        *(search_lines(d["search"]) if "search" in d else []),
        f"  {copies(d)}{lnc} · compiled in {d['compile_s']:.2f} s, timed in {d['timer_s']:.2f} s",
    ]
    lines.append(f"  band: {d['calibration']['band_from']}")
    if answer.out_of_range:
        lines.append(f"  {answer.out_of_range}")
    if d["on_host"]:
        lines.append(f"  the host runs {', '.join(sorted(set(d['on_host'])))}; its own time is not counted")
    if answer.layout.idle:
        lines.append(f"  a batch of {d['batch']} is not cut in two: one core of each logical one idles")
    lines += cost_lines(d)
    if g := d.get("generation"):
        lines.append(
            f"  {g['prompt']} tokens in, {g['new_tokens']} out: first after {span(g['first_token_ms'])}, then {span(g['token_ms'])} each;"
            f" {span(g['total_ms'])} in all, {g['tokens_per_s']:,.1f} tokens/s"
        )
    return "\n".join(lines + layer_lines(answer))


def too_large(found):
    """What does not fit, known before it was compiled."""
    return "\n".join(f"{t.instance}:\n{memory_line(t.as_dict())}" for t in found)


def text(found, cast="", purchase=None, slow=(), large=()):
    """found: answers in their order; slow: those that a limit left out; large: those that do not fit."""
    parts = []
    if found:
        first = found[0]
        parts += [first.title + (f", tp {first.tp}" if first.tp > 1 else "") + cast, "", table(found, purchase or compare.usual_purchase(found))]
    if slow:
        parts.append("too slow: " + ", ".join(f"{a.instance} p50 {span(a.likely_ms)}, p99 {span(a.p99_ms)}" for a in slow))
    parts += [detail(answer) for answer in found]
    return "\n".join([*parts, *([too_large(large)] if large else [])])


def lanes(answer, path):
    """A training step as an SVG: a lane for each stage, what its engines do, and below it what its streams do."""
    from trine.chart import Chart

    found = answer.step.spans()
    spans, stages = found["spans"], len(found["stages"])
    end = max(s["end_ns"] for s in spans)
    unit, scale = next((u, s) for u, s in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)) if end >= s or u == "µs")
    each, left = 30, 90
    batches = sum(1 for s in spans if s["stage"] == 0 and s["what"] == "layer forward") // max(1, answer.step.programs.layers)
    page = Chart(f"{answer.title}: {batches} of {answer.plan.accumulate} batches", 1000, 70 + each * stages + 56, left, 66)
    page.legend(16, 46, [("first", "compute"), ("second", "collectives"), ("faint", "waiting: blank")])
    at = page.across(end / scale, f"time, {unit}")
    for i in range(stages):
        page.text(left - 10, page.top + each * i + 18, f"stage {i}", anchor="end")
    for s in merged(spans, end / 2000):
        y = page.top + each * s["stage"]
        x, kind = at(s["begin_ns"] / scale), "second" if s["is_collective"] else "first"
        page.shape(kind, "rect", x=x, y=y + (4 if s["lane"] == "compute" else 19), width=at(s["end_ns"] / scale) - x, height=14 if s["lane"] == "compute" else 5)
    with open(path, "w") as out:
        out.write(page.svg())


def merged(spans, gap):
    """Neighbours of one kind in one lane as one: what is narrower than a pixel is not drawn apart."""
    out, last = [], {}
    words = ("tensor ", "gradients", "parameters", "send", "keys", "experts")
    for s in sorted(spans, key=lambda s: s["begin_ns"]):
        s = s | {"is_collective": s["lane"] != "compute" or s["what"].startswith(words)}
        key = (s["stage"], s["lane"])
        had = last.get(key)
        if had and had["is_collective"] == s["is_collective"] and s["begin_ns"] - had["end_ns"] <= gap:
            had["end_ns"] = s["end_ns"]
            continue
        last[key] = s
        out.append(s)
    return out


def picture(found, path):
    """Each instance's latency as two bars from zero, our program's and Neuron's likely one with its band; of one training step
    its lanes; an SVG."""
    from trine.chart import Chart

    if len(found) == 1 and found[0].phase == "train":
        return lanes(found[0], path)
    rows = [(f.instance, f.achievable_ms, f.likely_ms, *(f.likely_ms * b for b in f.band)) for f in found]
    most = max(max(r[1:]) for r in rows)
    unit, scale = next((u, s) for u, s in (("s", 1e3), ("ms", 1.0), ("µs", 1e-3)) if most >= s or u == "µs")
    each, left = 46, 30 + 7 * max(len(r[0]) for r in rows)
    page = Chart(found[0].title, max(720, left + 560), 70 + each * len(rows) + 56, left, 66, right=110)
    page.legend(16, 46, [("first", "our program"), ("second", "Neuron's likely"), ("ink", "its 90 % band")])
    at = page.across(most / scale, f"latency, {unit}")
    for i, (name, ours, likely, low, high) in enumerate(rows):
        y = page.top + each * i + 6
        page.text(left - 10, y + 20, name, anchor="end")
        for kind, value, top, end in (("first", ours, y, ours), ("second", likely, y + 17, max(likely, high))):
            page.shape(kind, "rect", x=left, y=top, width=at(value / scale) - left, height=15)
            page.text(at(end / scale) + 6, top + 12, span(value), "faint")
        page.whisker(at(low / scale), at(high / scale), y + 24.5)
    with open(path, "w") as out:
        out.write(page.svg())
