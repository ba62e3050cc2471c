"""What one logical core must hold, from the program's own tensors, and what to do where that is too much.

`resident` says what is there whatever the program does, from shapes alone, before anything is compiled.
"""

import dataclasses

SIZES = {"f32": 4, "s32": 4, "u32": 4, "bf16": 2, "f16": 2, "s16": 2, "u16": 2}


def tensor_bytes(t):
    size = SIZES.get(t["dtype"], 1)
    for n in t["shape"]:
        size *= n
    return size


def per_core(programs, scratch, ranges, given, parts, room):
    """ranges: name -> positions of the inputs that are weights, cache or the optimiser's. All other inputs and results
    are activations; results that take the memory of `given` inputs count once. scratch: bytes of it in use at once.
    programs: of which one is on the device at a time; an input that several have counts once."""
    inputs, results = {}, 0
    for program in programs:
        written = 0
        for t in program.tensors:
            if t["space"] == "hbm" and t["kind"] == "input":
                inputs[t["name"]] = max(tensor_bytes(t), inputs.get(t["name"], 0))
            elif t["space"] == "hbm" and t["kind"] == "output":
                written += tensor_bytes(t)
        results = max(results, written)
    results = max(0, results - sum(inputs.get(f"arg{i}", 0) for i in given))
    out = {name: parts * sum(inputs.pop(f"arg{i}", 0) for i in at) for name, at in ranges.items()}
    out = {"weights": 0, "cache": 0, "optimiser": 0} | out
    out["activations"] = parts * (sum(inputs.values()) + results)
    out["scratch"] = parts * scratch
    out["used"] = sum(out.values())
    return out | {"room": room, "fits": out["used"] <= room}


def advice(memory, tp, most):
    """The smallest number of cores that would hold it, were all of it cut evenly; None where the instance has too few."""
    for cores in (2**i for i in range(12)):
        if cores > tp and cores <= most and memory["used"] * tp / cores <= memory["room"]:
            return cores
    return None


@dataclasses.dataclass
class TooLarge:
    """In place of an answer: what is on the device in any case is more than it holds, so nothing was compiled."""

    name: str
    phase: str
    instance: str
    tp: int
    memory: dict
    fits_at_tp: int | None

    def as_dict(self):
        """What `trine estimate --json` prints of it."""
        return {"version": 1, "model": self.name, "phase": self.phase, "instance": self.instance, "tp": self.tp,
                "memory_bytes_per_core": self.memory, "fits_at_tp": self.fits_at_tp}  # fmt: skip


def resident(model, phase, batch, seq, at, plan=None, narrow=False):
    """Weights, cache and the optimiser's state of one logical core. narrow: weights may be held in two bytes instead of
    four. plan: of training (plan.Plan)."""
    from trine.estimate import cached
    from trine.estimate.plan import OPTIMISERS

    out = {"weights": 0, "cache": 0, "optimiser": 0, "activations": 0, "scratch": 0}
    if plan:
        from trine.estimate.training import part_of

        model = part_of(model, plan)
    weights, count = cached.parameters_size(model, at.shards)
    out["weights"] = at.parts * weights // (2 if narrow else 1)
    if phase in ("prefill", "decode"):
        out["cache"] = at.parts * cached.cache_bytes(model, batch, seq, at.shards)
    if plan and (plan.zero or model.family.kind == "decoder"):  # the gradients' sum, and a share of the optimiser's state
        shares = plan.replicas if plan.zero else 1
        out["optimiser"] = at.parts * (weights // (shares if plan.zero >= 2 else 1) + sum(OPTIMISERS[plan.optimiser]) * count // shares)
        if plan.zero == 3:
            out["weights"] = out["weights"] // shares + 2 * out["weights"] // model.settings.layers
    elif plan:
        out["optimiser"] = at.parts * cached.optimiser_bytes(model, at.shards)
    out["used"] = sum(out.values())
    return out
