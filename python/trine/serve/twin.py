"""`trine bench serve --virtual`: the server's own scheduler under traffic, on the chip's clock, without weights.

The loop is C++ (`trine._core.twin`, src/serve/twin.cpp); here traffic is made or read, rates and fleets are searched, and
the result is printed.
"""

import csv
import json
import sys
import time
from pathlib import Path

import numpy as np

from trine.command import OK, UNSUPPORTED, USAGE, Stop, note

VERSION = 1
COLUMNS = {"time": ("timestamp", "time", "arrival", "arrival_s"), "prompt": ("request tokens", "input_length", "prompt", "prompt_tokens"),
           "output": ("response tokens", "output_length", "output", "completion_tokens")}  # fmt: skip
BLOCK = 512  # tokens of a block in Mooncake's traces


def made(count, rate, prompt, output, shared=0, seed=0):
    """Poisson arrivals; lengths are geometric around their means, as far as a context goes."""
    random = np.random.default_rng(seed)
    arrival = np.cumsum(random.exponential(1 / rate, count))
    prompts = np.clip(random.lognormal(np.log(max(prompt, 1)) - 0.18, 0.6, count), 1, 16 * prompt).astype(np.int32)
    outputs = np.clip(random.geometric(1 / max(output, 1), count), 1, 16 * output).astype(np.int32)
    prefix = np.full(count, 1 if shared else 0, np.uint64)
    return arrival, np.maximum(prompts, shared), outputs, prefix, np.full(count, shared, np.int32)


def column(header, kind, path):
    lower = [name.strip().lower() for name in header]
    for name in COLUMNS[kind]:
        if name in lower:
            return header[lower.index(name)]
    raise Stop(USAGE, f"{path}: found columns {', '.join(header)}; expected one of {', '.join(COLUMNS[kind])}")


def read(path):
    """A trace: Mooncake's JSON lines (ms, lengths, hashes of blocks) or a table with a header."""
    rows = []
    try:
        with open(path, encoding="utf-8", newline="") as file:
            if Path(path).suffix == ".csv":
                table = csv.DictReader(file)
                names = [column(table.fieldnames or [], kind, path) for kind in COLUMNS]
                rows = [(float(r[names[0]]), int(float(r[names[1]])), int(float(r[names[2]])), 0, 0) for r in table]
            else:
                for line in file:
                    r = json.loads(line)
                    blocks = r.get("hash_ids") or []
                    shared = (len(blocks) - 1) * BLOCK if len(blocks) > 1 else 0
                    rows.append((r["timestamp"] / 1e3, r["input_length"], r["output_length"], hash(tuple(blocks[:-1])) & (2**63 - 1) if shared else 0, shared))
        rows = sorted(r for r in rows if 0 < r[1] < 2**31 and 0 < r[2] < 2**31 and abs(r[0]) < 1e12)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, csv.Error) as e:
        raise Stop(USAGE, f"{path}: no trace that can be read: {e}") from None
    if not rows:
        raise Stop(USAGE, f"{path}: no requests with tokens")
    at, prompt, output, prefix, tokens = zip(*rows, strict=True)
    return (np.array(at, float) - at[0], np.array(prompt, np.int32), np.array(output, np.int32), np.array(prefix, np.uint64), np.array(tokens, np.int32))


def simulate(trace, cost, options):
    """One run, with what follows from it."""
    from trine import _core

    begin = time.perf_counter()
    r = _core.twin(*trace, cost, options)
    r["wall_s"] = time.perf_counter() - begin
    seconds = max(r["seconds"], 1e-9)
    r["tokens_per_s"], r["requests_per_s"] = r["tokens"] / seconds, (r["requests"] - r["rejected"]) / seconds
    r["goodput_per_s"], r["in_time"] = r["good"] / seconds, r["good"] / max(1, r["requests"])
    r["usd_per_million_tokens"] = r["usd"] / max(1, r["tokens"]) * 1e6
    r["watts"] = r["joules"] / max(r["copy_s"], 1e-9) * max(1, options.get("copies", 1))
    r["joules_per_token"] = r["joules"] / max(1, r["tokens"])
    r["busy"] = r["busy_s"] / max(r["copy_s"], 1e-9)
    r["bound"] = bound(r, cost)
    return r


def bound(r, cost):
    """What keeps it from more: nothing, the batch, the pages, or the chip, in prompts or in decoding."""
    if r["busy"] < 0.7:
        return "arrivals: the chips have nothing to do for part of the time"
    part = "prompts" if r["prompt_s"] > r["decode_s"] else "decoding"
    if r["waited_s"] > 0.2 * r["busy_s"]:
        return f"places in the batch, in {part}" if r["slots_full_s"] >= r["pages_full_s"] else f"chunks of prompts and pages, in {part}"
    return part


def at_rate(trace, factor):
    return (trace[0] / factor, *trace[1:])


def find_rate(trace, cost, options, attain):
    """(the largest factor of the trace's rate that holds the SLO, its run); None where none does."""
    def holds(factor):
        r = simulate(at_rate(trace, factor), cost, options)
        return r if r["in_time"] >= attain else None

    low, best, high = 0.0, None, 1.0
    while high < 1e6 and (found := holds(high)):
        low, best, high = high, found, high * 2
    if best is None:
        while high > 1e-4 and not (best := holds(high / 2)):
            high /= 2
        if best is None:
            return None
        low = high / 2
    for _ in range(10):
        middle = (low + high) / 2
        found = holds(middle)
        low, best, high = (middle, found, high) if found else (low, best, middle)
    return low, best


def find_fleet(trace, cost, options, attain, most=4096):
    """(the fewest copies that hold the SLO, their run)"""
    def holds(copies):
        r = simulate(trace, cost, options | {"copies": copies})
        return r if r["in_time"] >= attain else None

    low, high, best = 0, 1, None
    while high <= most and not (best := holds(high)):
        low, high = high, high * 2
    if best is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        found = holds(middle)
        low, high, best = (low, middle, found) if found else (middle, high, best)
    return high, best


def scheduler_of(cost):
    """The scheduler's options of a copy on the chip: the sizes of its programs, and the pages its memory has."""
    prompt = cost["prompt"]
    chunk = max(prompt["sizes"], key=lambda n: n / prompt["seconds"][prompt["sizes"].index(n) * len(prompt["contexts"])])  # most tokens a second
    return {"pages": cost["pages"], "running_most": cost["decode"]["sizes"][-1], "chunk": chunk, "mixed_chunk": prompt["sizes"][0],
            "context": max(cost["decode"]["contexts"][-1], 2048), "mixed": False}  # fmt: skip


def options_of(asked, cost):
    options = scheduler_of(cost) | {"copies": asked.copies or cost["copies"], "prompt_copies": asked.prompt_copies, "cold_start": asked.cold_start}
    if asked.copies_most:
        options["copies_most"] = asked.copies_most
    for name in ("ttft", "itl"):
        if (ms := getattr(asked, f"slo_{name}_ms")) is not None:
            options[f"slo_{name}"] = ms / 1e3
    if asked.slo_ms is not None:
        options["slo_e2e"] = asked.slo_ms / 1e3
    return options


def run(asked):
    from trine.models import ConfigError
    from trine.serve.cost import table

    if not asked.virtual or not asked.config:
        raise Stop(USAGE, "found `bench serve` without --virtual or --config; a running server is measured by its URL: trine bench http://…")
    try:
        cost = table(asked.config, asked.instance, asked.tp, say=note)
    except ConfigError as e:
        raise Stop(UNSUPPORTED, str(e)) from None
    trace = read(asked.trace) if asked.trace else made(asked.requests, asked.rate or 1.0, asked.prompt, asked.output, asked.shared, asked.seed)
    options, found = options_of(asked, cost), None
    if asked.find:
        search = find_rate if asked.find == "rate" else find_fleet
        found = search(trace, cost, options, asked.attain)
        if found is None:
            raise Stop(UNSUPPORTED, "no rate, and no fleet of up to 4,096 copies, holds this SLO: a single request takes longer")
        result = found[1]
    else:
        result = simulate(trace, cost, options)
    offered = len(trace[0]) / max(trace[0][-1] - trace[0][0], 1e-9)
    answer = {"version": VERSION, "config": asked.config, "instance": asked.instance, "tp": asked.tp, "options": options,
              "offered_per_s": offered * (found[0] if asked.find == "rate" else 1), "copies": found[0] if asked.find == "fleet" else options["copies"],
              "band": [cost["low"], cost["high"]], "result": result}  # fmt: skip
    if asked.json:
        json.dump(answer, sys.stdout)
        print()
    else:
        print(text(answer))
    return OK


def ms(spread, band):
    p50, p95, p99 = (spread[p] * 1e3 for p in ("p50", "p95", "p99"))
    return f"p50 {p50:,.4g} ms · p95 {p95:,.4g} · p99 {p99:,.4g}   (p50 {p50 * band[0]:,.3g} – {p50 * band[1]:,.3g}, 90 % band)"


def text(a):
    r, band = a["result"], a["band"]
    slo = any(name.startswith("slo_") for name in a["options"])
    lines = [
        f"{a['config']} on {a['instance']}, tp {a['tp']}, {a['copies']} {'copy' if a['copies'] == 1 else 'copies'}: {r['requests']:,} requests at {a['offered_per_s']:,.4g} a second",
        f"  ttft      {ms(r['ttft_s'], band)}",
        f"  itl       {ms(r['itl_s'], band)}",
        f"  e2e       {ms(r['e2e_s'], band)}",
        f"  tokens    {r['tokens_per_s']:,.0f} a second out, {r['prompt_tokens'] / max(r['seconds'], 1e-9):,.0f} in · {r['prefix_hits'] / max(1, r['prefix_queries']):.0%} of prompts from the cache",
        *([f"  in time   {r['in_time']:.2%} of requests, goodput {r['goodput_per_s']:,.4g} a second"] if slo else []),
        f"  cost      ${r['usd_per_million_tokens']:,.4g} per 1M tokens · {r['joules_per_token']:,.3g} J a token · {r['watts']:,.0f} W · chips busy {r['busy']:.0%}",
        f"  bound by  {r['bound']}" + (f" · {r['preemptions']} gave way" if r["preemptions"] else "") + (f" · {r['rejected']} too long" if r["rejected"] else ""),
        f"  simulated in {r['wall_s']:.2f} s, {r['requests'] / max(r['wall_s'], 1e-9):,.0f} requests a second",
    ]
    return "\n".join(lines)
