"""`trine nki --tune NAME=V,V,…`: a kernel timed for every combination of some of its parameters, the quickest first."""

import ast
import difflib
import inspect
import itertools
import math
import traceback

from trine import progress
from trine.command import OK, UNSUPPORTED, USAGE, Stop
from trine.nki.errors import NkiError
from trine.text import aligned, duration

COMBINATIONS_MAX = 1000
SHOWN_MAX = 12


def around(name, default):
    """What a parameter named alone is tried with: half and double of its default, twice; both truth values."""
    if isinstance(default, bool):
        return [False, True]
    if isinstance(default, int) and default > 0:
        return sorted({max(1, default // 4), max(1, default // 2), default, 2 * default, 4 * default})
    shown = "none" if default is inspect.Parameter.empty else repr(default)
    raise Stop(USAGE, f"--tune {name} needs values where the default is no positive number ({shown}): --tune {name}=128,256")


def read_value(text):
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def read_choices(kernel, asked, given):
    """{parameter: values} of --tune."""
    parameters = inspect.signature(kernel.fn).parameters
    choices = {}
    for part in asked:
        name, equals, text = part.partition("=")
        if name not in parameters:
            near = difflib.get_close_matches(name, parameters, 1, 0)
            raise Stop(USAGE, f"{kernel.__name__} has no parameter {name}" + (f"; nearest: {near[0]}" if near else ""))
        if name in given or name in choices:
            raise Stop(USAGE, f"{name} is given already; --tune {part} would choose it")
        choices[name] = [read_value(t) for t in text.split(",")] if equals else around(name, parameters[name].default)
        if not all(str(v) for v in choices[name]):
            raise Stop(USAGE, f"found --tune {part}, expected NAME=V,V,…, for example tile=128,256,512")
    total = math.prod(len(v) for v in choices.values())
    if total > COMBINATIONS_MAX:
        raise Stop(USAGE, f"{total:,} combinations of --tune, at most {COMBINATIONS_MAX:,}; give fewer values")
    return choices


def time_of(kernel, instance, arguments):
    """The row of one combination; what refuses it is part of the answer."""
    from trine.reports import report

    try:
        r = report(kernel, instance=instance, **arguments)
    except NkiError as e:
        return {"refused": e.code, "why": e.found or e.rule, "line": e.line}
    except Exception as e:  # the kernel's own: an assertion about its sizes
        return {"refused": type(e).__name__, "why": str(e) or traceback.extract_tb(e.__traceback__)[-1].line}
    spilled = r.spill_save_bytes + r.spill_reload_bytes
    return {"time_ns": r.time_ns, "band_ns": list(r.band), "bound": r.bound, "sbuf_peak_bytes": r.sbuf_peak_bytes,
            "spill_bytes": spilled, "hbm_bytes": r.hbm_read_bytes + r.hbm_write_bytes}  # fmt: skip


def tuned(kernel, choices, given, instance):
    """(JSON, text, exit code)"""
    parameters = inspect.signature(kernel.fn).parameters
    defaults = {n: parameters[n].default for n in choices}
    rows = []
    with progress.stage(f"timing {math.prod(len(v) for v in choices.values())} versions of {kernel.__name__}"):
        for values in itertools.product(*choices.values()):
            chosen = dict(zip(choices, values))
            rows.append({"parameters": chosen} | time_of(kernel, instance, given | chosen))
        start = next((r for r in rows if r["parameters"] == defaults), None)
        if start is None and inspect.Parameter.empty not in defaults.values():
            start = time_of(kernel, instance, given)
    ran = sorted((r for r in rows if "time_ns" in r), key=lambda r: r["time_ns"])
    refused = [r for r in rows if "refused" in r]
    out = {"instance": instance, "tuned": ran, "refused": refused,
           "best": ran[0]["parameters"] if ran else None, "default_ns": (start or {}).get("time_ns")}  # fmt: skip
    return out, text_of(kernel, instance, ran, refused, out["default_ns"]), OK if ran else UNSUPPORTED


def text_of(kernel, instance, ran, refused, default_ns):
    text = [f"{kernel.__name__} on {instance}: {len(ran)} versions timed" + (f", {len(refused)} refused" if refused else "")]
    if ran:
        best = "  ".join(f"{n}={v!r}" for n, v in ran[0]["parameters"].items())
        gain = f", {default_ns / ran[0]['time_ns']:.2f} times as fast as the defaults" if default_ns else ""
        gain = ", the defaults" if default_ns == ran[0]["time_ns"] else gain
        text.append(f"best  {best}  {duration(ran[0]['time_ns'])}{gain}")
        names = list(ran[0]["parameters"])
        table = [[*names, "time", "bound by", "SBUF", "spill"]]
        table += [[*(repr(r["parameters"][n]) for n in names), duration(r["time_ns"]), r["bound"],
                   f"{r['sbuf_peak_bytes'] / 2**20:.1f} MiB", f"{r['spill_bytes'] / 1e6:.3g} MB" if r["spill_bytes"] else "–"]
                  for r in ran[:SHOWN_MAX]]  # fmt: skip
        text += ["", aligned(table, right=range(len(names) + 1))]
        if len(ran) > SHOWN_MAX:
            text.append(f"… and {len(ran) - SHOWN_MAX} slower ones, with --json")
    for r in refused[:3]:
        chosen = ", ".join(f"{n}={v!r}" for n, v in r["parameters"].items())
        text.append(f"refused  {chosen}: {r['refused']} {r['why']}".rstrip())
    if len(refused) > 3:
        text.append(f"… and {len(refused) - 3} more, with --json")
    return "\n".join(text)
