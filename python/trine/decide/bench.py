"""`trine bench`: the checklist of a benchmark for a model, a server or a function, as one report.

What runs here is measured in host time (`host`); what a chip would take is predicted (`chip`). No number mixes the two.
"""

import importlib.util
import json
import math
import sys
import time
import traceback
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

import numpy

from trine.command import CHECK_FAILED, OK, OUTSIDE, UNSUPPORTED, USAGE, Stop, note
from trine.decide import bench_load as load
from trine.decide.prices import Prices

SHARES = (0.2, 0.4, 0.6, 0.8, 0.9, 1.1)  # of capacity, for the load curve
FAULT_S = 60.0  # from a fault to its repair: detection, restart, loading; an estimate


def _users_line(e):
    """Where in the user's file it was raised."""
    frames = [f for f in traceback.extract_tb(e.__traceback__) if not f.filename.startswith("<") and f.filename != __file__]
    return f" (line {frames[-1].lineno}: {frames[-1].line})" if frames else ""


def last_ms(took):
    """When the last that was answered was; None where all were lost."""
    fine = [t for t in took if not math.isnan(t)]
    return 1e3 * max(fine) if fine else None


def function_of(target):
    """(the call, seconds to import it) of FILE.py:NAME."""
    path, _, name = target.rpartition(":")
    if not path or not Path(path).is_file():
        raise Stop(USAGE, f"found {target}, expected FILE.py:FUNCTION of a file that is there, or http://…")
    begin = time.perf_counter()
    spec = importlib.util.spec_from_file_location("benched", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as e:  # the user's own, whatever it is
        raise Stop(UNSUPPORTED, f"{path} raised {type(e).__name__}: {e}{_users_line(e)}; expected a file that can be imported") from None
    if not callable(getattr(module, name, None)):
        raise Stop(USAGE, f"{path}: found no function {name}, expected one that takes no arguments and does one inference")
    return getattr(module, name), time.perf_counter() - begin


def request_of(url, body):
    """A call that sends one request and reads all of the answer. A server of this machine that wants a key gets that of `trine serve`."""
    data = Path(body).read_bytes() if body else None
    headers = {"Content-Type": "application/json"} if data else {}

    def call():
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=120) as answer:  # noqa: S310
            return answer.read()

    def first():
        try:
            return call()
        except urllib.error.HTTPError as e:
            key = own_key(url) if e.code == 401 and "Authorization" not in headers else ""
            if not key:
                raise
            headers["Authorization"] = f"Bearer {key}"
            return call()

    return first


def own_key(url):
    """The key that `trine serve` made for this user; only for loopback, where it was asked for."""
    from trine.serve.opening import key_path

    if urllib.parse.urlsplit(url).hostname not in ("127.0.0.1", "::1", "localhost") or not key_path().is_file():
        return ""
    return key_path().read_text().strip()


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


def host_report(asked, call, loaded_s):
    """What runs here: cold start, single calls, load, bursts; all in host time."""
    begin = time.perf_counter()
    try:
        out = call()
    except (urllib.error.URLError, OSError) as e:
        raise Stop(OUTSIDE, f"{asked.words[0]}: {e}") from None
    except Exception as e:  # the user's own
        raise Stop(UNSUPPORTED, f"{asked.words[0]} raised {type(e).__name__}: {e}{_users_line(e)}; expected a function that takes no arguments and does one inference") from None
    cold = {"load_s": loaded_s, "first_call_s": time.perf_counter() - begin}
    singles, end = [], time.perf_counter() + asked.seconds
    while time.perf_counter() < end or len(singles) < 5:
        at = time.perf_counter()
        try:
            call()
        except Exception as e:  # under load a failed call is a lost request; one by one there is nothing to measure
            raise Stop(OUTSIDE, f"{asked.words[0]} failed at call {len(singles) + 2}: {type(e).__name__}: {e}") from None
        singles.append(time.perf_counter() - at)
    able, harness = asked.workers / float(numpy.median(singles)), load.most_rate(asked.workers) / 2
    capacity, curve = min(able, harness), []
    for share in (0.3, 0.6, 0.9):
        rate = asked.rate or share * capacity
        times = load.arrivals(max(10, int(rate * asked.seconds)), rate, asked.seed)
        took, late, errors = load.run_open(call, times, asked.workers)
        curve.append({"offered_per_s": rate, "served_per_s": (len(times) - len(errors)) / (float(times[-1]) + 1e-3 * (last_ms(took) or 0.0)), "latency": load.summary(took),
                      "begun_late_p99_ms": 1e3 * float(numpy.percentile(late, 99)), "lost": len(errors), "errors": errors[:3]})  # fmt: skip
        if asked.rate:
            break
    took, _, errors = load.run_open(call, [0.0] * asked.burst, asked.workers)
    report = {"time": "host", "cold_start": cold, "single": load.summary(singles), "load": curve, "limited_by": "this machine's clock" if harness < able and not asked.rate else "the calls",
              "burst": {"requests": asked.burst, "last_ms": last_ms(took), "lost": len(errors), "latency": load.summary(took)}}  # fmt: skip
    if asked.reference:
        report["fidelity"] = fidelity(out, asked.reference)
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
    except (models.ConfigError, ValueError, OSError) as e:
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


def run(asked):
    if asked.words == ["serve"]:
        from trine.serve.twin import run as served

        return served(asked)
    if not asked.words and not asked.config:
        raise Stop(USAGE, "nothing to bench: give FILE.py:FUNCTION, http://…, or --config for chip time")
    report = {"version": 1, "kind": "bench"}
    if asked.words:
        target = asked.words[0]
        call, loaded = (request_of(target, asked.body), 0.0) if target.startswith(("http://", "https://")) else function_of(target)
        report["host"] = host_report(asked, call, loaded)
        if asked.loadgen:
            from trine.decide.bench_loadgen import scenario

            report["host"]["loadgen"] = scenario(call, asked.loadgen, asked.rate, asked.seconds, asked.workers)
    if asked.config:
        report["chip"] = chip_report(asked, Prices(asked.trine))
    from trine.decide import bench_report

    if asked.html:
        Path(asked.html).write_text(bench_report.page(report))
        note(f"page → {asked.html}")
    print(json.dumps(report, indent=2) if asked.json else bench_report.text(report))
    lost = report.get("host", {}).get("fidelity") and not all(r["relative"] is None or r["relative"] < asked.tolerance for r in report["host"]["fidelity"])
    return CHECK_FAILED if lost else OK
