"""A decoder by its configuration: what is tried of it in chip time, its small likeness that is validated, and its peer's speed.

Times are those of `trine estimate`: a prompt is read alone, a batch writes together, and a context window is what the decode
program reads whatever a request's own length. Copies of one instance share its cores evenly.
"""

import dataclasses
import functools

from trine.command import UNSUPPORTED, USAGE, Stop
from trine.decide import tco_speed
from trine.decide.migrate.baseline import machine_row

DTYPES = {"f32": "float32", "bf16": "bfloat16"}
CORES = (1, 2, 4, 8, 16, 32, 64, 128)
DOUBLINGS = 3  # of the cores to a copy, where the file names none
SMALL = 40e6  # parameters of the likeness
WORDS, STEPS, PROMPT = 512, 3, 16  # of the likeness: vocabulary, tokens written, tokens read


def loaded(project):
    """The configuration, with the name that reports call it by."""
    from trine import models

    try:
        config = models.load_config(project.config)
        model = models.build(config, "bfloat16")
    except (models.ConfigError, ValueError) as e:
        raise Stop(UNSUPPORTED, f"[project] config: {e}") from None
    if not model.writes:
        raise Stop(UNSUPPORTED, f"[project] config: found {model.family.name}, which writes no text; expected a decoder, or model and inputs in its stead")
    config.setdefault("_name_or_path", str(project.config).rsplit("/", 1)[-1].removesuffix(".json"))
    return config


def asked_for(project, config, instance, precision, tp, phase, batch, seq):
    from trine.estimate.answer import ask

    return ask(config, instance=instance, phase=phase, batch=batch, seq=seq, tp=tp, dtype=DTYPES[precision])


def shares(project, config, instance, precision):
    """Over how many cores a copy is tried: as asked, or the fewest that hold the smallest cell and some doublings of it."""
    from trine import models

    if project.trial["tp"]:
        return project.trial["tp"]
    fit = []
    for tp in CORES:
        try:
            asked = asked_for(project, config, instance, precision, tp, "decode", min(project.trial["batches"]), min(project.trial["contexts"]))
        except models.ConfigError:
            continue
        if asked.at.cores <= asked.at.instance["cores"] and not asked.too_large():
            fit.append(tp)
    return fit[:DOUBLINGS] or [CORES[0]]


def cells(project, config):
    """[(instance, precision, batch, tp, context)]."""
    out = []
    for instance in project.trial["instances"]:
        for precision in project.trial["precisions"]:
            for tp in shares(project, config, instance, precision):
                out += [(instance, precision, batch, tp, context) for batch in project.trial["batches"] for context in project.trial["contexts"]]
    return out


def timed(project, config, cell, phase):
    """{"ms", "low", "high", "p99", …} of one program, or {"why_not"}."""
    from trine import models
    from trine.estimate.answer import estimate_asked

    instance, precision, batch, tp, context = cell
    size = (1, project.traffic["prompt"]) if phase == "prefill" else (batch, context)
    try:
        asked = asked_for(project, config, instance, precision, tp, phase, *size)
        large = asked.too_large()
        if large:
            m, more = large.memory, f"; tp {large.fits_at_tp} would hold it" if large.fits_at_tp else ""
            return {"why_not": f"{m['used'] / 1e9:.1f} of {m['room'] / 1e9:.1f} GB a core{more}"}
        answer = estimate_asked(asked)
    except (models.ConfigError, ValueError, RuntimeError, MemoryError) as e:
        return {"why_not": str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__}
    if not answer.memory["fits"]:
        return {"why_not": f"{answer.memory['used'] / 1e9:.1f} of {answer.memory['room'] / 1e9:.1f} GB a core with what it computes"}
    times, found = answer.times(), answer.as_dict()
    return {"ms": times["p50"], "low": times["low"], "high": times["high"], "p99": times["p99"], "copies": answer.copies, "cores": answer.layout.cores,
            "bound": found["bound"], "collectives_ms": times["collectives"], "used_bytes": answer.memory["used"], "room_bytes": answer.memory["room"],
            "cases": found["calibration"]["cases"]}  # fmt: skip


def joined(project, cell, prefill, decode):
    """A cell's row of the two programs: generated tokens a second of the whole instance."""
    instance, precision, batch, tp, context = cell
    row = {"instance": instance, "precision": precision, "batch": batch, "tp": tp, "context": context}
    for part in (decode, prefill):
        if "why_not" in part:
            return row | {"why_not": part["why_not"]}
    work = workload(project, batch)
    rates = [decode["copies"] / tco_speed.request_s(work, prefill[k] * 1e-3, decode[k] * 1e-3) for k in ("high", "ms", "low")]
    return row | {"call_ms": decode["ms"], "band_ms": [decode["low"], decode["high"]], "step_p99_ms": decode["p99"], "first_token_ms": prefill["ms"],
                  "bound": decode["bound"], "copies": decode["copies"], "cores": decode["copies"] * decode["cores"], "items_per_s": rates,
                  "collectives_ms": decode["collectives_ms"], "used_bytes": decode["used_bytes"], "room_bytes": decode["room_bytes"]}  # fmt: skip


def workload(project, batch, config=None, name=""):
    """The workload as `trine tco` has it."""
    return tco_speed.Workload(config, name, batch, project.traffic["prompt"], project.traffic["output"], 0, True)


def why_not(row, traffic):
    """What of the traffic a timed row does not hold, else nothing."""
    if row["context"] < traffic["prompt"] + traffic["output"]:
        return f"a window of {row['context']} tokens, a request has {traffic['prompt'] + traffic['output']}"
    if traffic["p99_ms"] and row["step_p99_ms"] > traffic["p99_ms"]:
        return f"p99 {row['step_p99_ms']:.3g} ms a token, over the {traffic['p99_ms']:g} ms asked for"
    if traffic["first_token_ms"] and row["first_token_ms"] > traffic["first_token_ms"]:
        return f"first token after {row['first_token_ms']:.3g} ms, over the {traffic['first_token_ms']:g} ms asked for"
    return ""


def windows(rows):
    """The cheapest setting for each context window: what a longer one costs, and whether another instance wins there."""
    best = {}
    for row in rows:
        if "usd_per_million" in row and "why_not" not in row and row["usd_per_million"] < best.get(row["context"], row | {"usd_per_million": float("inf")})["usd_per_million"]:
            best[row["context"]] = row
    return [best[c] for c in sorted(best)]


def beside(rows, best):
    """Settings that differ from the recommended one in one thing alone: what turning that thing does."""
    names = ("instance", "precision", "tp", "batch", "context")
    return [r for r in rows if "usd_per_million" in r and sum(r[n] != best[n] for n in names) == 1 and r["instance"] == best["instance"]]


def baseline(project, config):
    """A GPU's tokens a second at the best of the batches that are tried; measured, published or a roofline, said which."""
    extra = str(project.file.parent / project.baseline["file"]) if project.baseline["file"] else None
    files = tco_speed.baseline_files(extra)
    gpu = (files[-1][1].get("machine") or {}).get("gpu", "") if extra else ""
    machine = machine_row(project.baseline["machine"], gpu)
    found = []
    for batch in project.trial["batches"]:
        work = workload(project, batch, config, config["_name_or_path"])
        speeds = tco_speed.peer_speeds(work, machine, files)
        kind = next((k for k in tco_speed.kinds_of({"": speeds}, None) if k in speeds), None)
        if kind:
            found.append(speeds[kind])
    if not found:
        raise Stop(USAGE, f"[baseline] machine: found {machine['name']}, which has no measured, published or roofline speed of {config['_name_or_path']}; expected another, or a file")
    order = ("measured", "published", "roofline")
    best = min(found, key=lambda s: (order.index(s.kind), -s.likely))
    return {"kind": best.kind, "machine": machine["name"], "items_per_s": [v / machine["chips"] for v in (best.low, best.likely, best.high)], "basis": best.basis}


def likeness(config, dtype):
    """The model with two layers, few words, and heads and widths divided alike until it is small; its weights are random."""
    from trine.models import build

    model = build({k: v for k, v in config.items() if k != "quantization_config"}, dtype)
    made = functools.partial(type(model), model.config, dtype)
    small = made(dataclasses.replace(model.settings, layers=min(2, model.settings.layers), vocab=min(WORDS, model.settings.vocab), forms=model.settings.forms[:2]))
    while small.parameters_count() > SMALL:
        s = small.settings
        if s.heads % 2 or s.kv_heads % 2 or s.width % 2 or s.ffn % 2 or s.latent or s.space:
            break
        parts = {"heads": s.heads // 2, "kv_heads": s.kv_heads // 2, "width": s.width // 2, "ffn": s.ffn // 2, "embed": s.embed // 2}
        small = made(dataclasses.replace(s, **parts))
    return small


def validate(config):
    """Logits of a prompt and the tokens after it, on the virtual chip against f32, by `trine debug compare`."""
    from trine.debug import zoo
    from trine.debug.comparison import compare

    rows, holds, small = {}, True, likeness(config, "float32")
    if small.parameters_count() > 10 * SMALL:
        return {"of": "logits", "rows": {}, "holds": None, "why_not": f"its smallest likeness has {small.parameters_count() / 1e6:.0f} million parameters"}

    def subject(dtype):
        model = likeness(config, dtype)
        return zoo.generation(model, zoo.loaded(model, None, 0), 1, PROMPT, STEPS, 0)

    wide = subject("float32")
    for name, dtype in (("f32 on the device", "float32"), ("bf16 on the device", "bfloat16")):
        mine = wide if dtype == "float32" else subject(dtype)
        against = {} if dtype == "float32" else {"baseline": wide.function, "baseline_args": wide.args}
        found = compare(mine.function, *mine.args, names=mine.names, name=name, **against)
        worst = max(found.outputs, key=lambda r: r["l2_relative"])
        rows[name] = {k: worst[k] for k in ("l2_relative", "max_relative", "max_absolute", "cosine")} | {"outcome": found.outcome}
        holds = holds and found.passed
    s = small.settings
    return {"of": "logits", "rows": rows, "holds": bool(holds), "likeness": f"{s.layers} layers of width {s.width}, random weights"}
