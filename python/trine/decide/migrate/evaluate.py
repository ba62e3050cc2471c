"""What is tried in chip time, cell by cell, and what follows: a recommendation, the runner-up, and what would flip it."""

import datetime

from trine.command import UNSUPPORTED, Stop
from trine.decide import bench_load, tco, tco_speed, tco_study
from trine.decide.migrate import decoder
from trine.decide.migrate.baseline import machine_row
from trine.decide.migrate.project import PRECISIONS
from trine.decide.tco_model import shared_inputs

DRAWS, SEED, QUEUED = 4000, 0, 5000


def cells(project):
    return [(i, p, b) for i in project.trial["instances"] for p in project.trial["precisions"] for b in project.trial["batches"]]


def time_cell(project, module, cell, cores_of):
    """One program on one core, timed; every core of the instance has a copy."""
    from trine import reports
    from trine.decide.audit.dry_run import read_inputs

    instance, precision, batch = cell
    args, kwargs = read_inputs(project.inputs_of(batch))
    row = {"instance": instance, "precision": precision, "batch": batch}
    module.train(project.project["train"])
    try:
        report = reports.report(module, *args, instance=instance, train=project.project["train"], auto_cast=PRECISIONS[precision], **kwargs)
    except (ValueError, RuntimeError, MemoryError, TypeError) as e:
        return row | {"why_not": f"{type(e).__name__}: {str(e).strip().splitlines()[0] if str(e).strip() else ''}"}
    cores, low_high = cores_of(instance), report.band or (report.time_ns, report.time_ns)
    return row | {"call_ms": report.time_ns * 1e-6, "band_ms": [low_high[0] * 1e-6, low_high[1] * 1e-6], "bound": report.bound, "cores": cores, "copies": cores,
                  "items_per_s": [cores * batch / (t * 1e-9) for t in (low_high[1], report.time_ns, low_high[0])]}  # fmt: skip


def with_load(row, project, machines):
    """p99 where requests come at random on as many machines as they need at 60 % of their rate."""
    rate = project.traffic["items_per_day"] / 86400
    copies = row["cores"] * machines
    times = bench_load.arrivals(QUEUED, rate, SEED)
    took = bench_load.queue(times, copies, row["batch"], row["call_ms"] * 1e-3)
    return bench_load.summary(took)["p99_ms"]


def machines_for(row, project):
    rate = project.traffic["items_per_day"] / 86400
    return max(1, -(-rate // (0.6 * row["items_per_s"][1])))


def p99_of(row, project, count):
    if project.is_decoder:
        return row["step_p99_ms"]
    return row["call_ms"] if project.project["train"] else with_load(row, project, count)


def slow(row, project):
    """Why a timed row does not hold the traffic, else nothing."""
    if project.is_decoder:
        return decoder.why_not(row, project.traffic)
    limit = project.traffic["p99_ms"]
    return f"p99 {row['p99_ms']:.3g} ms, over the {limit:g} ms asked for" if limit and row["p99_ms"] > limit else ""


def rent_of(instance, prices, months):
    """On demand, or where that is not sold the cheapest that is taken for so many months; as tco.chosen has it."""
    rents = {rent: p for rent, p in prices.hourly.get(instance, {}).items() if rent not in tco.too_long(months)}
    return rents.get("on-demand") or min(rents.values(), key=lambda p: p["usd_per_hour"], default=None)


def judged(rows, project, prices):
    """Rows with p99, machines, dollars for a million items, and why one is out."""
    out = []
    for row in rows:
        if "why_not" in row:
            out.append(row)
            continue
        count = int(machines_for(row, project))
        hourly = rent_of(row["instance"], prices, project.traffic["months"])
        row = row | {"machines": count, "p99_ms": p99_of(row, project, count)}
        if hourly:
            row |= {"usd_per_million": hourly["usd_per_hour"] / 3600 / row["items_per_s"][1] * 1e6, "way": hourly["way"]}
        why = slow(row, project) or ("" if hourly else "no price known: --prices FILE gives one")
        out.append(row | {"why_not": why} if why else row)
    return out


def cheapest(rows):
    """Of each instance the cheapest way; ties go to the shorter call."""
    best = {}
    for row in rows:
        key = (row["usd_per_million"], row["call_ms"])
        if row["instance"] not in best or key < (best[row["instance"]]["usd_per_million"], best[row["instance"]]["call_ms"]):
            best[row["instance"]] = row
    return best


def machine_of(name, row, prices, hours, shared):
    chip, chips = prices.chips[name]
    shape = f", tp {row['tp']}, window {row['context']}, {row['copies']} copies" if "tp" in row else f", one copy on each of {row['cores']} cores"
    speed = tco_speed.Speed(*row["items_per_s"], "modelled", f"modelled, batch {row['batch']}, {row['precision']}{shape}")
    listed = {"name": name, "family": chip.capitalize(), "chips": chips, "modelled": True}
    return tco.chosen(listed, prices, speed, hours, shared, "on-demand") or tco.chosen(listed, prices, speed, hours, shared, None)


def flips_between(shared, machines, order):
    """Where the runner-up would be the cheaper of the two, one input at a time."""
    by_name = {m.name: m for m in machines}
    return tco_study.break_evens(shared, by_name[order[0]], by_name[order[1]]) if len(order) > 1 else []


def evaluate(project, rows, baseline, hours, prices):
    rows = judged(rows, project, prices)
    best = cheapest([r for r in rows if "why_not" not in r])
    if not best:
        reasons = sorted({r["why_not"] for r in rows})
        raise Stop(UNSUPPORTED, f"nothing that was tried holds: {'; '.join(reasons)}")
    shared = shared_inputs({"months": project.traffic["months"], "tokens_per_day": float(project.traffic["items_per_day"])}, prices)
    machines = [m for name, row in best.items() if (m := machine_of(name, row, prices, hours, shared))]
    if not machines:
        raise Stop(UNSUPPORTED, f"no way to rent {', '.join(best)} for {project.traffic['months']:g} months has a price: --prices FILE gives one")
    gpu = machine_row(baseline["machine"])
    speed = tco_speed.Speed(*(gpu["chips"] * r for r in baseline["items_per_s"]), baseline["kind"], baseline["basis"])
    theirs = tco.chosen(gpu, prices, speed, hours, shared, "on-demand") or tco.chosen(gpu, prices, speed, hours, shared, None)
    if theirs:
        machines.append(theirs)
    found, _ = tco.weighed(shared, machines, DRAWS, SEED)
    order = [r["machine"] for r in found["rows"] if r["machine"] in best]
    out = {"cells": rows, "recommended": best[order[0]], "runner_up": best[order[1]] if len(order) > 1 else None, "tco": found,
           "runner_up_flips": flips_between(shared, machines, order),
           "prices": {r["machine"]: r["price"] for r in found["rows"]}, "date": datetime.date.today().isoformat()}  # fmt: skip
    if project.is_decoder:
        out |= {"windows": decoder.windows(rows), "beside": decoder.beside(rows, best[order[0]])}
    return out
