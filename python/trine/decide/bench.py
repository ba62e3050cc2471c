"""`trine bench`: the checklist of a benchmark for a model, a server or a function (bench_target.py), as one report.

What runs here is measured in host time (`host`); what a chip would take is predicted (`chip`). No number mixes the two.
"""

import json
import math
import tempfile
import time
import urllib.error
import zipfile

import numpy

from trine.command import CHECK_FAILED, OK, OUTSIDE, UNSUPPORTED, USAGE, Stop
from trine.decide import bench_load as load
from trine.decide.bench_target import target_of, users_line
from trine.decide.paper import saved, write
from trine.decide.prices import Prices

SHARES = (0.2, 0.4, 0.6, 0.8, 0.9, 1.1)  # of capacity, for the load curve
FAULT_S = 60.0  # from a fault to its repair: detection, restart, loading; an estimate


def last_ms(took):
    """When the last that was answered was; None where all were lost."""
    fine = [t for t in took if not math.isnan(t)]
    return 1e3 * max(fine) if fine else None


def fidelity(out, path):
    """Of a function's results against the arrays of an .npz, in their order."""
    try:
        with numpy.load(path, allow_pickle=False) as held:
            wanted = [held[name] for name in held.files]
    except (ValueError, AttributeError, zipfile.BadZipFile) as e:
        raise Stop(USAGE, f"{path}: found {e}, expected the .npz that numpy.savez writes") from None
    found = [numpy.asarray(x) for x in (out if isinstance(out, (tuple, list)) else [out])]
    if [a.shape for a in found] != [b.shape for b in wanted]:
        raise Stop(CHECK_FAILED, f"{path}: found shapes {[a.shape for a in found]}, expected {[b.shape for b in wanted]}")
    rows = []
    for a, b in zip(found, wanted, strict=True):
        x, y = a.astype(numpy.float64), b.astype(numpy.float64)
        ulp = numpy.abs(x - y) / numpy.maximum(numpy.spacing(numpy.abs(b.astype(numpy.float32))), numpy.finfo(numpy.float32).tiny)
        norm = float(numpy.linalg.norm(y))
        rows.append({"shape": list(a.shape), "bit_exact": bool((a == b).all()), "max_ulp_f32": float(ulp.max(initial=0)), "max_abs": float(numpy.abs(x - y).max(initial=0)),
                     "relative": float(numpy.linalg.norm(x - y)) / norm if norm else None})  # fmt: skip
    return rows


def first_calls(asked, target):
    """(what it gave, cold start, seconds of calls one by one, of their first tokens where there are any)."""
    word, begin = asked.words[0], time.perf_counter()
    try:
        out = target()
    except (urllib.error.URLError, OSError) as e:
        raise Stop(OUTSIDE, f"{word}: {e}") from None
    except Exception as e:  # the user's own
        raise Stop(UNSUPPORTED, f"{word} raised {type(e).__name__}: {e}{users_line(e)}; expected a function that takes no arguments and does one inference") from None
    cold = {"load_s": target.load_s, "first_call_s": time.perf_counter() - begin}
    cold |= {key: seconds[0] for key, seconds in target.first_tokens().items()}
    singles, end = [], time.perf_counter() + asked.seconds
    while time.perf_counter() < end or len(singles) < 5:
        at = time.perf_counter()
        try:
            target()
        except Exception as e:  # under load a failed call is a lost request; one by one there is nothing to measure
            raise Stop(OUTSIDE, f"{word} failed at call {len(singles) + 2}: {type(e).__name__}: {e}") from None
        singles.append(time.perf_counter() - at)
    return out, cold, singles


def firsts(target):
    """{"first_token": percentiles} of the calls since this was last asked; nothing of what does not stream."""
    return {"first_token": load.summary(seconds) for seconds in target.first_tokens().values()}


def offered(asked, target, capacity):
    """The load curve, of the rate that was asked for or of shares of what it can."""
    curve = []
    for share in (0.3, 0.6, 0.9):
        rate = asked.rate or share * capacity
        times = load.arrivals(max(10, int(rate * asked.seconds)), rate, asked.seed)
        took, late, errors = load.run_open(target, times, asked.workers)
        curve.append({"offered_per_s": rate, "served_per_s": (len(times) - len(errors)) / (float(times[-1]) + 1e-3 * (last_ms(took) or 0.0)), "latency": load.summary(took),
                      "begun_late_p99_ms": 1e3 * float(numpy.percentile(late, 99)), "lost": len(errors), "errors": errors[:3], **firsts(target)})  # fmt: skip
        if asked.rate:
            break
    return curve


def host_report(asked, target):
    """What runs here: cold start, single calls, load, bursts, LoadGen's scenario and faults; all in host time."""
    out, cold, singles = first_calls(asked, target)
    alone = firsts(target)
    able, harness = asked.workers / float(numpy.median(singles)), load.most_rate(asked.workers) / 2
    capacity = min(able, harness)
    curve = offered(asked, target, capacity)
    took, _, errors = load.run_open(target, [0.0] * asked.burst, asked.workers)
    report = {"time": "host", "cold_start": cold, "single": load.summary(singles) | alone, "load": curve, "limited_by": "this machine's clock" if harness < able and not asked.rate else "the calls",
              "burst": {"requests": asked.burst, "last_ms": last_ms(took), "lost": len(errors), "latency": load.summary(took)}}  # fmt: skip
    if asked.reference:
        report["fidelity"] = fidelity(out, asked.reference)
    if asked.loadgen:
        from trine.decide.bench_loadgen import scenario

        rate = asked.rate or (0.6 * capacity if asked.loadgen == "server" else None)
        report["loadgen"] = scenario(target, asked.loadgen, rate, asked.seconds, asked.workers, asked.slo_ms)
    if asked.faults:
        from trine.decide.bench_faults import failures

        report["failures"] = failures(target, asked, capacity)
    return report


def answer_of(asked):
    """The estimate that the chip's times come from."""
    import os

    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from trine import models
    from trine.estimate.answer import ask, estimate_asked

    try:
        config = models.load_config(asked.config)
        config.setdefault("_name_or_path", str(asked.config).rsplit("/", 1)[-1].removesuffix(".json"))
        wanted = ask(config, instance=asked.instance, phase=asked.phase, batch=asked.batch, seq=asked.seq, tp=asked.tp)
    except (models.ConfigError, ValueError) as e:
        raise Stop(UNSUPPORTED, str(e)) from None
    large = wanted.too_large()
    if large:
        raise Stop(UNSUPPORTED, f"{asked.config} does not fit {asked.instance} at tp {asked.tp}; --tp {large.fits_at_tp} would")
    begin = time.perf_counter()
    found = estimate_asked(wanted)
    return found, time.perf_counter() - begin


def faults_of(exposed, copies_each, nodes, begin):
    """The three that are tried: a node is lost, a link runs at half its rate, a core is throttled to half.
    `exposed`: share of a call in which collectives are waited for."""
    end = begin + FAULT_S
    every = set(range(copies_each * nodes))
    return {"node lost": load.Fault(begin, end, set(range(copies_each)), 0.0), "link at half its rate": load.Fault(begin, end, every, 1 + exposed),
            "core throttled to half": load.Fault(begin, end, {0}, 2.0)}  # fmt: skip


def under_load(service, copies_each, nodes, batch, exposed, asked):
    """Copies of a model whose call takes `service` chip seconds: a load curve, a burst, and three faults, simulated."""
    copies = copies_each * nodes
    capacity = copies * batch / service
    curve = []
    for share in SHARES:
        times = load.arrivals(asked.requests, share * capacity, asked.seed)
        took = load.queue(times, copies, batch, service)
        met = float((took <= asked.slo_ms * 1e-3).mean()) if asked.slo_ms else None
        curve.append({"offered_per_s": share * capacity, "served_per_s": asked.requests / float((times + took).max()), "latency": load.summary(took), "within_slo": met})
    burst = load.queue(numpy.zeros(asked.burst), copies, batch, service)
    rate, failures = 0.6 * capacity, {}
    count = min(400_000, max(asked.requests, int(rate * 3 * FAULT_S)))
    times = load.arrivals(count, rate, asked.seed)
    begin = float(times[-1]) / 4
    for name, fault in faults_of(exposed, copies_each, nodes, begin).items():
        took = load.queue(times, copies, batch, service, [fault])
        struck = took[(times >= begin) & (times < fault.end)]
        seen = {"lost": int(numpy.isnan(took).sum()), "recovered_after_s": load.recovery(times, took, begin), "repaired_after_s": FAULT_S}
        failures[name] = seen | {"p99_ms_while": load.summary(struck).get("p99_ms"), "seen_to_s": float(times[-1]) - begin}
    return {"capacity_per_s": capacity, "load": curve, "failures": failures,
            "burst": {"requests": asked.burst, "last_ms": 1e3 * float(burst.max()), "latency": load.summary(burst)}}  # fmt: skip


def chip_report(asked, prices):
    """What the chips would do: the predicted time of a call, and a queue in chip time before copies of it."""
    answer, compile_s = answer_of(asked)
    if asked.slo_ms and answer.likely_ms > asked.slo_ms:
        raise Stop(CHECK_FAILED, f"found --slo-ms {asked.slo_ms:g}, expected no less than {answer.likely_ms:.3g}: a call alone takes that on {asked.instance}")
    found = under_load(answer.likely_ms * 1e-3, answer.copies, asked.nodes, asked.batch, answer.collectives_ms / answer.likely_ms, asked)
    cost = answer.cost()
    sent = asked.bytes_per_request / 1e9 * prices.inputs["egress_usd_per_gb"]["is"] * 1e6
    rents = [{"way": r["way"], "usd_per_million": r["usd_per_million"], "with_egress_per_million": r["usd_per_million"] + sent} for r in cost["rents"]]
    times_ms = answer.times()
    return {
        "time": "chip", "instance": asked.instance, "model": answer.title, "copies": answer.copies * asked.nodes, "nodes": asked.nodes, "batch": asked.batch, "result": "call's results",
        "call_ms": {k: times_ms[k] for k in ("p50", "low", "high")}, **found,
        "cold_start": {"weight_bytes": answer.memory["weights"], "compile_host_s": compile_s, "first_call_ms": times_ms["p50"]},
        "cost": {"rents": rents, "egress_usd_per_million": sent, "storage_usd_per_month": answer.memory["weights"] / 1e9 * prices.inputs["storage_usd_per_gb_month"]["is"]},
        "energy": {k: cost[k] for k in cost if k.startswith(("wall_", "pue"))},
    }  # fmt: skip


def measured(asked):
    """The report of what runs here; what was started for it ends with it."""
    with tempfile.TemporaryDirectory(prefix="trine-bench-") as folder:
        target = target_of(asked, folder)
        try:
            return host_report(asked, target)
        finally:
            target.close()


def run(asked):
    if asked.words == ["serve"] and not asked.model:
        from trine.serve.twin import run as served

        return served(asked)
    if not asked.words and not asked.config:
        raise Stop(USAGE, "nothing to bench: give FILE.py:FUNCTION, http://…, serve --model MODEL, or --config for chip time")
    if asked.model and asked.words != ["serve"]:
        raise Stop(USAGE, "found --model without serve, expected: trine bench serve --model MODEL")
    report = {"version": 1, "kind": "bench"}
    if asked.words:
        report["host"] = measured(asked)
    if asked.config:
        report["chip"] = chip_report(asked, Prices(asked.trine))
    from trine.decide import bench_report

    print(json.dumps(report, indent=2) if asked.json else bench_report.text(report))
    there = not asked.html or saved(asked.html, lambda path: write(path, bench_report.page(report)))
    lost = report.get("host", {}).get("fidelity") and not all(r["relative"] is None or r["relative"] < asked.tolerance for r in report["host"]["fidelity"])
    return CHECK_FAILED if lost else OK if there else OUTSIDE
