"""Training as a workload: what a run costs, its inputs and lines, and how many tokens a second a machine of a job trains.

A job holds its machines until all tokens are read; a stop of one device stops all of them, back to the last checkpoint. Peers
beyond one machine are taken to lose nothing to the network, which is in their favour.
"""

import dataclasses
import hashlib
import json
import math
from pathlib import Path

from trine.command import UNSUPPORTED, USAGE, Stop, note
from trine.decide.tco_model import LINES, SHARED, Input
from trine.decide.tco_speed import REPEATS, ROUNDS, SAME_SHAPES, Speed, given

SEQ, GLOBAL_BATCH = 4096, 1024
MOST_NODES = 64  # to which a model that does not fit is spread
# Of the dense bf16 peak, low, likely, high: an H200 reaches 0.39 and 0.46 (our measured rows of Llama-3-8B and 3.2-1B); Llama 3 was
# trained at 0.38 to 0.43 of H100s' (its report).
SHARE = (0.25, 0.40, 0.50)
SCALED = (0.80, 0.92, 1.0)  # of eight times one GPU, where one was measured: gradients are summed beside the way back; an estimate
STATE_BYTES = 16  # a parameter: bf16 with its gradient, and in f32 two moments and a copy
OWN = [
    ("tokens", None, 1e12, None, "tokens that are read, of all runs", "asked"),
    ("goodput", 0.88, 0.95, 0.99, "of a run's hours in which steps are made, beside stops: data, evaluation, saving", "estimate"),
    ("checkpoint_hours", 0.25, 1.0, 4.0, "h between checkpoints; half of it is lost with a stop", "estimate"),
    ("stored_gb", 500, 5000, 50000, "GB", "estimate: data and checkpoints"),
]
ALIKE = ("months", "price_drift", "device_hours_per_stop", "recovery_hours", "spares", "spot_loss", "upkeep_hours_per_month", "owned_months",
        "server_factor", "service_share", "pue")  # fmt: skip
TRAIN_SHARED = [row for row in SHARED if row[0] in ALIKE] + OWN
SAME = {name: (unit, expression) for name, unit, expression in LINES}
# Of a machine as in LINES, and nodes, block (paid for whole days of the run), held (paid for all months).
TRAIN_LINES = [
    ("hours", *SAME["hours"]),
    ("job_tokens_per_s", "tokens/s", "nodes * tokens_per_s"),
    ("stops_per_hour", "1/h", "nodes * chips / device_hours_per_stop"),
    ("lost_to_stops", "share", "stops_per_hour * (recovery_hours + checkpoint_hours / 2)"),
    ("run_hours", "h", "tokens / job_tokens_per_s / 3600 / goodput * (1 + lost_to_stops)"),
    ("run_days", "days", "run_hours / 24"),
    ("machine_hours", "h", "nodes * where(held > 0, max(hours, run_hours), where(block > 0, ceil(run_days) * 24, run_hours))"),
    ("paid_hours", "h", "machine_hours * (1 + spares + spot * spot_loss)"),
    ("drift", "factor", "where(price_drift != 0, ((1 + price_drift) ** (run_hours / 8760) - 1) / (log(1 + price_drift) * run_hours / 8760), 1)"),
    ("rent_usd", *SAME["rent_usd"]),
    ("owned_usd", "USD", "owned * buy_usd * server_factor * nodes * (1 + spares) * months * (1 / owned_months + service_share / 12)"),
    ("power_usd", "USD", "owned * nodes * run_hours * watts * server_factor / 1000 * pue * power_usd_per_kwh"),
    ("storage_usd", *SAME["storage_usd"]),
    ("compile_usd", "USD", "compile_hours * nodes * usd_per_hour"),
    ("port_usd", *SAME["port_usd"]),
    ("upkeep_usd", "USD", "ported * upkeep_hours_per_month * run_hours / 730 * engineer_usd_per_hour"),
    ("total_usd", "USD", "rent_usd + owned_usd + power_usd + storage_usd + compile_usd + port_usd + upkeep_usd"),
    ("usd_per_million_tokens", "USD", "total_usd / (tokens / 1e6)"),
]  # fmt: skip


@dataclasses.dataclass
class Training:
    """A run: the model, its sequences, how many make a step, and over how many machines where that was asked for."""

    config: dict
    name: str
    seq: int
    global_batch: int
    tokens: float
    months: float
    nodes: int | None = None
    tp: int | None = None
    pp: int | None = None

    def nodes_for(self, per_machine):
        """Machines that read all tokens in time, a power of two, at so many tokens a second of each."""
        goodput = next(row[2] for row in OWN if row[0] == "goodput")
        needed = self.tokens / (per_machine * goodput * self.months * 730 * 3600)
        return self.nodes or 2 ** max(0, math.ceil(math.log2(needed)))


def load(asked):
    """The run that was asked for; its tokens by themselves, by steps, or by days."""
    from trine.decide.tco_speed import load_workload

    given_as = [n for n in ("tokens", "steps", "tokens_per_day") if getattr(asked, n)]
    if len(given_as) != 1:
        raise Stop(USAGE, f"--train: found {', '.join('--' + n.replace('_', '-') for n in given_as) or 'no number of tokens'}, expected one of --tokens, --steps, --tokens-per-day")
    seq, batch = asked.seq or SEQ, asked.global_batch or GLOBAL_BATCH
    tokens = asked.tokens or (asked.steps or 0) * batch * seq or asked.tokens_per_day * asked.months * 365 / 12
    work = load_workload(asked)
    if not work.writes:
        raise Stop(UNSUPPORTED, f"--train: found {work.name}, expected a decoder: tokens of other models are not counted")
    return Training(work.config, work.name, seq, batch, float(tokens), asked.months, asked.nodes, asked.tp, asked.pp)


def decided_by():
    """Of what an estimate's numbers follow from: the compiler as it was built, and Python's sources with their tables."""
    from trine import _core

    digest, root = hashlib.sha256(), Path(__file__).parents[1]
    sources = sorted(p for folder in ("estimate", "models") for p in (root / folder).rglob("*") if p.suffix in (".py", ".json"))
    for path in [Path(_core.__file__), *sources]:
        digest.update(path.read_bytes())
    return f"training layouts {digest.hexdigest()[:16]}"


def searched(work, instance, nodes, **fixed):
    """What `trine estimate --json` prints of the fastest layout of so many instances, as --search finds it, or of the one
    given. It is kept in the compile cache: a second time nothing is compiled or timed."""
    from trine import _core
    from trine.estimate.answer import estimate
    from trine.estimate.search import search

    how = {"instance": instance, "phase": "train", "seq": work.seq, "nodes": nodes, "global_batch": work.global_batch}
    how |= fixed or {"batch": 1, "tp": work.tp or 1, "pp": work.pp}
    text, state = json.dumps([work.config, how], sort_keys=True, default=str), decided_by()
    if (stored := _core.cache_get(text, state)) is not None:
        return json.loads(stored)
    found = estimate(work.config, **how) if fixed else search(work.config, quick=True, say=lambda words: note(f"{instance}: {words}"), **how)
    made = json.dumps(found.as_dict())
    _core.cache_put(text, state, f"a layout to train {work.name} on {nodes} {instance}", made.encode())
    return json.loads(made)


def modelled(work, machine):
    """(Speed of one machine of the job, nodes), or (None, why not). The layout is searched on the fewest machines that hold it."""
    from trine import models

    name, why, least = machine["name"], "", work.nodes or 1
    while least <= (work.nodes or MOST_NODES):
        note(f"{name}: searching a layout on {least}")
        try:
            found = searched(work, name, least)
            break
        except models.ConfigError as e:
            why, least = str(e), 2 * least
    else:
        return None, why
    rate = found["throughput_per_s"] * work.seq / least
    nodes, p = max(least, work.nodes_for(rate)), found["training"]
    if nodes > least:
        note(f"{name}: timing that layout on {nodes}")
        try:
            found = searched(work, name, nodes, tp=found["tp"], batch=found["batch"], **{k: p[k] for k in ("pp", "chunks", "zero", "recompute")})
            rate, p = found["throughput_per_s"] * work.seq / nodes, found["training"]
        except models.ConfigError as e:
            return None, str(e)
    times = found["latency_ms"]
    basis = f"modelled, {found['calibration']['cases']} published times of its class, tp {found['tp']}, pp {p['pp']}, dp {p['copies']}, zero {p['zero']}, {found['mfu_pct']:.0f} % MFU"
    speed = Speed(rate * times["p50"] / times["high"], rate, rate * times["p50"] / times["low"], "modelled", basis)
    return dataclasses.replace(speed, estimates=(found,)), nodes


def measured(work, machine, files):
    """A training step of one such GPU, times the machine's: the best mode, at its own batch and sequence."""
    wanted = SAME_SHAPES.get(work.name, work.name)
    for path, report in files[::-1]:
        gpu = (report.get("machine") or {}).get("gpu", "")
        rows = [r for r in report["rows"] if r["ok"] and r["model"] == wanted and r["phase"] == "train" and r["dtype"] == "bf16"]
        if machine["family"] not in gpu.split() or not rows:
            continue
        row = max(rows, key=lambda r: r["steady"]["items_per_s"])
        rate = machine["chips"] * row["steady"]["items_per_s"]
        ends = (SCALED[0] / (1 + REPEATS), SCALED[1], SCALED[2] * (1 + REPEATS)) if machine["chips"] > 1 else (1 / (1 + REPEATS), 1, 1 + REPEATS)
        words = f"measured on one, {gpu}, {report['date'][:10]}, {row['row']}" + (f", times {machine['chips']}, {SCALED[0]:.2f}-{SCALED[2]:.2f} of it" if machine["chips"] > 1 else "")
        return Speed(*(rate * e for e in ends), "measured", words)
    return None


def published(work, machine):
    wanted = SAME_SHAPES.get(work.name, work.name)
    for row in machine.get("trained", []):
        if row["model"] == wanted:
            rate = row["tokens_per_s"]
            return Speed(rate * (1 - ROUNDS), rate, rate * (1 + ROUNDS), "published", row["what"])
    return None


def roofline(work, machine):
    """FLOPs of a token, three times those of reading it, over the maker's peak, of which training reaches a share."""
    from trine.estimate import cached

    model = cached.build(work.config, "bfloat16")
    s, count = model.settings, cached.parameters_count(model)
    if getattr(s, "experts", 0):
        return None  # of whose parameters a token meets a few
    flops = 6 * count + 6 * s.layers * s.width * work.seq  # multiplies of weights; of attention, half of whose scores are masked
    rate = machine["chips"] * machine["bf16_tflops"] * 1e12 / flops
    return Speed(*(rate * share for share in SHARE), "roofline", f"roofline: {SHARE[0]:.2f}-{SHARE[2]:.2f} of the maker's bf16 peak")


def least_nodes(work, machine):
    """Machines whose memory holds parameters, gradients and the optimiser's state, with a fifth left for the rest."""
    from trine.estimate import cached

    count = cached.parameters_count(cached.build(work.config, "bfloat16"))
    return 2 ** max(0, math.ceil(math.log2(STATE_BYTES * count / (0.8 * machine["chips"] * machine["hbm_gb"] * 1e9))))


def speeds(work, machines, files, rows, only):
    """{machine: (Speed or None, why there is none, other kinds, nodes)}."""
    from trine.decide.tco_speed import kinds_of
    from trine.estimate.program import shared

    peers = {}
    for m in machines:
        if not m.get("modelled") and m["name"] not in rows:
            kinds = {"measured": measured(work, m, files), "published": published(work, m), "roofline": roofline(work, m)}
            peers[m["name"]] = {kind: speed for kind, speed in kinds.items() if speed}
    order, out = kinds_of(peers, only), {}
    for m in machines:
        name, others = m["name"], []
        if name in rows:
            speed = given(rows, m)
            nodes = work.nodes_for(speed.likely)
        elif name in peers:
            speed = next((peers[name][kind] for kind in order if kind in peers[name]), None)
            others = [s.numbers() for s in peers[name].values() if s is not speed]
            nodes = max(least_nodes(work, m), work.nodes_for(speed.likely)) if speed else f"no {only or 'measured, published or roofline'} speed of training {work.name}"
        else:
            with shared():  # the layout on few machines and on many is made of the same programs
                speed, nodes = modelled(work, m)
        out[name] = (speed, "", others, nodes) if speed else (None, nodes, [], 0)
    return out


def trained(machine, nodes):
    """A machine of the model as one of a job."""
    flags = {"nodes": nodes, "block": int(machine.rent == "capacity block"), "held": int(machine.rent in ("reserved", "reserved, 3 years", "owned"))}
    once = dataclasses.replace(machine.inputs["compile_hours"], unit="machine hours, once")
    inputs = machine.inputs | {"compile_hours": once} | {n: Input(n, v, v, v, "machines that train together" if n == "nodes" else "", "") for n, v in flags.items()}
    return dataclasses.replace(machine, inputs=inputs, lines=TRAIN_LINES)
