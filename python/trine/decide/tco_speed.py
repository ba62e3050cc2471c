"""How many results a second a machine gives: measured, published, modelled, or a roofline with a band; always said which.

A result is a generated token of a decoder, whose prompts it reads too, or one inference of any other model.
"""

import dataclasses
import json
from pathlib import Path

from trine.command import OUTSIDE, UNSUPPORTED, USAGE, Stop, note

BASELINES = Path(__file__).parent / "baselines"
SAME_SHAPES = {"llama-3.1-8b": "llama-3-8b", "llama-3.1-8b-instruct": "llama-3-8b", "resnet-50": "resnet50", "stable-diffusion-v1-5": "sd-unet"}
# Share of a peak that programs reach, low, likely, high; decode's is of the memory rate. Compiled PyTorch with CUDA graphs
# reaches 0.63 and 0.70 on an H200 (Llama-3-8B, batch 32); MLPerf's servers, with their queues, 0.19 to 0.31 of the FLOP peak.
SHARE = {"prefill": (0.30, 0.55, 0.70), "decode": (0.35, 0.60, 0.80)}
REPEATS = 0.10  # by which a second run of a measured row may differ
ROUNDS = 0.24  # by which the same chip differs between MLPerf's rounds and submitters


@dataclasses.dataclass
class Speed:
    low: float
    likely: float
    high: float
    kind: str
    basis: str
    estimates: tuple = ()  # of a modelled one: what `trine estimate --json` prints of each phase

    def numbers(self):
        return {k: v for k, v in dataclasses.asdict(self).items() if k != "estimates"}


@dataclasses.dataclass
class Workload:
    """What is asked for a second: the model, how many sequences at once, prompt and answer of each."""

    config: dict
    name: str
    batch: int
    prompt: int
    output: int
    seq: int
    writes: bool

    @property
    def context(self):
        return self.prompt + self.output


def banded(time_of, kind, basis):
    """Speed of (low, likely, high) seconds per result."""
    slow, likely, fast = time_of
    return Speed(1 / slow, 1 / likely, 1 / fast, kind, basis)


def request_s(work, prefill_s, step_s):
    """Seconds of one generated token where a batch's prompts are read one after another and its answers written together."""
    return (work.batch * prefill_s + work.output * step_s) / (work.batch * work.output)


def load_workload(asked):
    import os

    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from trine import models
    from trine.estimate import cached

    try:
        config = models.load_config(asked.config)
        writes = cached.writes(cached.build(config, "bfloat16"))
    except (models.ConfigError, ValueError) as e:
        raise Stop(UNSUPPORTED, str(e)) from None
    name = str(asked.config).rsplit("/", 1)[-1].removesuffix(".json")
    config.setdefault("_name_or_path", name)
    return Workload(config, name, asked.batch, asked.prompt, asked.output, asked.seq or 128, writes)


def modelled(work, machine, tp=None):
    """Of Neuron's likely program, by Trine's estimate: the fewest cores to a copy that hold it."""
    from trine import models
    from trine.estimate.answer import ask, estimate_asked

    phases = [("prefill", 1, work.prompt), ("decode", work.batch, work.context)] if work.writes else [("forward", work.batch, work.seq)]
    found = []
    for phase, batch, seq in phases[::-1]:
        for cores in [tp] if tp else (1, 2, 4, 8, 16, 32):
            try:
                asked = ask(work.config, instance=machine["name"], phase=phase, batch=batch, seq=seq, tp=cores)
            except models.ConfigError as e:
                raise Stop(UNSUPPORTED, f"{machine['name']}: {e}") from None
            if not asked.too_large():
                break
        else:
            return None
        tp = cores
        note(f"{machine['name']}: timing {phase}, tp {tp}")
        found.append(estimate_asked(asked))
    times = [(a.as_dict()["latency_ms"], a.copies) for a in found]
    copies, cases = times[0][1], found[0].as_dict()["calibration"]["cases"]
    basis = f"modelled, {cases} published times of its class, tp {tp}, {copies} copies, batch {work.batch}"

    def seconds(key):
        if work.writes:
            return request_s(work, times[1][0][key] * 1e-3, times[0][0][key] * 1e-3) / copies
        return times[0][0][key] * 1e-3 / work.batch / copies

    speed = banded([seconds("high"), seconds("p50"), seconds("low")], "modelled", basis)
    return dataclasses.replace(speed, estimates=tuple(a.as_dict() for a in found)), times[0][0]["p99"]


def baseline_files(extra=None):
    paths = sorted(BASELINES.glob("*.json")) + ([Path(extra)] if extra else [])
    out = []
    for path in paths:
        try:
            report = json.loads(path.read_text())
            rows = report.get("rows") if isinstance(report, dict) and report.get("kind") == "baseline" and not report.get("small") else None
            if not isinstance(rows, list) or not all(isinstance(r, dict) and "ok" in r for r in rows):
                raise ValueError("not a whole baseline")
        except OSError as e:
            raise Stop(OUTSIDE, f"{path}: {e.strerror}") from None
        except ValueError as e:
            raise Stop(USAGE, f"{path}: found {e}, expected the JSON that the file of `trine baseline` writes") from None
        out.append((path, report))
    return out


def measured(work, machine, files):
    """From a baseline of the same GPU, at the same batch and context: the best mode of each phase."""
    wanted = SAME_SHAPES.get(work.name, work.name)
    for path, report in files[::-1]:
        gpu = (report.get("machine") or {}).get("gpu", "")
        if machine["family"] not in gpu.split():
            continue

        def best(phase, batch, tokens, rows=report["rows"]):
            fit = [r for r in rows if r["ok"] and r["model"] == wanted and r["phase"] == phase and r["dtype"] == "bf16"]
            fit = [r for r in fit if r["batch"] == batch and (not tokens or r["tokens"] == tokens)]
            return max(fit, key=lambda r: r["steady"]["items_per_s"], default=None)

        words = f"measured, {gpu}, {report['date'][:10]}, {path.name}"
        if work.writes:
            step, prefill = best("decode", work.batch, work.context), best("prefill", 1, 0)
            if not step or not prefill:
                continue
            seconds = request_s(work, work.prompt / prefill["steady"]["items_per_s"], work.batch / step["steady"]["items_per_s"])
            words += f", {step['mode']}, batch {work.batch}"
        else:
            row = best("infer", work.batch, work.seq if "bert" in wanted else 0)
            if not row:
                continue
            seconds, words = 1 / row["steady"]["items_per_s"], words + f", {row['mode']}, batch {work.batch}"
        seconds /= machine["chips"]
        return banded([seconds * (1 + REPEATS), seconds, seconds / (1 + REPEATS)], "measured", words)
    return None


def published(work, machine):
    wanted = SAME_SHAPES.get(work.name, work.name)
    for row in machine.get("published", []):
        if row["model"] == wanted:
            rate = row["tokens_per_s"]
            return Speed(rate * (1 - ROUNDS), rate, rate * (1 + ROUNDS), "published", f"{row['what']}; its own batch and precision")
    return None


def roofline(work, machine):
    """Bytes and FLOPs over the maker's peaks; each chip has a copy, or as many as hold one share it."""
    from trine.estimate import memory
    from trine.estimate.answer import ask

    phase, seq = ("decode", work.context) if work.writes else ("forward", work.seq)
    asked = ask(work.config, instance="trn2.48xlarge", phase=phase, batch=work.batch, seq=seq, dtype="bfloat16")
    held = memory.resident(asked.model, phase, work.batch, seq, asked.at)
    weights, cache = held["weights"], held["cache"]
    if asked.model.family.kind not in ("decoder", "encoder"):
        return None  # FLOPs of a convolution do not follow from its weights
    together = next((n for n in (1, 2, 4, 8) if (weights + cache) * 1.1 <= n * machine["hbm_gb"] * 1e9), None)
    if not together:
        return None
    rate, flops = together * machine["hbm_tb_per_s"] * 1e12, together * machine["bf16_tflops"] * 1e12
    copies, out = machine["chips"] // together, []
    for i in range(3):
        reach, moves = SHARE["prefill"][i], SHARE["decode"][i]
        if work.writes:
            step = max((weights + cache) / rate / moves, weights * work.batch / flops / reach)  # 2 FLOPs to a weight of 2 bytes
            out.append(request_s(work, max(weights * work.prompt / flops / reach, weights / rate / moves), step) / copies)
        else:
            out.append(max(weights * work.seq * work.batch / flops / reach, weights / rate / moves) / work.batch / copies)
    return banded(out, "roofline", f"roofline of the maker's peaks, {SHARE['decode'][0]:.2f}-{SHARE['decode'][2]:.2f} of them, batch {work.batch}")


def given(rows, machine):
    """The user's own: a number, or low, likely and high."""
    row = rows[machine["name"]]
    row = [row * 0.9, row, row * 1.1] if isinstance(row, (int, float)) else row
    if not isinstance(row, list) or len(row) != 3 or not all(isinstance(x, (int, float)) and 0 < x < float("inf") for x in row) or row != sorted(row):
        raise Stop(USAGE, f"--speeds, {machine['name']}: found {row}, expected results a second, or [low, likely, high]")
    return Speed(*row, "given", "given by the user")


def peer_speeds(work, machine, files):
    """Every kind of speed there is of a machine that is not modelled, by kind."""
    found = {"measured": measured(work, machine, files), "published": published(work, machine), "roofline": roofline(work, machine)}
    return {kind: speed for kind, speed in found.items() if speed}


def kinds_of(speeds, only):
    """The order in which kinds are taken. A published row has its own batch and precision: where one peer was measured at
    the batch asked for, the others are compared at that batch too, and published rows stand beside."""
    if only:
        return (only,)
    return ("measured", "roofline", "published") if any("measured" in s for s in speeds.values()) else ("measured", "published", "roofline")


def modelled_speed(work, machine, limit_ms, tp):
    """(Speed, "") or (None, why there is none)."""
    found = modelled(work, machine, tp)
    if found is None:
        return None, "does not fit"
    if limit_ms and found[1] > limit_ms:
        return None, f"p99 of a step is {found[1]:.1f} ms, over the {limit_ms:g} ms asked for"
    return found[0], ""


def all_speeds(work, machines, files, rows, only, limit_ms, tp=None):
    """{machine: (Speed or None, why there is none, other kinds that there are)}; `rows` are the user's own."""
    peers = {m["name"]: peer_speeds(work, m, files) for m in machines if not m.get("modelled") and m["name"] not in rows}
    order, out = kinds_of(peers, only), {}
    for machine in machines:
        name = machine["name"]
        if name in rows:
            out[name] = (given(rows, machine), "", [])
        elif name in peers:
            speed = next((peers[name][kind] for kind in order if kind in peers[name]), None)
            others = [s.numbers() for s in peers[name].values() if s is not speed]
            out[name] = (speed, "" if speed else f"no {only or 'measured, published or roofline'} speed of {work.name}", others)
        else:
            out[name] = (*modelled_speed(work, machine, limit_ms, tp), [])
    return out
