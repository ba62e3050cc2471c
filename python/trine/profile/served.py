"""A server's programs in a profile. The log (src/serve/step_log.h) says which bucket ran and what the engine's clock gave it; the
program is made again as the table of times made it (trine.serve.cost), through the compile cache.

A run lasts what the clock gave it, which is the likely time of the whole model. A model of many equal layers is timed by a few: the
instructions shown are those of the largest such program that is not longer than the run. What remains are two pieces: the other
layers, and what the likely time adds (launch, host, less overlap).
"""

import json

from trine.profile import record


def about(model, config, instance, tp) -> str:
    """What an engine keeps for profiles; as trine._core.serve.Engine takes it."""
    return json.dumps({"model": model, "config": config, "instance": instance, "tp": tp}, default=str)


def instance_of(processes, folder):
    """The instance that a recorded server was told; None where nothing was served."""
    lines = (line for p in processes for line in p.things if "serve" in line)
    return next((_about(folder, line)["instance"] for line in lines), None)


def copies(processes) -> list:
    """The processes, where a server's copies of its model, which work at the same time, are ranks of their own."""
    out = []
    for p in processes:
        steps = p.rows["kind"] == record.STEP
        devices = sorted(set(p.rows["device"][steps].tolist()))
        parts = [p.rows[steps & (p.rows["device"] == d)] for d in devices[1:]]
        keep = ~steps | (p.rows["device"] == devices[0]) if devices else slice(None)
        out += [record.Process(p.pid, 0, p.begin_ns, p.things, rows) for rows in (p.rows[keep], *parts)]
    for number, process in enumerate(out):
        process.rank = number
    return out


def add(assembly, line, folder) -> int:
    """The row of info's programs of a line of the log."""
    key = ("serve", line["source"], line["serve"], line["size"], line["context"])
    if (found := assembly.known(key)) is not None:
        return found
    asked = _about(folder, line)
    decode = line["serve"] == "decode"
    name = f"decode, {line['size']:,} × {line['context']:,} seen" if decode else f"prefill, {line['size']:,} tokens"
    try:
        answer, heard = _timed(asked, line)
    except (ValueError, RuntimeError, MemoryError) as e:
        return assembly.refused(key, name, str(e))
    shown, collectives = _shown(heard, asked["instance"], answer.likely_ms * 1e6)
    _, _, programs, sharing, _, _ = shown
    low, high = answer.band
    likely = answer.likely_ms * 1e6
    whole = answer.report | {"band_ns": [likely * low, likely * high]}
    return assembly.served(key, name, answer.layout.tp, programs, collectives, sharing, whole, whole["time_ns"] + answer.collectives_ms * 1e6)


def _about(folder, line):
    return json.loads((folder / line["source"]).read_text())


def _timed(asked, line):
    """(the estimate, every program that was timed for it)."""
    from trine.estimate import estimate, program

    size = {"phase": "decode", "batch": line["size"], "seq": line["context"]} if line["serve"] == "decode" else {"phase": "prefill", "batch": 1, "seq": line["size"]}
    heard = []
    program.HEARD.append(lambda *what: heard.append(what))
    try:
        return estimate(asked["config"], instance=asked["instance"], tp=asked["tp"], **size), heard
    finally:
        program.HEARD.pop()


def _shown(heard, instance, most_ns):
    """(the largest program that is not longer, its collectives with the ns of each); the shortest where all are."""
    from trine.profile import assemble

    made = []
    for one in heard:
        *_, compiled, ns = one
        uses = [(u, assemble.collective_ns(instance, u)) for u in compiled.collectives if u["ranks"] > 1]
        made.append((ns + sum(u["count"] * each for u, each in uses), one, uses))
    made.sort(key=lambda m: m[0])
    fits = [m for m in made if m[0] <= most_ns] or made[:1]
    return fits[-1][1], fits[-1][2]
