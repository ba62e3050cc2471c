"""One phase of a model's work as a function and the shapes of its arguments, for one core: what a timer needs.

With `tp` cores the function is one core's, its collectives over the axis "tp" in place, its shapes that core's.
"""

from dataclasses import dataclass, field

from trine.models.families import ConfigError
from trine.models.training import adamw_init

PHASES = ("prefill", "decode", "train", "gradients", "forward")
AXIS = "tp"
UNCUT = ("resnet", "unet")


@dataclass(frozen=True)
class Phase:
    """Unpacks as (function, shapes); `jax.jit(function).lower(*shapes)` is one core's program."""

    function: object
    shapes: tuple
    core: object  # the function inside shard_map over the axis "tp"; the same function where tp is 1
    specs: tuple  # how a mesh lays out the arguments
    result_specs: tuple | object
    donated: tuple = field(default=())  # arguments whose memory the results may take

    def __iter__(self):
        return iter((self.function, self.shapes))

    def over(self, mesh):
        """The function of whole arguments, laid out by `specs` over a mesh that has the axis "tp"."""
        import jax

        return jax.shard_map(self.core, mesh=mesh, in_specs=self.specs, out_specs=self.result_specs, check_vma=False)


def phase(model, phase, batch, seq, tp=1, parts=1):
    """prefill: `seq` tokens into a cache of that length. decode: one more token after `seq` - 1, with the cache full.

    train: loss, gradients and AdamW in one step. forward: everything at once, without a cache. Arguments are
    (parameters, inputs[, cache]), for train (parameters, optimiser state, inputs).
    gradients: loss and gradients, added to those of earlier batches: (parameters, their sum so far, inputs).
    parts: each of the `tp` cores is itself that many, which split its work the same way; what cannot be dealt out any
    finer (heads) each of them then does whole.
    """
    import jax
    from jax.sharding import AbstractMesh, PartitionSpec

    if phase not in PHASES:
        raise ConfigError(f'no phase "{phase}"; there are {", ".join(PHASES)}')
    if tp > 1 and model.family.kind in UNCUT:
        raise ConfigError(f"{model.family.name} is not cut by tensor parallelism; run one copy on each core")
    like = "train" if phase == "gradients" else phase
    if like == "train" and model.family.kind == "encoder" and not model.settings.head:
        model = model.with_head("masked")
    tp *= parts
    axis = AXIS if tp > 1 else None
    core = _functions(model, axis)[phase]
    weights, inputs = model.parameters_shapes(tp), model.input_shapes(like, batch, seq)
    everywhere = PartitionSpec()
    by_core = model.shardings(AXIS)
    if phase == "train":
        state = jax.eval_shape(adamw_init, weights)
        states = {"mean": by_core, "square": by_core, "count": everywhere}
        shapes, specs, results, donated = (weights, state, inputs), (by_core, states, everywhere), (by_core, states, everywhere), (0, 1)
    elif phase == "gradients":
        shapes, specs, results, donated = (weights, weights, inputs), (by_core, by_core, everywhere), (by_core, everywhere), (1,)
    elif phase == "forward":
        shapes, specs, results, donated = (weights, inputs), (by_core, everywhere), everywhere, ()
    else:
        cache = model.cache_shapes(batch, seq, tp)
        kept = PartitionSpec(None, None, AXIS)
        shapes, specs, results, donated = (weights, inputs, cache), (by_core, everywhere, kept), (everywhere, kept), (2,)
    function = core
    if axis:
        # Every core's arguments as if they were all alike: the program then has one core's shapes throughout.
        function = jax.shard_map(core, mesh=AbstractMesh((tp,), (AXIS,)), in_specs=everywhere, out_specs=everywhere, check_vma=False)
    return Phase(function, shapes, core, specs, results, donated)


def _functions(model, axis):
    return {
        "prefill": lambda params, inputs, cache: model.prefill(params, inputs, cache, axis),
        "decode": lambda params, inputs, cache: model.decode(params, inputs, cache, axis),
        "train": lambda params, state, inputs: model.train_step(params, state, inputs, axis=axis),
        "gradients": lambda params, before, inputs: model.gradients(params, before, inputs, axis),
        "forward": lambda params, inputs: model.forward(params, inputs, axis),
    }

