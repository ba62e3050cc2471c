"""`trine nki --compare A B`: two versions of a kernel on the same shapes and instance, number by number and line by line."""

import numpy as np

from trine.command import CHECK_FAILED, OK
from trine.nki import machine
from trine.text import aligned, byte_count, duration

# Of a report: what a row says, the attribute, how it is written.
ROWS = [
    ("HBM read", "hbm_read_bytes", byte_count),
    ("HBM written", "hbm_write_bytes", byte_count),
    ("spill, saved", "spill_save_bytes", byte_count),
    ("spill, reloaded", "spill_reload_bytes", byte_count),
    ("SBUF, most in use", "sbuf_peak_bytes", byte_count),
    ("PSUM, most in use", "psum_peak_bytes", byte_count),
    ("flops", "flops", lambda n: f"{n:,}"),
]
TOLERANCE = 1e-2  # of the largest value, beyond which two versions do not compute the same


def change(before, after):
    if before == after:
        return "same"
    return f"{100 * (after - before) / before:+.1f} %" if before else "new"


def numbers(reports):
    """[(what, before, after, text)] of the rows of the table."""
    a, b = reports
    rows = [("time", a.time_ns, b.time_ns, duration)]
    rows += [(f"{e} busy", a.engines[e].busy_ns, b.engines[e].busy_ns, duration) for e in a.engines
             if a.engines[e].busy_ns or b.engines[e].busy_ns]  # fmt: skip
    rows += [(what, getattr(a, name), getattr(b, name), write) for what, name, write in ROWS]
    rows += [("instructions", *(sum(e.instructions for n, e in r.engines.items() if n != "dma") for r in reports),
              lambda n: f"{n:,}")]  # fmt: skip
    return rows


def line_changes(reports):
    """[(text of the line, before ns, after ns)] by the busiest unit of each, the largest change first."""
    sums = []
    for r in reports:
        by_text = {}
        for line in r.lines:
            text = r.source(line) or f"{line['file']}:{line['line']}"
            by_text[text] = by_text.get(text, 0) + max(line["busy_ns"].values())
        sums.append(by_text)
    rows = [(text, sums[0].get(text, 0), sums[1].get(text, 0)) for text in {**sums[0], **sums[1]}]
    rows = [row for row in rows if abs(row[1] - row[2]) > 0.005 * max(row[1], row[2])]
    return sorted(rows, key=lambda row: -abs(row[1] - row[2]))


def difference(kernels, given, instance, random_arrays, run):
    """The largest difference of any result on the same random inputs, relative to the largest value."""
    chip, worst = machine.instance(instance)["chip"], 0.0
    results = []
    for kernel in kernels:
        compiled, data = kernel.compiled(chip, (), random_arrays)
        made = run(compiled, chip, data)
        results.append([np.asarray(r, np.float64) for r in (made if isinstance(made, (tuple, list)) else [made])])
    if [r.shape for r in results[0]] != [r.shape for r in results[1]]:
        return None
    for x, y in zip(*results):
        scale = max(np.abs(x).max(initial=0), 1e-30)
        apart = np.abs(x - y).max(initial=0) / scale
        worst = max(worst, float(apart) if np.isfinite(apart) else float("inf"))
    return worst


def compared(kernels, names, given, instance, data=None, run=None):
    """(JSON, text, exit code) of two versions of a kernel; with `data` their values too."""
    from trine.reports import report

    reports = [report(kernel, instance=instance, **given) for kernel in kernels]
    rows, lines = numbers(reports), line_changes(reports)
    out = {"kernels": names, "instance": instance,
           "bound": [r.bound for r in reports],
           "numbers": [{"what": w, "before": a, "after": b} for w, a, b, _ in rows],
           "lines": [{"line": t, "before_ns": a, "after_ns": b} for t, a, b in lines],
           "reports": [r.numbers() for r in reports]}  # fmt: skip
    a, b = reports
    faster = a.time_ns / b.time_ns
    summary = f"{faster:.2f} times as fast" if faster >= 1 else f"{1 / faster:.2f} times as slow"
    table = [["", "A", "B", "change"], ["bound by", a.bound, b.bound, ""]]
    table += [[w, write(x), write(y), change(x, y)] for w, x, y, write in rows if x or y]
    text = [f"A  {names[0]}", f"B  {names[1]}", f"on {instance}: B is {summary}", "", aligned(table, right=(1, 2, 3))]
    if lines:
        shown = [["line", "A", "B"], *([t[:60], duration(x), duration(y)] for t, x, y in lines[:8])]
        text += ["", "lines whose time changed", aligned(shown, right=(1, 2))]
    exit_code = OK
    if data is not None:
        worst = difference(kernels, given, instance, data, run)
        out["values_apart"] = worst
        if worst is None or worst > TOLERANCE:
            exit_code = CHECK_FAILED
        text += ["", "values     results of other shapes" if worst is None else
                 f"values     at most {worst:.2g} of the largest value apart on the same random inputs"]  # fmt: skip
    return out, "\n".join(text), exit_code
