"""A training step: gradients of some batches on every copy, their sum over all copies, one step of the optimiser.

Copies see different data. A copy's layers may lie on `pp` groups of cores, one after the other (pipeline): batches go
through one by one, so the first reaches the last stage pp - 1 batches late. With ZeRO-1 each copy keeps and steps its
share of the optimiser's state: gradients are summed to the shares, and what was stepped is gathered. Where what all
layers keep for the way back does not fit, only what goes into each is kept and each is computed once more.
"""

import dataclasses
import functools
import math

from trine import _core
from trine.estimate import cores
from trine.estimate.lowering import bytes_of, stablehlo
from trine.estimate.program import extended, timed_program
from trine.estimate.where import line
from trine.models.families import ConfigError

WIDE = 1024  # parameters of one partition's row in the optimiser's program
MOST = 1 << 24  # parameters of the optimiser's program; of more than twice as many, the time grows by the same


@dataclasses.dataclass(frozen=True)
class Plan:
    """How many instances, and what they do between two steps of the optimiser."""

    nodes: int
    copies: int
    pp: int
    accumulate: int
    zero1: bool
    recomputed: bool = False  # layers, on the way back


def plan(model, at, batch, *, nodes=None, pp=1, dp=None, accumulate=None, global_batch=None, zero1=None):
    """Checks what was asked for and fills in the rest. batch: of one copy at a time."""
    layers = getattr(model.settings, "layers", 1)
    if pp > 1 and (model.family.kind != "decoder" or pp > layers):
        raise ConfigError(f"pp {pp}; a pipeline is cut between a decoder's layers, this has {layers if model.family.kind == 'decoder' else 'none'}")
    each = at.instance["cores"]
    nodes = nodes or math.ceil((dp or 1) * at.cores * pp / each)
    most = nodes * each // (at.cores * pp)
    if most < 1:
        raise ConfigError(f"tp {at.tp} and pp {pp} take {at.cores * pp} cores; {nodes} {at.instance['name']} have {nodes * each}: --nodes {math.ceil(at.cores * pp / each)}")
    if dp and dp > most:
        raise ConfigError(f"dp {dp}; {nodes} {at.instance['name']} hold {most} copies of tp {at.tp}" + (f", pp {pp}" if pp > 1 else ""))
    copies = dp or most
    if global_batch:
        if global_batch % (batch * copies):
            raise ConfigError(f"global batch {global_batch}; {copies} copies of batch {batch} take multiples of {batch * copies}")
        accumulate = global_batch // (batch * copies)
    zero1 = zero1 if zero1 is not None else model.family.kind == "decoder"
    return Plan(nodes, copies, pp, accumulate or 1, zero1 and copies > 1)


def trained(run, made, plan, *, batch, seq):
    """run, made: as estimate() has them."""
    model, at = run.args[0], run.keywords["at"]
    if plan.pp > 1:  # the last stage, which has the head, is the longest
        model = model.with_layers(math.ceil(model.settings.layers / plan.pp))
        run = functools.partial(run.func, model, **run.keywords)
    runs_made, uses, late_ms = gradients(run, plan, batch, seq)
    main, more = runs_made[0][0], plan.pp - 1
    if not main.memory["fits"] and model.family.kind == "decoder":
        plan = dataclasses.replace(plan, recomputed=True)
        again, flight, layers = run("prefill", batch, seq), min(plan.pp, plan.accumulate), model.settings.layers
        held = at.parts * layers * batch * seq * model.settings.width * model.dtype.itemsize // at.shards
        runs_made[0] = holding(main, 0, main.memory["scratch"] // (flight * layers) + flight * held), runs_made[0][1]
        runs_made.append((dataclasses.replace(again, is_repeated=True), plan.accumulate))
        uses += times(cores.collectives(again.uses, at), plan.accumulate + more)
        late_ms += more * again.device_ms
    if plan.pp > 1:
        uses.append(passed(model, at, plan, batch * seq, 2 * (plan.accumulate + more)))
    if plan.copies > 1:
        uses += summed(model, at, plan)
    return made(phase="train", seq=seq, kind="training", runs=runs_made, collectives=uses, results=made.keywords["batch"] * plan.accumulate,
                copies=plan.copies, plan=plan, late_ms=late_ms)  # fmt: skip


def gradients(run, plan, batch, seq):
    """(programs of a step with how often each runs, what they ask of other cores, what a pipeline waits for)."""
    model, at, count = run.args[0], run.keywords["at"], plan.accumulate
    if not plan.zero1 and plan.pp == 1:
        whole = run("train", batch, seq)
        if count == 1:
            return [(whole, 1)], cores.collectives(whole.uses, at), 0.0
        part = run("gradients", batch, seq)
        return [(whole, 1), (part, count - 1)], cores.collectives(whole.uses, at) + times(cores.collectives(part.uses, at), count - 1), 0.0
    part = run("gradients", batch, seq)
    step = stepped(model, at, plan.copies if plan.zero1 else 1, run.keywords)
    main = holding(part, step.memory["optimiser"], part.memory["scratch"] * min(plan.pp, count))
    uses = times(cores.collectives(part.uses, at), count + plan.pp - 1)
    return [(main, count), (step, 1)], uses, (plan.pp - 1) * part.device_ms


def times(uses, count):
    return [u | {"count": u["count"] * count} for u in uses]


def holding(part, state, scratch):
    """Gradients, and beside them the optimiser's state and what batches in flight keep for their way back."""
    held = part.memory | {"optimiser": part.memory["optimiser"] + state, "scratch": scratch}
    held["used"] = sum(held[name] for name in ("weights", "cache", "optimiser", "activations", "scratch"))
    return dataclasses.replace(part, memory=held | {"fits": held["used"] <= held["room"]})


def stepped(model, at, shares, how):
    """AdamW on a share of a core's parameters, with a copy of them in f32."""
    import jax
    import jax.numpy as jnp

    from trine.models.training import adamw, adamw_init

    count = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(model.parameters_shapes(at.shards)))
    count = -(-count // shares)

    def timed(size):
        shape = (-(-size // WIDE), WIDE)
        wide, grads = ({"share": jax.ShapeDtypeStruct(shape, dtype)} for dtype in (jnp.float32, model.dtype))

        def step(state, params, grads):
            new, state = adamw(grads, state, params, 1e-4)
            return {"state": state, "params": new}, jax.tree.map(lambda x: x.astype(model.dtype), new)

        shapes = ({"state": jax.eval_shape(adamw_init, wide), "params": wide}, grads)
        artifact = stablehlo(lambda kept, grads: step(kept["state"], kept["params"], grads), *shapes, donated=(0,), lines=True)
        return timed_program(artifact, at, "the optimiser", shapes, {"optimiser": 0}, (0,), how["cast"], how["cast_type"])

    if count <= 2 * MOST:
        return timed(count)
    one, two = timed(MOST), timed(2 * MOST)
    return extended(one, two, count / MOST - 1, [], line(one.layers, two.layers, count / MOST - 1))


def passed(model, at, plan, tokens, count):
    """Activations to the next stage and their gradients back, a gather of two as Neuron sends them: each core what it has
    of the tokens. Stages lie as far apart as all copies of one take, so between instances where there are several."""
    size, have = tokens * model.settings.width * model.dtype.itemsize // at.tp, at.instance["cores"] // at.lnc
    far = plan.nodes > 1
    found = _core.time_collective(at.instance["name"], "all_gather", 2 * size, 2, nodes=2 if far else 1, lnc=at.lnc,
                                  stride=have if far else at.tp * plan.copies, all_groups=have > 1)  # fmt: skip
    return {"kind": "all_gather", "bytes": 2 * size, "ranks": 2, "count": count, "ns": found["ns"], "of": "stages"}


def summed(model, at, plan):
    """The sum of the gradients over all copies, which lie `tp` cores apart; all groups use the wires at once."""
    size, nodes = bytes_of(model.parameters_shapes(at.tp)), math.ceil(plan.copies * at.cores / at.instance["cores"])

    def use(kind, of):
        found = _core.time_collective(at.instance["name"], kind, size, plan.copies, nodes=nodes, lnc=at.lnc,
                                      stride=at.tp, all_groups=at.tp > 1)  # fmt: skip
        return {"kind": kind, "bytes": size, "ranks": plan.copies, "count": 1, "ns": found["ns"], "of": of}

    if plan.zero1:
        return [use("reduce_scatter", "gradients"), use("all_gather", "parameters")]
    return [use("all_reduce", "gradients")]
