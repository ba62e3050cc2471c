"""A training step: gradients of some batches on every copy, their sum over all copies, one step of the optimiser.

plan.py says how it is spread over cores; here are its programs and what a core holds, stages.py makes the step of them.
Where what all layers keep for the way back does not fit, only what goes into each is kept and each is computed once more.
"""

import dataclasses
import functools
import math

from trine.estimate import cached, cores, stages
from trine.estimate.lowering import traced
from trine.estimate.plan import OPTIMISERS
from trine.estimate.program import extended, once, timed_program
from trine.estimate.where import line

WIDE = 1024  # parameters of one partition's row in the optimiser's program
MOST = 1 << 24  # parameters of the optimiser's program; of more than twice as many, the time grows by the same


@dataclasses.dataclass
class Programs:
    """Of one stage, as they were timed. `batch`: gradients of one; `step`: of the optimiser, None where `whole` has it."""

    batch: object
    step: object = None
    whole: object = None  # gradients and the optimiser in one
    again: object = None  # layers forward, for the way back
    longer: object = None  # of twice as many tokens: says how attention grows
    layers: int = 1  # of the programs

    def runs(self, plan):
        """[(Run, how often in a step)], the main one first."""
        if self.whole:
            return [(self.whole, 1)] + ([(self.batch, plan.accumulate - 1)] if plan.accumulate > 1 else [])
        out = [(self.batch, plan.accumulate), (self.step, 1)]
        return out + ([(dataclasses.replace(self.again, is_repeated=True), plan.accumulate)] if self.again else [])


def trained(run, made, plan, *, batch, seq):
    """run, made: as estimate() has them."""
    model, at = run.args[0], run.keywords["at"]
    total = getattr(model.settings, "layers", 1)
    model = part_of(model, plan)
    run = functools.partial(run.func, model, **run.keywords)
    found = programs(run, model, at, plan, batch, seq // plan.cp)
    memory = held(model, at, plan, found, batch, seq // plan.cp)
    if plan.recompute == "auto":
        plan = dataclasses.replace(plan, recompute="none")
        if not memory["fits"] and model.family.kind == "decoder":
            plan = dataclasses.replace(plan, recompute="full")
            memory = held(model, at, plan, found, batch, seq // plan.cp)
    if plan.recompute in ("selective", "full") and not found.whole:
        found.again = run("prefill", batch, seq // plan.cp)
    if found.whole:
        found.whole = dataclasses.replace(found.whole, memory=memory)
    else:
        found.batch = dataclasses.replace(found.batch, memory=memory)
    step = stages.Spread(model, at, plan, found, batch, seq, total)
    return made(phase="train", seq=seq, kind="training", runs=found.runs(plan), collectives=step.uses(), results=made.keywords["batch"] * plan.accumulate,
                copies=plan.copies, plan=plan, step=step)  # fmt: skip


def part_of(model, plan):
    """What one stage has of the layers (the longest) and one copy of the experts; the last stage has the head besides."""
    if plan.pp > 1:
        model = model.with_layers(max(sum(each) for each in plan.layers(model.settings.layers)))
    return model.with_experts(model.settings.experts // plan.ep) if plan.ep > 1 else model


def programs(run, model, at, plan, batch, seq):
    layers = getattr(model.settings, "layers", 1)
    if not plan.zero and model.family.kind != "decoder":
        whole = run("train", batch, seq)
        return Programs(run("gradients", batch, seq) if plan.accumulate > 1 else whole, whole=whole, layers=layers)
    found = Programs(run("gradients", batch, seq), layers=layers)
    found.step = stepped(model, at, plan.replicas if plan.zero else 1, plan.optimiser, run.keywords)
    if plan.cp > 1:
        found.longer = run("gradients", batch, 2 * seq)
    return found


def held(model, at, plan, found, batch, seq):
    """Bytes of a logical core of the first stage, which has the most batches in flight."""
    own = (found.whole or found.batch).memory
    if found.whole:
        return own
    layers, shares = found.layers, plan.replicas
    scores = score_bytes(model, at, found, batch, seq) if plan.recompute == "selective" else 0
    scratch = in_flight_bytes(model, at, plan, own["scratch"], layers, batch, seq, scores)
    state = found.step.memory["optimiser"]
    gradients = own["optimiser"] / (shares if plan.zero >= 2 else 1)
    weights = own["weights"]
    if plan.zero == 3:  # its share, and the layer at work and the next
        weights = weights / shares + 2 * weights / layers
    out = own | {"weights": int(weights), "optimiser": int(gradients + state), "scratch": int(scratch)}
    out["used"] = sum(out[name] for name in ("weights", "cache", "optimiser", "activations", "scratch"))
    return out | {"fits": out["used"] <= out["room"]}


def in_flight_bytes(model, at, plan, own, layers, batch, seq, scores=0):
    """Bytes of all batches in flight, where the program of one keeps `own`: what goes into each layer, or all but `scores`."""
    in_flight = stages.in_flight(plan) / plan.chunks
    if plan.recompute != "full":
        return in_flight * (own - scores)
    tokens = at.parts * batch * seq // at.shards
    return own // layers + in_flight * layers * tokens * model.settings.width * model.itemsize


def score_bytes(model, at, found, batch, seq):
    """What a program keeps of attention's scores, where it does (Korthikanti et al.: 34 s b h bytes a layer without them,
    5 a s s b more with them); nothing where its memory shows that it does not."""
    s, layers = model.settings, found.layers
    plain = layers * 34 * seq * batch * s.width * at.parts // at.shards
    scores = layers * 5 * s.heads * seq * seq * batch * at.parts // at.shards
    return scores if found.batch.memory["scratch"] >= plain + scores else 0


def stepped(model, at, shares, optimiser, how):
    """AdamW on a share of a core's parameters: moments in f32 or bf16, and a copy of the parameters in f32, or none where
    what is written back is rounded stochastically."""
    count = -(-cached.parameters_size(model, at.shards)[1] // shares)
    dtype, casts = model.dtype_name, (how["cast"], how["cast_type"])

    def timed(size):
        asked = [optimiser, dtype, size]
        return timed_program(cached.program(None, "the optimiser", asked, lambda: optimiser_step(*asked)), at, "the optimiser", *casts)

    def of(size):
        return once(f"optimiser {optimiser}, {dtype}, {size}, {' '.join(casts)}", at, lambda: timed(size))

    if count <= 2 * MOST:
        return of(count)
    one, two = of(MOST), of(2 * MOST)
    return extended(one, two, count / MOST - 1, [], line(one.layers, two.layers, count / MOST - 1))


def optimiser_step(optimiser, dtype, size):
    """Traced, of so many parameters."""
    import jax
    import jax.numpy as jnp

    from trine.models.training import adamw, adamw_init

    moments, copied = OPTIMISERS[optimiser]
    kind, state_kind = jnp.dtype(dtype), jnp.float32 if moments == 8 else jnp.bfloat16
    shape = (-(-size // WIDE), WIDE)
    wide, grads = ({"share": jax.ShapeDtypeStruct(shape, one)} for one in (jnp.float32 if copied else kind, kind))
    state = jax.eval_shape(lambda params: {k: jax.tree.map(lambda x: x.astype(state_kind) if x.ndim else x, v) for k, v in adamw_init(params).items()}, wide)

    def step(state, params, grads):
        new, after = adamw(grads, state, params, 1e-4)
        after = jax.tree.map(lambda x, like: x.astype(like.dtype), after, state)
        return ({"state": after, "params": new} if copied else {"state": after}), jax.tree.map(lambda x: x.astype(kind), new)

    if copied:
        shapes = ({"state": state, "params": wide}, grads)
        return traced(lambda kept, grads: step(kept["state"], kept["params"], grads), shapes, {"optimiser": 0}, (0,))
    shapes = ({"state": state}, grads, wide)
    return traced(lambda kept, grads, params: step(kept["state"], params, grads), shapes, {"optimiser": 0}, (0, 2))
