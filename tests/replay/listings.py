"""What one program compiles to, as text, and in a line what is in it.

A program has several forms: the graph as the front-end read it, the host plan, and the instructions and time on each chip.
A form's text is all that decides what runs; constants longer than a line stand there by their hash.
"""

import collections
import hashlib
import re

INSTANCES = {"inf1": "inf1.xlarge", "inf2": "inf2.xlarge", "trn1": "trn1.2xlarge", "trn2": "trn2.3xlarge", "trn3": "trn3-gen1-ultraserver", "trn4": "trn4-ultraserver"}

TIMED = ("instructions", "transfers", "flops", "hbm_read_bytes", "hbm_write_bytes", "hbm_used_bytes", "sbuf_peak_bytes", "psum_banks_used")
LONG = re.compile(r"[0-9A-Za-z+/=]{120,}")  # digits of a constant, base64 of a kernel


def shortened(text):
    return LONG.sub(lambda m: f"<{len(m[0])} digits, sha256 {hashlib.sha256(m[0].encode()).hexdigest()[:24]}>", text)


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def said(error):
    """An error as a form of the program: that it is refused, and how, must not change either."""
    return f"refused: {error}\n"


def counts(found):
    return ", ".join(f"{name} {n:,}" for name, n in sorted(found.items()))


def graph_summary(text):
    ops = sum(1 for line in text.splitlines() if re.match(r"\s+%\d+ = ", line))
    return f"{ops:,} nodes"


def plan_summary(text):
    kinds, slots, arena = collections.Counter(), 0, "0"
    for line in text.splitlines():
        if line.startswith("step "):
            words = line.split(" ")
            kinds[" ".join(words[2:4]) if words[2] in ("call", "move", "window", "collective") else words[2]] += 1
        elif line.startswith("slot "):
            slots += 1
        elif line.startswith("arena "):
            arena = line.split(" ")[1]
    return f"{counts(kinds) or 'no steps'}; {slots:,} slots; arena {int(arena):,} B"


def stream_counts(text):
    found, stream = collections.Counter(), None
    for line in text.splitlines():
        if line.startswith("stream "):
            stream = line.split(" ")[1]
        elif line.startswith(("program ", "part ")):
            stream = None
        elif stream and line.startswith(" "):
            found[stream] += 1
    return found


def summary(form, text):
    if text.startswith("refused: "):
        return text.splitlines()[0][:160]
    if form == "graph":
        return graph_summary(text)
    return plan_summary(text) if form == "plan" else ""


def timed(text, programs, chip):
    """The text with the time of each program, and the summary."""
    from trine import _core

    ns, hbm, sbuf, psum = 0.0, 0, 0, 0
    for program in programs:
        time = _core.time(program, INSTANCES[chip])
        report = time.report()
        ns += time.time_fs / 1e6
        hbm, sbuf, psum = hbm + report["hbm_used_bytes"], max(sbuf, report["sbuf_peak_bytes"]), max(psum, report["psum_banks_used"])
        text += f"time {time.time_fs} fs\n" + "".join(f"{name} {report[name]}\n" for name in TIMED)
        text += "".join(f"finding {f}\n" for f in time.findings)
    found = stream_counts(text)
    if not programs:
        return text, "all on the host"
    parts = f"{len(programs)} programs; " if len(programs) > 1 else ""
    return text, f"{ns:,.0f} ns; {parts}{counts(found)}; hbm {hbm:,} B; sbuf {sbuf:,} B; psum {psum} banks"


def device(artifact, chip, cast="none", weights=()):
    from trine import _core

    compiled = _core.compile_device(artifact, chip, cast, "bf16", list(weights))
    text = _core.device_listing(compiled)
    return timed(text, [p["program"] for p in compiled.parts if not p["on_host"]], chip)


def form_of(artifact, form, options):
    """(text, summary) of one form of a program that a front-end reads."""
    from trine import _core

    try:
        if form == "graph":
            text = _core.graph_listing(artifact)
        elif form == "plan":
            text = _core.host_listing(artifact, options.get("jax", False), options.get("partitions", 1), options.get("replicas", 1))
        else:
            text, about = device(artifact, form, options.get("cast", "none"), options.get("weights", ()))
            return shortened(text), about
    except ValueError as e:
        text = said(e)
    text = shortened(text)
    return text, summary(form, text)


def joined(many):
    """Forms of several programs, each form's texts one after the other."""
    out = {}
    for forms in many:
        for form, (text, about) in forms.items():
            before = out.get(form)
            out[form] = (before[0] + text, f"{before[1]} | {about}") if before else (text, about)
    return out
