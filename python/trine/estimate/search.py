"""`--search`: the fastest layout of a training step that fits memory, and why the others lost.

Every layout has its memory counted from shapes first. Those that may fit are ranked by a rough time of operations,
collectives and bubbles; the best are then compiled and timed as any other answer. Layouts that differ in stages and copies
alone are made of the same programs, which are timed once.
"""

import dataclasses
import itertools

from trine import _core
from trine.estimate import cached, program, room
from trine.estimate.answer import ask, estimate_asked
from trine.models.families import ConfigError

TIMED = 4  # layouts that are compiled
TENSOR = (1, 2, 4, 8, 16, 32, 64)
STAGES = (1, 2, 4, 8, 16, 32)
SPREAD = ("nodes", "dp", "pp", "tp", "batch", "accumulate", "global_batch", "zero", "cp", "ep", "chunks", "recompute", "optimiser", "overlap")
LOST = ("compute", "slowed", "collectives", "bubbles", "launch")


@dataclasses.dataclass
class Layout:
    """What is tried; `why` it was left, where it was not timed."""

    how: dict
    rank: float = 0.0
    room: float = 0.0  # bytes of a logical core
    why: str = ""
    answer: object = None

    @property
    def name(self):
        h = self.how
        words = [f"tp {h['tp']}", f"pp {h['pp']}" + (f" × {h['chunks']}" if h["chunks"] > 1 else ""), f"batch {h['batch']}", f"zero {h['zero']}"]
        return ", ".join(words + ([f"recompute {h['recompute']}"] if h["recompute"] != "none" else []))


def candidates(config, how):
    """Layouts over all cores of the instances: powers of two, and what was asked for stays as it is."""
    fixed = {k: v for k, v in how.items() if v is not None}
    s = cached.build(config, "bfloat16").settings
    tensor = [fixed["tp"]] if fixed.get("tp", 1) > 1 else [t for t in TENSOR if s.heads % t == 0]
    stages = [fixed["pp"]] if "pp" in fixed else [p for p in STAGES if p <= s.layers and s.layers % p == 0]
    chunks = [fixed["chunks"]] if "chunks" in fixed else [1, 2]
    batches = [fixed["batch"]] if fixed.get("batch", 1) > 1 else [1, 2, 4]
    zeros = [fixed["zero"]] if "zero" in fixed else [1, 3]
    again = [fixed["recompute"]] if "recompute" in fixed else ["none", "full"]
    for tp, pp, c, batch, zero, r in itertools.product(tensor, stages, chunks, batches, zeros, again):
        if c > 1 and (pp == 1 or s.layers % (pp * c)):
            continue
        yield Layout(fixed | {"tp": tp, "pp": pp, "chunks": c, "batch": batch, "zero": zero, "recompute": r})


def least(layout, asked):
    """Bytes that a layout holds for certain: parameters, gradients, the optimiser's state, and what goes into each layer of
    the batches in flight; with nothing computed again also what a layer keeps (34 bytes a token and width)."""
    from trine.estimate import memory, stages

    held = memory.resident(asked.model, "train", asked.each, asked.seq, asked.at, asked.plan)["used"]
    s, p = asked.model.settings, asked.plan
    layers = s.layers / p.pp * stages.in_flight(p) / p.chunks
    each = (2 if layout.how["recompute"] == "full" else 34) * s.width / asked.at.tp
    return held + layers * asked.each * asked.seq / p.cp * each


def rough(asked):
    """A number to rank by, in ns of a step: operations at a third of the peak, collectives by their schedules, bubbles by
    the schedule of stages."""
    from trine.estimate import stages

    s, p, at = asked.model.settings, asked.plan, asked.at
    chip = _core.chip(at.instance["chip"])
    tokens = asked.each * asked.seq // p.cp
    share = cached.parameters_count(asked.model) / p.pp / at.tp
    peak = 2 * chip["tensor.rows"] * chip["tensor.columns"] * chip["tensor.clock_ghz"] * at.lnc
    passes = 4 if p.recompute == "full" else 3
    work = passes * (2 * share * tokens + 4 * tokens * asked.seq * s.width * s.layers / p.pp / at.tp / 2) / peak * 3
    sums = 0.0
    if at.tp > 1:
        size = tokens * s.width * asked.model.itemsize
        sums = passes / 3 * 4 * 2 * s.layers / p.pp * stages.asked(at.instance["name"], "all_gather", size, at.tp, 1, at.lnc, 1, False)["ns"]
    batches = p.accumulate + (p.pp - 1) / p.chunks
    over = 0.0
    if p.replicas > 1:
        g = stages.between(at.instance, "reduce_scatter", share * asked.model.itemsize, p.replicas, stride=at.tp, lnc=at.lnc, all_groups=at.tp > 1)
        over = 2 * g["ns"] if p.zero < 3 else max(0.0, 3 * g["ns"] * p.accumulate - (work + sums) * p.accumulate)
    return batches * (work + sums) + over


def search(config, quick=False, say=lambda text: None, **how):
    """The best Answer, with `.search`: the others and why each lost. quick: where programs are large, layouts that are likely
    to fit (room.py) come first, and only those are timed that are made of the first one's programs or of those that told so; of
    small ones the same as without it. say: told of each that is timed."""
    how["nodes"] = how.get("nodes") or 1
    found, seen = weighed(config, how)
    ranked = sorted((f for f in found if not f.why), key=lambda f: f.rank / of_sequences(seen[f.name]))
    with program.shared():
        timed = fastest(ranked, seen, quick, say)
    if not timed:
        raise ConfigError(f"no layout of {how['nodes']} {how['instance']} fits: " + next((f.why for f in found if f.why.startswith("does not")), "none was possible"))
    timed.sort(key=lambda f: -f.answer.throughput)
    best = timed[0].answer
    best.search = rows(timed, ranked, found)
    return best


def weighed(config, how):
    """(every layout, with its rank or why it is none; what was asked of each by its name): nothing is compiled."""
    model = ask(config, **{k: v for k, v in how.items() if k not in SPREAD}).model
    chip = _core.chip(_core.instance(how["instance"])["chip"])
    found, seen = [], {}
    for layout in candidates(config, how):
        found.append(layout)
        try:
            asked = seen[layout.name] = ask(config, model=model, **layout.how)
        except ConfigError as e:
            layout.why = str(e)
            continue
        if asked.at.instance["cores"] * asked.plan.nodes != asked.plan.copies * asked.plan.pp * asked.plan.cp * asked.at.cores:
            layout.why = "leaves cores idle"
        layout.room = chip["hbm.bytes"] // chip["cores"] * asked.at.lnc
        need = least(layout, asked)
        if need > layout.room:
            layout.why = f"does not fit: at least {need / 1e9:.1f} of {layout.room / 1e9:.1f} GB per core"
        layout.rank = rough(asked) if not layout.why else 0.0
    return found, seen


def fastest(ranked, seen, quick, say):
    """Of layouts that are made of the same programs the first TIMED that fit, timed; all are of one kind unless quick."""
    quick = quick and bool(ranked) and multiplies(seen[ranked[0].name]) > program.LARGE
    needs = room.measured([seen[f.name] for f in ranked]) if quick else None
    kinds, timed = None, []
    for layout in sorted(ranked, key=lambda f: needs.needed(seen[f.name]) > f.room) if needs else ranked:
        asked, kind = seen[layout.name], made_of(layout) if quick else None
        if sum(kind == (made_of(f) if quick else None) for f in timed) >= TIMED:
            continue
        if kinds and (kind not in kinds or asked.model.settings.layers // asked.plan.pp <= program.MORE):
            continue
        say(f"timing {layout.name}")
        try:
            layout.answer = estimate_asked(asked)
        except (MemoryError, IndexError) as e:
            if isinstance(e, IndexError) and "NCC_EXTP004" not in str(e):
                raise
            layout.why = f"does not fit: {e}"  # one value a core's memory, or the program what a program may have of instructions
            continue
        m = layout.answer.memory
        if not m["fits"]:
            layout.why = f"does not fit: {m['used'] / 1e9:.1f} of {m['room'] / 1e9:.1f} GB per core"
            continue
        timed.append(layout)
        if quick and not kinds:
            kinds = {kind} | {(tp, 1, layout.how["recompute"]) for tp in (needs.found if needs else ())}
    return timed


def multiplies(asked):
    """Instructions of the tensor engine in the program of one layer and what is around it, both ways; nothing is compiled."""
    chip = _core.chip(asked.at.instance["chip"])
    each = chip["tensor.rows"] * chip["tensor.columns"] * 512  # of rows that move at once
    return 3 * asked.each * asked.seq // asked.plan.cp * cached.parameters_count(asked.model.with_layers(1)) / asked.at.shards / each


def made_of(layout):
    """What decides a layer's programs; the rest is how many there are, and where."""
    return layout.how["tp"], layout.how["batch"], layout.how["recompute"]


def of_sequences(asked):
    """Sequences of a step, by which layouts are made comparable."""
    return asked.plan.copies * asked.batch * asked.plan.accumulate


def rows(timed, ranked, found):
    """Those that were timed, the fastest first, with what each has more of; then how many were left and why."""
    best = timed[0].answer
    each = best.likely_ms / of_step(best)
    out = []
    for layout in timed:
        a = layout.answer
        ours, theirs = (x.step.likely.parts() for x in (a, best))
        more = {k: ours[k] / of_step(a) - theirs[k] / of_step(best) for k in LOST}
        worst = sorted((k for k in LOST if more[k] > 0.002 * each), key=lambda k: -more[k])
        lost = ", ".join(f"{k} +{more[k] / each:.0%}" for k in worst[:2])
        out.append({"layout": layout.name, "sequences_per_s": a.throughput, "ms": a.likely_ms, "used_bytes": a.memory["used"], "lost_by": lost})
    reasons = {}
    for f in found:
        if f.why:
            key = "do not fit memory" if f.why.startswith("does not fit") else f.why.split(";")[0]
            reasons.setdefault(key, []).append(f.name)
    out_of = [{"why": why, "layouts": names} for why, names in sorted(reasons.items(), key=lambda r: -len(r[1]))]
    late = [f.name for f in ranked if f.answer is None]
    if late:
        out_of.insert(0, {"why": f"ranked behind the {len(timed)} that were timed", "layouts": late})
    return {"timed": out, "left_out": out_of}


def of_step(answer):
    return answer.copies * answer.results
