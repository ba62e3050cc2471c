"""What the engine's steps take on an instance: programs of the model's prompts and of its decoding, timed in buckets.

Each bucket is one program through the compiler and its cache, timed as `trine estimate` times it. The table is held in the
same cache, so a second start reads it.
"""

import json
import sys

VERSION = 2
STATE = f"serve table {VERSION}"
PROMPTS = (128, 512, 2048)  # tokens of a program that reads a prompt
BATCHES = (1, 4, 16, 64)  # sequences of a program that decodes
CONTEXTS = (512, 2048, 8192)  # tokens that are seen


def table(config, instance, tp=1, context=0, prompts=PROMPTS, batches=BATCHES, contexts=CONTEXTS, lnc=None, say=None):
    """A dictionary as trine._core.serve takes it, with what bounds each program, its band and what the model holds."""
    from trine import _core

    if isinstance(config, str):
        from trine import models

        config = models.load_config(config)
    most = context or positions(config) or max(contexts)
    how = {"instance": instance, "tp": tp, "lnc": lnc, "prompts": sorted({min(n, most) for n in prompts}), "batches": sorted(batches),
           "contexts": sorted({min(n, most) for n in contexts})}  # fmt: skip
    text = json.dumps([config, how], sort_keys=True, default=str)
    if (stored := _core.cache_get(text, STATE)) is not None:
        return json.loads(stored)
    made = timed(config, how, say or (lambda text: print(text, file=sys.stderr)))
    _core.cache_put(text, STATE, f"times of serving on {instance}, tp {tp}", json.dumps(made).encode())
    return made


def positions(config):
    """Tokens that the model can see at most, by whatever name its family has for it; 0: as many as you like."""
    from trine.models.model import Model

    return Model(config).settings.context or 0


def timed(config, how, say):
    from trine.estimate import estimate

    where = {"instance": how["instance"], "tp": how["tp"], "lnc": how["lnc"]}
    say(f"timing {len(how['prompts']) + len(how['batches']) * len(how['contexts'])} programs for {how['instance']}, tp {how['tp']}")

    whole = {n: estimate(config, phase="prefill", batch=1, seq=n, **where) for n in how["prompts"]}
    decode = {(b, c): estimate(config, phase="decode", batch=b, seq=c, **where) for b in how["batches"] for c in how["contexts"]}
    any_one = decode[how["batches"][0], how["contexts"][0]]
    rent = hourly(how["instance"])
    share = any_one.layout.tp * any_one.layout.lnc / any_one.layout.instance["cores"]  # of the instance that a copy has
    low, high = any_one.band
    used = any_one.memory
    return {
        "version": VERSION, **where,
        "prompt": grid(how["prompts"], prompt_contexts(how), lambda n, c: chunk_seconds(whole, decode, how, n, c)),
        "decode": grid(how["batches"], how["contexts"], lambda b, c: decode[b, c].likely_ms / 1e3),
        "low": low, "high": high, "launch": 0.0, "dollars_per_hour": rent * share, **power(any_one, share),
        "copies": any_one.layout.copies, "share": share, "weights_bytes": used["weights"], "room_bytes": used["room"],
        "cache_bytes_per_token": used["cache"] / how["contexts"][0] / how["batches"][0],
        "pages": pages(decode, how), "bound": {f"{b}x{c}": decode[b, c].report.get("bound", "") for b, c in decode},
    }  # fmt: skip


def grid(sizes, contexts, of):
    return {"sizes": sizes, "contexts": contexts, "seconds": [of(s, c) for s in sizes for c in contexts]}


def prompt_contexts(how):
    return sorted({0, *how["contexts"]})


def chunk_seconds(whole, decode, how, tokens, seen):
    """A chunk takes its own program's time, and for each token seen before it what a decode step of that many sequences
    takes more for it: both read the same keys."""
    base = whole[tokens].likely_ms / 1e3
    more = max(0, seen - tokens)
    if not more or len(how["contexts"]) < 2:
        return base
    near, far, batch = how["contexts"][0], how["contexts"][-1], how["batches"][0]
    slope = (decode[batch, far].likely_ms - decode[batch, near].likely_ms) / 1e3 / (far - near)
    return base + max(0.0, slope) * more


def pages(decode, how):
    """Pages of 16 tokens that a copy's memory has room for beside weights and what its largest program needs."""
    one = decode[how["batches"][-1], how["contexts"][0]].memory
    per_token = one["cache"] / how["contexts"][0] / how["batches"][-1]
    free = one["room"] - one["weights"] - one["activations"] - one["scratch"]
    return max(1, int(free / per_token / 16)) if per_token else 1


def hourly(instance):
    """Dollars an hour on demand; the cheapest other way where there is no such price."""
    from trine import _core

    rents = _core.cost_of(instance, 1e9, 0.0, 1.0, 1.0)["rents"]
    on_demand = [r["usd_per_hour"] for r in rents if r["way"] == "on-demand"]
    return float(on_demand[0] if on_demand else min((r["usd_per_hour"] for r in rents), default=0.0))


def power(answer, share):
    """Watts of a copy at work and at rest, at the wall."""
    from trine import _core

    busy = min(1.0, max(answer.mfu, answer.mbu) / 100)
    at_work, at_rest = (_core.cost_of(answer.instance, 1e9, 0.0, 1.0, b)["wall_watts"] for b in (busy, 0.0))
    return {"watts": at_work * share, "idle_watts": at_rest * share}
