"""A training step as pieces for the event simulation of src/sim/cluster: what each pipeline stage computes of a batch, layer
by layer, and the collectives before, between and beside that. Stages are classes of ranks: all copies of one are alike.

Collectives of tensor parallelism, and of experts, stand between pieces of compute and hide behind nothing. Those over
copies run on a stream of their own where gradients or parameters are shared out layer by layer, as do the keys and values
of context parallelism; what of them is hidden follows. Between stages Neuron's libraries send by a gather of two in the
program's own order, so a likely step's engines wait for what they send; ours do not.
"""

import dataclasses
import functools
import json
import math
import re

from trine import _core
from trine.estimate import cached, calibration, cores, fit, neuron

MANY = 64  # instances, from which on a collective's time is taken from those of half and of a quarter as many
LAUNCH = "launch"


def in_flight(plan):
    """Chunks of which the first stage keeps what their way back needs, at most."""
    p, v, m = plan.pp, plan.chunks, plan.accumulate
    if v == 1:
        return min(p, m)
    return m * v if m == p else min(m * v, 2 * (p - 1) + (v - 1) * p + 1)


def neuron_ms(run, kind, chip, tail=1.0):
    """One program as Neuron's compiler overlaps it; Answer.neuron_ms has the same of a call."""
    run = run.whole or run
    busy = {}
    for row in run.layers:
        for unit, ms in row["busy_ms"].items():
            busy[unit] = busy.get(unit, 0.0) + ms
    serial = tail * neuron.serial_ms(busy, chip)
    least = dma_ms(run, chip) if kind in neuron.SPILLING and neuron.is_serial(chip) else run.device_ms
    return fit.device(least, serial, dma_ms(run, chip), calibration.waiting(kind))


def dma_ms(run, chip):
    chip = _core.chip(chip)
    return (run.report["hbm_read_bytes"] + run.report["hbm_write_bytes"]) / chip["dma.rate_bytes_per_ns"] / chip["dma.engines_per_core"] / 1e6


def worked(row):
    """Compute engines of a part, one after the other: by this a program's time is given to its parts."""
    return sum(ms for unit, ms in row["busy_ms"].items() if unit in neuron.COMPUTE)


def split(rows):
    """{(layer | embedding | head | optimiser, forward | backward): engines' ms, ("mlp", …): of the layers' alone}."""
    out = {}
    for row in rows:
        name, backward = row["layer"].removesuffix(" (backward)"), row["layer"].endswith("(backward)")
        where = "layer" if re.match(r"layer \d", name) else name if name in ("embedding", "optimiser") else "head"
        direction = "backward" if backward or name in ("other", "optimiser") else "forward"
        for key in [(where, direction)] + ([(row["part"], direction)] if where == "layer" and row["part"] in ("mlp", "attention") else []):
            out[key] = out.get(key, 0.0) + worked(row)
    return out


def between(instance, kind, size, ranks, *, stride, lnc, all_groups):
    """A collective over every stride-th logical core, of as many instances as that takes. Of very many of those the time
    goes on as from a quarter to a half of MANY: by steps of a ring, or by one more exchange for twice as many."""
    have = instance["cores"] // lnc
    nodes = math.ceil(ranks * stride / have)
    if nodes <= MANY or have % stride and stride % have:
        return asked(instance["name"], kind, size, ranks, nodes, lnc, stride, all_groups)
    each = ranks / nodes
    few, more = (asked(instance["name"], kind, size, max(2, int(each * n)), n, lnc, stride, all_groups) for n in (MANY // 2, MANY))
    by_ring = more["steps"] > 1.5 * few["steps"]
    times = (nodes - MANY) / (MANY // 2) if by_ring else math.log2(nodes / MANY)
    return more | {"ns": more["ns"] + times * (more["ns"] - few["ns"])}


@functools.lru_cache(512)
def asked(name, kind, size, ranks, nodes, lnc, stride, all_groups):
    return _core.time_collective(name, kind, int(size), ranks, nodes=nodes, lnc=lnc, stride=stride, all_groups=all_groups)


def shares(found):
    """Of each unit of a core while a collective runs."""
    return {unit: min(1.0, ns / found["ns"]) for unit, ns in found["busy_ns"].items()} if found["ns"] else {}


class Pieces(list):
    """A list that says where each was put."""

    def put(self, what, ns, **more):
        self.append({"what": what, "ns": ns} | {k: v for k, v in more.items() if v is not None})
        return len(self) - 1


@dataclasses.dataclass
class Spread:
    """model: of one stage; programs: training.Programs of it; seq: of whole sequences."""

    model: object
    at: cores.Layout
    plan: object
    programs: object
    batch: int
    seq: int
    total: int  # layers of the whole model

    # ---- what is asked of other cores

    def uses(self):
        """Rows of `collectives`: kind, bytes, ranks, how often in a step of the first stage, ns of one, shares of units."""
        p, times = self.plan, self.plan.accumulate
        rows = [u | {"count": u["count"] * times} for u in self.tensor]
        again = cores.collectives(self.programs.again.uses, self.at) if self.programs.again and p.recompute == "full" else []
        rows += [u | {"count": u["count"] * times} for u in again]
        layers = self.programs.layers
        if p.pp > 1:
            rows.append(self.sent | {"count": 2 * times})
        if p.cp > 1:
            rows.append(self.ring | {"count": 3 * (p.cp - 1) * layers * times})
        if p.ep > 1:
            rows.append(self.routed | {"count": 4 * layers * times})
        return rows + [u | {"count": self.how_often(u)} for u in self.summed]

    def how_often(self, use):
        """Over copies: once a step, or for each layer of each batch."""
        p, layers = self.plan, self.programs.layers
        by_layer = use["of"] == "gradients" and (p.zero >= 2 or p.overlap) or use["of"] == "parameters" and p.zero == 3
        passes = {"gradients": p.accumulate if p.zero >= 2 else 1, "parameters": 2 * p.accumulate}[use["of"]]
        return layers * passes if by_layer else 1

    @functools.cached_property
    def tensor(self):
        return cores.collectives(self.programs.batch.uses, self.at)

    def over(self, kind, size, ranks, stride, of):
        """All groups of the same kind use the wires at once."""
        found = between(self.at.instance, kind, size, ranks, stride=stride, lnc=self.at.lnc, all_groups=stride > 1)
        return {"kind": kind, "bytes": int(size), "ranks": ranks, "ns": found["ns"], "of": of, "shares": shares(found)}

    @functools.cached_property
    def sent(self):
        """Activations to the next stage and their gradients back, a gather of two as Neuron sends them: each core what it has
        of the tokens. Stages lie as far apart as all copies of one take, so between instances where there are several."""
        at, tokens = self.at, self.batch * self.seq // self.plan.cp
        size, have = tokens * self.model.settings.width * self.model.itemsize // at.tp, at.instance["cores"] // at.lnc
        far = self.plan.nodes > 1
        found = asked(at.instance["name"], "all_gather", 2 * size, 2, 2 if far else 1, at.lnc, have if far else at.tp * self.plan.replicas, have > 1)
        return {"kind": "all_gather", "bytes": 2 * size, "ranks": 2, "ns": found["ns"], "of": "stages", "shares": shares(found)}

    @functools.cached_property
    def ring(self):
        """Keys and values of a part of the sequence, to the next core of those that share it."""
        s = self.model.settings
        heads = getattr(s, "kv_heads", None) or s.heads
        size = 2 * self.batch * self.seq // self.plan.cp * heads * s.head_dim * self.model.itemsize / self.at.tp
        return self.over("permute", max(1, size), self.plan.cp, self.at.tp, "keys and values")

    @functools.cached_property
    def routed(self):
        """Tokens to the copies that have their experts, and back."""
        s, tokens = self.model.settings, self.batch * self.seq // self.plan.cp
        size = tokens * min(self.chosen, self.plan.ep) * s.width * self.model.itemsize / self.at.tp
        return self.over("all_to_all", max(1, size), self.plan.ep, self.at.tp * self.plan.cp, "experts")

    @property
    def chosen(self):
        """Experts of a token, in the whole model."""
        from trine.models.families import family_of

        return family_of(self.model.config).settings(self.model.config).chosen

    @functools.cached_property
    def summed(self):
        """Gradients over the cores that have the same parameters, which lie `tp` apart, and parameters that were stepped."""
        p, layers = self.plan, self.programs.layers
        rows = []
        for size, ranks, stride in self.replicated():
            if ranks == 1:
                continue
            each = size / layers
            rows.append(self.over("reduce_scatter" if p.zero else "all_reduce", each if p.zero >= 2 or p.overlap else size, ranks, stride, "gradients"))
            if p.zero:
                rows.append(self.over("all_gather", each if p.zero == 3 else size, ranks, stride, "parameters"))
        return rows

    def replicated(self):
        """[(bytes, cores that have the same, how far apart)]: experts are on fewer copies than the rest."""
        p, size = self.plan, cached.parameters_size(self.model, self.at.tp)[0]
        if p.ep == 1:
            return [(size, p.replicas, self.at.tp)]
        more = self.model.with_experts(2 * self.model.settings.experts)
        experts = cached.parameters_size(more, self.at.tp)[0] - size
        return [(size - experts, p.replicas, self.at.tp), (experts, p.replicas // p.ep, self.at.tp * p.ep)]

    def of(self, what):
        return [u for u in self.summed if u["of"] == what]

    # ---- what is computed

    def program_ms(self, run, likely):
        return neuron_ms(run, "training", self.at.instance["chip"], neuron.tail(self.model)) if likely else run.device_ms

    def scaled(self, run, likely):
        """split(), times what one engine's ms takes."""
        found = split(run.layers)
        own = sum(ms for (where, _), ms in found.items() if where not in ("mlp", "attention"))
        scale = self.program_ms(run, likely) / own if own else 0.0
        return {key: ms * scale * 1e6 for key, ms in found.items()}

    def times(self, likely):
        """ns of one layer and of what is around them, by direction; of attention over one part of a sequence; of the optimiser."""
        p, n = self.plan, self.programs.layers
        found = self.scaled(self.programs.batch, likely)
        out = {(w, direction): found.get((w, direction), 0.0) / (n if w == "layer" else 1) for w in ("layer", "embedding", "head") for direction in ("forward", "backward")}
        if p.ep > 1:  # tokens of all copies come to the experts that are here, as many as went out
            most = self.chosen / self.model.settings.experts - 1
            for direction in ("forward", "backward"):
                out["layer", direction] = max(0.0, out["layer", direction] + most * found.get(("mlp", direction), 0.0) / n)
        if p.cp > 1:  # a L + b L L: the second part meets all parts of the sequence, not its own alone
            double = self.scaled(self.programs.longer, likely)
            for direction in ("forward", "backward"):
                once, twice = (f.get(("layer", direction), 0.0) / n for f in (found, double))
                out["block", direction] = min(once, max(0.0, twice / 2 - once))
        if p.recompute in ("selective", "full") and self.programs.again:
            again = self.program_ms(self.programs.again, likely) * 1e6 / n
            out["again"] = again if p.recompute == "full" else again * self.scores_share()
        whole = self.programs.whole
        step = found.get(("optimiser", "backward"), 0.0) if whole else self.program_ms(self.programs.step, likely) * 1e6
        if whole and p.accumulate > 1:
            step = max(0.0, self.program_ms(whole, likely) - self.program_ms(self.programs.batch, likely)) * 1e6
        return out | {"optimiser": step}

    @property
    def more_work(self):
        """What the stages compute, on average, over what their programs do: those have the embedding and the head each, one
        part of a sequence, and the experts that are here. What is computed again is no work."""
        p, found = self.plan, self.programs
        own = found.whole.device_ms + (p.accumulate - 1) * found.batch.device_ms if found.whole else p.accumulate * found.batch.device_ms + found.step.device_ms
        rows = [row for stage in self.ours.found for row in stage["parts"] if row["spent"] == "compute" and row["what"] not in (LAUNCH, "recompute")]
        return sum(row["ns"] for row in rows) / 1e6 / p.pp / own if own else 1.0

    def scores_share(self):
        """Of a layer's operations forward, those of attention that are no parameter's."""
        from trine.estimate.training import score_bytes

        if not score_bytes(self.model, self.at, self.programs, self.batch, self.seq // self.plan.cp):
            return 0.0  # the program computes them again anyway
        s = self.model.settings
        scores = 4 * self.seq * s.heads * s.head_dim
        return scores / (scores + 2 * cached.parameters_count(self.model) / self.programs.layers)

    # ---- pieces

    @property
    def launch_ns(self):
        return (self.programs.batch.envelope_ms + calibration.launch_ms(self.at.instance["chip"])) * 1e6

    def asked_for(self, likely):
        """The question for _core.time_step."""
        times, p = self.times(likely), self.plan
        chip = _core.chip(self.at.instance["chip"])
        busy = min(1.0, dma_ms(self.programs.batch, chip["name"]) / max(1e-9, self.program_ms(self.programs.batch, likely)))
        write = functools.partial(self.written, times, {"dma": busy})
        stages = []
        for s, layers in enumerate(p.layers(self.total) if p.pp > 1 else [[self.programs.layers]]):
            chunks = range(len(layers))
            stage = {direction: [write(s, c, layers[c], direction) for c in chunks] for direction in ("forward", "backward")}
            if p.overlap and p.replicas > 1 and p.zero < 2:
                stage["backward_last"] = [write(s, c, layers[c], "backward", True) for c in chunks]
            stages.append(stage | {"end": self.ended(times)})
        send = {"what": "send", "ns": self.sent["ns"], "uses": self.sent["shares"], "blocks": likely} if p.pp > 1 else {"what": "send", "ns": 0.0}
        names = {piece["what"] for s in stages for direction in s.values() for chunk in direction for piece in ([chunk] if isinstance(chunk, dict) else chunk)}
        return {"names": sorted(names | {"send"}), "stages": stages, "batches": p.accumulate, "send": send,
                "packet_bytes": {"compute": chip["dma.packet_bytes"], "collective": chip["collective.packet_bytes"]}}  # fmt: skip

    def written(self, times, uses, stage, chunk, layers, direction, last=False):
        """Pieces of one pass of a batch through a chunk of layers."""
        p, out = self.plan, Pieces()
        first, final = (stage, chunk) == (0, 0), (stage, chunk) == (p.pp - 1, p.chunks - 1)
        if direction == "forward" or p.pp > 1:
            out.put(LAUNCH, self.launch_ns)
        edges = [("embedding", first), ("head", final)]
        for name, is_here in edges if direction == "forward" else edges[::-1]:
            if name == ("embedding" if direction == "forward" else "head") and is_here:
                out.put(f"{name} {direction}", times[name, direction], uses=uses)
        gathers = {0: self.gathered(out, [-2])} if p.zero == 3 else {}
        for i in range(layers):
            if p.zero == 3 and i + 1 < layers:
                gathers[i + 1] = self.gathered(out, [len(out) - 1] if i else [-1])
            self.layer(out, times, uses, direction, gathers.get(i))
            if direction == "backward" and p.replicas > 1 and (p.zero >= 2 or last):
                done = len(out) - 1
                for g in self.of("gradients"):
                    out.put("gradients", g["ns"], lane="copies", group="data", uses=g["shares"], after=[done])
        for name, is_here in edges if direction == "forward" else edges[::-1]:
            if name == ("head" if direction == "forward" else "embedding") and is_here:
                out.put(f"{name} {direction}", times[name, direction], uses=uses)
        return out

    def gathered(self, out, after):
        """A layer's parameters, from all copies; given back once it is done."""
        return [out.put("parameters", g["ns"], lane="copies", group="data", uses=g["shares"], after=after) for g in self.of("parameters")]

    def layer(self, out, times, uses, direction, gather):
        """One layer: computed again where that is asked for, its own pieces, its collectives."""
        p, after = self.plan, gather
        if direction == "backward" and times.get("again"):
            out.put("recompute", times["again"], uses=uses, after=after)
            if p.recompute == "full":
                self.sums(out, 0.5)
            after = None
        block = times.get(("block", direction), 0.0)
        begin = out.put(f"layer {direction}", times["layer", direction] - block, uses=uses, after=after)
        if p.cp > 1:
            keys = [out.put("keys and values", self.ring["ns"] * (1 if direction == "forward" else 2), lane="ring", group="data",
                            uses=self.ring["shares"], after=[begin]) for _ in range(p.cp - 1)]  # fmt: skip
            for key in [None, *keys]:
                out.put(f"attention {direction}", block, uses=uses, after=[key] if key is not None else None)
        if p.ep > 1:
            for _ in range(2):
                out.put("experts", self.routed["ns"], group="data", uses=self.routed["shares"])
        self.sums(out, 0.5)

    def sums(self, out, share):
        """Tensor parallelism: what a batch's program asks for, evenly over its layers and both ways."""
        for u in self.tensor:
            ns = u["ns"] * u["count"] * share / self.programs.layers
            out.put("tensor " + u["kind"].replace("_", "-"), ns, group="tensor", uses=u.get("shares"))

    def ended(self, times):
        """After the last batch: the sum of gradients where it is one, the optimiser, parameters to all copies."""
        p, out = self.plan, Pieces()
        for u in self.of("gradients") if p.zero < 2 and not p.overlap else ():
            out.put("gradients", u["ns"], group="data", uses=u["shares"], after_all=True)
        if not self.programs.whole:
            out.put(LAUNCH, self.launch_ns)
        out.put("optimiser", times["optimiser"], uses={"dma": 1.0}, after_all=True)
        for u in self.of("parameters") if p.zero < 3 else ():
            out.put("parameters", u["ns"], group="data", uses=u["shares"])
        return out

    @functools.cached_property
    def ours(self):
        """StepTime of our own programs."""
        return StepTime(_core.time_step(json.dumps(self.asked_for(False))))

    @functools.cached_property
    def likely(self):
        """StepTime of programs as Neuron's are likely to be."""
        return StepTime(_core.time_step(json.dumps(self.asked_for(True))))

    def spans(self):
        """What each lane of each stage did, of the last batches that differ, for a picture."""
        return _core.time_step(json.dumps(self.asked_for(True)), spans=True)


class StepTime:
    """What _core.time_step found, in ms; of the stage that computes longest where none is named."""

    def __init__(self, found):
        self.ms, self.found = found["ns"] / 1e6, found["stages"]

    def parts(self, stage=None):
        """{compute, slowed, collectives (exposed), bubbles, launch, hidden}; all but the last add up to ms."""
        rows = self.found[self.longest if stage is None else stage]
        sums = {"compute": 0.0, "slowed": 0.0, "collectives": 0.0, "bubbles": 0.0, "launch": 0.0}
        for p in rows["parts"]:
            key = {"collective": "collectives", "waits": "bubbles"}.get(p["spent"], p["spent"])
            sums[LAUNCH if p["what"] == LAUNCH else key] += p["ns"] / 1e6
        return sums | {"hidden": rows["hidden_ns"] / 1e6}

    @functools.cached_property
    def longest(self):
        sums = [sum(p["ns"] for p in s["parts"] if p["spent"] == "compute") for s in self.found]
        return sums.index(max(sums))

    def exposed(self):
        """{what: ms} of collectives that the longest stage's engines waited for while they ran."""
        out = {}
        for p in self.found[self.longest]["parts"]:
            if p["spent"] == "collective":
                out[p["what"]] = out.get(p["what"], 0.0) + p["ns"] / 1e6
        return out

    def as_dict(self):
        stages = []
        for i, s in enumerate(self.found):
            waits = [{"for_stage": p.get("stage"), "what": p["what"], "ms": p["ns"] / 1e6} for p in s["parts"] if p["spent"] == "waits"]
            stages.append({"stage": i, "in_flight": s["in_flight"], **{f"{k}_ms": ms for k, ms in self.parts(i).items()},
                           "waits": sorted(waits, key=lambda w: -w["ms"]), "collectives_ms_by": {k: ns / 1e6 for k, ns in s["collectives"].items()}})
        return {"ms": self.ms, "longest_stage": self.longest, "stages": stages}
