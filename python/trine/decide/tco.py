"""`trine tco`: what a workload costs over months on Neuron's machines and on others, with bands and their sources."""

import datetime
import json

from trine.command import CHECK_FAILED, OK, OUTSIDE, UNSUPPORTED, USAGE, Stop
from trine.decide import tco_speed, tco_study, tco_train
from trine.decide.paper import saved, write
from trine.decide.prices import HERE, Prices, read
from trine.decide.tco_model import Input, Machine, shared_inputs

COMMITTED = ("reserved", "reserved, 3 years", "capacity block")
RENT_NAMES = {"on-demand": "on-demand", "reserved": "reserved", "reserved-3y": "reserved, 3 years", "capacity-block": "capacity block", "spot": "spot", "owned": "owned"}
SERVING = ("prompt", "output", "batch", "duty", "utilisation", "no-autoscale", "p99-ms")  # options that training has no use for
TRAINING = ("tokens", "steps", "global-batch", "nodes", "pp")
NEURON_HOURS, COMPILE_HOURS = (30, 80, 200), {True: (0.5, 2, 6), False: (0.1, 0.25, 1)}


def fixed(name, value, unit=""):
    return Input(name, value, value, value, unit, "")


def port_hours(path, report=None):
    """The audit's effort: `trine audit --json` has hours, or low and high, at each finding. `report`: the same, at hand."""
    if not path:
        return NEURON_HOURS, "estimate: no audit given"
    found = (report or read(path)).get("findings")
    if not isinstance(found, list):
        raise Stop(USAGE, f"{path}: found no findings, expected what `trine audit --json` prints")
    low = likely = high = 0.0
    for f in found:
        effort = f.get("effort_h", 0) if isinstance(f, dict) else None
        ends = list(effort.values()) if isinstance(effort, dict) else effort if isinstance(effort, list) else [effort]
        if not ends or not all(isinstance(h, (int, float)) and 0 <= h < float("inf") for h in ends):
            raise Stop(USAGE, f"{path}: found effort_h {effort!r}, expected hours, or their range, as `trine audit --json` prints them")
        ends = sorted(ends)
        low, likely, high = low + ends[0], likely + ends[len(ends) // 2], high + ends[-1]
    return (low, likely, high), f"{path}, {len(found)} findings"


def machine_in(row, rent, price, speed, hours, nodes=0):
    """A machine with one way to have it; of a job that trains on so many `nodes`, where there are any."""
    neuron = bool(row.get("modelled"))
    low, likely, high = hours[0] if neuron else row["port_hours"]
    source = hours[1] if neuron else "estimate"
    hourly = price.get("usd_per_hour", 0.0) if price else 0.0
    band = (0.7, 1.6) if rent == "spot" else (1, 1)
    inputs = [
        Input("tokens_per_s", speed.low, speed.likely, speed.high, "results/s of the machine", speed.basis),
        Input("usd_per_hour", band[0] * hourly, hourly, band[1] * hourly, "USD/h", (price or {}).get("from", "")),
        Input("port_hours", low, likely, high, "h", source),
        Input("compile_hours", *COMPILE_HOURS[neuron], "machine hours a month", "estimate"),
        fixed("chips", row["chips"]), fixed("watts", row["chips"] * row.get("chip_watts", 0), "W"),
        fixed("buy_usd", price.get("usd", 0.0) if rent == "owned" else 0.0, "USD"), fixed("committed", int(rent in COMMITTED)),
        fixed("spot", int(rent == "spot")), fixed("owned", int(rent == "owned")), fixed("ported", int(likely > 0)),
    ]  # fmt: skip
    made = Machine(row["name"], row["family"], rent, {i.name: i for i in inputs}, speed.basis, speed.kind, price)
    return tco_train.trained(made, nodes) if nodes else made


def all_rents(row, prices, factor=1.0):
    """Its prices by way; those of an hour times `factor`, what is owned was bought at its price."""
    rents = dict(prices.hourly.get(row["name"], {}))
    if row["name"] in prices.buy:
        rents["owned"] = prices.buy[row["name"]]
    return {rent: p | {"usd_per_hour": p["usd_per_hour"] * factor, "factor": factor} if factor != 1 and "usd_per_hour" in p else p for rent, p in rents.items()}


def too_long(months):
    """Ways that nobody takes for so few months; spot, which may end any time, is taken only where it is asked for."""
    terms = {"reserved": 12, "reserved, 3 years": 36}
    return {"spot", *(rent for rent, least in terms.items() if months < least)}


def chosen(row, prices, speed, hours, shared, purchase, factor=1.0, nodes=0):
    """The way asked for, or the cheapest at likely values."""
    rents = all_rents(row, prices, factor)
    if purchase:
        if RENT_NAMES[purchase] not in rents:
            return None
        rents = {RENT_NAMES[purchase]: rents[RENT_NAMES[purchase]]}
    else:
        rents = {rent: price for rent, price in rents.items() if rent not in too_long(shared["months"].likely)}
    made = [machine_in(row, rent, price, speed, hours, nodes) for rent, price in rents.items()]
    return min(made, key=lambda m: tco_study.likely(shared, m)["total_usd"], default=None)


def listed_machines(asked, prices):
    """The rows asked for, Neuron's instances of any size among them; the vendor's claims."""
    rows = json.loads((HERE / "machines.json").read_text())
    if not asked.machines:
        return [r for r in rows["machines"] if not r.get("only_asked")], rows["claims"]
    by_name = {r["name"]: r for r in rows["machines"]}
    for name, (chip, chips) in prices.chips.items():
        if chip.startswith(("trn", "inf")) and chip != "inf1":
            by_name.setdefault(name, {"name": name, "family": chip.capitalize(), "chips": chips, "modelled": True})
    for name in asked.machines.split(","):
        if name not in by_name:
            raise Stop(USAGE, f'found no machine "{name}", expected of {", ".join(by_name)}')
    return [by_name[name] for name in asked.machines.split(",")], rows["claims"]


def compared(pairs, against):
    """(the cheapest of Neuron's, what it is compared with): the machine asked for, else the cheapest that needs no port."""
    ours = next((p for p in pairs if p[0].family in tco_study.NEURON), None)
    others = [p for p in pairs if p[0].family not in tco_study.NEURON]
    if against and against not in [p[0].name for p in others]:
        raise Stop(USAGE, f'found no --against "{against}" among the machines with a price and a speed: {", ".join(p[0].name for p in others)}')
    wanted = [p for p in others if p[0].name == against or (not against and not p[0].inputs["ported"].likely)]
    return ours, next(iter(wanted or others), None)


def timed(asked, prices):
    """(workload, speeds of the machines asked for): what of a study takes long, and no price, load or duty changes."""
    rows, _ = listed_machines(asked, prices)
    speeds = read(asked.speeds) if asked.speeds else {}
    if asked.train:
        work = tco_train.load(asked)
        return work, tco_train.speeds(work, rows, tco_speed.baseline_files(asked.baseline), speeds, asked.basis)
    work, files = tco_speed.load_workload(asked), tco_speed.baseline_files(asked.baseline)
    return work, tco_speed.all_speeds(work, rows, files, speeds, asked.basis, asked.p99_ms, asked.tp)


def gathered(asked, prices, shared, found, audited=None):
    """(machines with a price and a speed, those without, each with its reason, the vendor's claims)."""
    rows, claims = listed_machines(asked, prices)
    hours = port_hours(asked.audit, audited)
    machines, without, unpriced = [], [], []
    for row in rows:
        speed, why, others, *nodes = found[row["name"]]
        factor = asked.neuron_price if row.get("modelled") else asked.peer_price
        if not speed:
            without.append({"machine": row["name"], "family": row["family"], "why": why})
        elif machine := chosen(row, prices, speed, hours, shared, asked.purchase, factor, *nodes):
            machine.others = others
            machines.append(machine)
        else:
            rent = f" {RENT_NAMES[asked.purchase]}" if asked.purchase else ""
            entry = {"machine": row["name"], "family": row["family"], "why": f"no{rent} price known: --prices FILE gives one"}
            without.append(entry)
            unpriced.append((entry, machine_in(row, "unknown", None, speed, hours, *nodes)))
    return machines, without, unpriced, claims


def entry(machine, shared, totals):
    lines, spread = tco_study.likely(shared, machine), tco_study.percentiles(totals)
    return {
        "machine": machine.name, "family": machine.family, "way": machine.rent,
        "total_usd": {"low": min(spread["p5"], lines["total_usd"]), "likely": lines["total_usd"], "high": max(spread["p95"], lines["total_usd"])},
        "basis": machine.basis, "basis_kind": machine.kind, "usd_per_million_tokens": lines["usd_per_million_tokens"],
        "price": machine.price, "lines": lines, "distribution": spread,
        "other_speeds": machine.others,
    }  # fmt: skip


def workload_inputs(asked, prices):
    """What is shared by all machines; a utilisation that was asked for has no band."""
    if asked.train:
        return shared_inputs({"months": asked.months, "tokens": tco_train.load(asked).tokens}, prices, tco_train.TRAIN_SHARED)
    asked_for = {"months": asked.months, "tokens_per_day": asked.tokens_per_day, "duty": asked.duty, "autoscaled": 0 if asked.no_autoscale else 1}
    shared = shared_inputs(asked_for, prices)
    if asked.utilisation:
        shared["utilisation"] = fixed("utilisation", asked.utilisation, shared["utilisation"].unit)
    return shared


def study(asked, prices, speeds=None, audited=None):
    """The report, and the machines and inputs it was made of. `speeds` are timed()'s, `audited` the audit's report."""
    shared = workload_inputs(asked, prices)
    work, found = speeds or timed(asked, prices)
    machines, without, unpriced, claims = gathered(asked, prices, shared, found, audited)
    if not machines:
        reasons = "; ".join(f"{w['machine']}: {w['why']}" for w in without)
        raise Stop(CHECK_FAILED if asked.p99_ms else UNSUPPORTED, f"no machine is left to compare. {reasons}")
    found, pairs = weighed(shared, machines, asked.draws, asked.seed, asked.against)
    for item, machine in unpriced:
        item["price_to_match"] = tco_study.price_to_match(shared, machine, found["rows"][0]["total_usd"]["likely"])
    report = {"version": 1, "kind": "tco", "workload": described(asked, work, shared), **found, "without": without,
              "claims": tco_study.claims(claims, found["rows"]), "stale_prices": len(prices.stale(datetime.date.today()))}  # fmt: skip
    return report, pairs, shared


def described(asked, work, shared):
    """The workload, for the report."""
    both = {"config": work.name, "months": asked.months, "seq": work.seq, "neuron_price": asked.neuron_price, "peer_price": asked.peer_price, "train": bool(asked.train)}
    if asked.train:
        return both | {"tokens": work.tokens, "global_batch": work.global_batch, "steps": round(work.tokens / work.global_batch / work.seq)}
    return both | {"writes": work.writes, "tokens_per_day": asked.tokens_per_day, "batch": work.batch, "prompt": work.prompt, "output": work.output,
                   "duty": asked.duty, "autoscaled": not asked.no_autoscale, "utilisation": shared["utilisation"].likely}  # fmt: skip


def weighed(shared, machines, draws, seed, against=None):
    """(rows by likely cost with what decides between the best of Neuron's and the best other, the machines in that order)."""
    totals = tco_study.monte_carlo(shared, machines, draws, seed)
    pairs = sorted(zip(machines, totals, strict=True), key=lambda p: tco_study.likely(shared, p[0])["total_usd"])
    ours, theirs = compared(pairs, against)
    both = ours and theirs
    found = {
        "seed": seed, "draws": draws, "rows": [entry(m, shared, t) for m, t in pairs],
        "compared": [ours[0].name, theirs[0].name] if both else None,
        "chance_cheaper": float((ours[1] < theirs[1]).mean()) if both else None,
        "tornado": tco_study.tornado(shared, ours[0], theirs[0]) if both else [],
        "break_even": tco_study.break_evens(shared, ours[0], theirs[0]) if both else [],
    }  # fmt: skip
    return found, [m for m, _ in pairs]


def check_prices(prices, as_json):
    stale = prices.stale(datetime.date.today())
    if as_json:
        print(json.dumps({"version": 1, "kind": "stale prices", "rows": stale}, indent=2))
    else:
        for row in stale:
            age = f"{row['days']} days" if row["days"] is not None else "no day"
            print(f"{row['machine']:26} {row['way']:20} {age:>9}  {row['from']}")
        print(f"{len(stale)} of {len(prices.rows())} prices are older than 90 days, or their source gives no day")
    return CHECK_FAILED if stale else OK


def check_kind(asked):
    """Options of the other kind of workload are told, not dropped."""
    typed = {word.split("=")[0].removeprefix("--") for word in asked.typed}
    wrong = next((n for n in (SERVING if asked.train else TRAINING) if n in typed), None)
    if wrong:
        raise Stop(USAGE, f"found --{wrong} {'with' if asked.train else 'without'} --train, expected it {'of a server' if asked.train else 'of a training run'} alone")
    if not asked.train and not asked.tokens_per_day:
        raise Stop(USAGE, "--tokens-per-day is missing: generated tokens a day, or inferences of a model that writes none; of a training run --train --tokens")


def run(asked):
    prices = Prices(asked.trine, asked.prices)
    if asked.check_prices:
        return check_prices(prices, asked.json)
    if not asked.config:
        raise Stop(USAGE, "--config is missing: a config.json, a GGUF file or a name such as llama-3-8b")
    check_kind(asked)
    for name, value, least, most in (("months", asked.months, 0.1, 120), ("duty", asked.duty, 0.001, 1), ("utilisation", asked.utilisation or 1, 0.01, 1),
                                     ("neuron-price", asked.neuron_price, 0.01, 100), ("peer-price", asked.peer_price, 0.01, 100)):
        if not least <= value <= most:
            raise Stop(USAGE, f"found --{name} {value:g}, expected a number from {least:g} to {most:g}")
    report, machines, shared = study(asked, prices)
    from trine.decide import tco_report

    print(json.dumps(report, indent=2) if asked.json else tco_report.text(report))
    files = [(asked.html, lambda path: write(path, tco_report.page(report, shared)))]
    if asked.xlsx:
        from trine.decide.tco_sheet import write_tco

        files.append((asked.xlsx, lambda path: write_tco(path, shared, machines, prices)))
    return OK if all([saved(path, make) for path, make in files if path]) else OUTSIDE
