"""One phase of a model's work as a function and the shapes of its arguments, for one core: what a timer needs.

With `tp` cores the function is one core's, its collectives over the axis "tp" in place, its shapes that core's.
"""

from dataclasses import dataclass, field

from trine.models.families import ConfigError

PHASES = ("prefill", "decode", "train", "gradients", "forward")
AXIS = "tp"
TRAINED = {"encoder": "masked", "decoder": "lm"}  # of kinds whose files may have no head: what they are trained with
UNCUT = ("resnet", "unet", "convnext", "efficientnet", "vgg", "swin", "vae", "perceiver")


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


def phase(model, phase, batch, seq, tp=1, parts=1, tokens=None):
    """prefill: `seq` tokens into a cache of that length; with `tokens`, the last so many of them, the others being there
    already. decode: one more token after `seq` - 1, with the cache full.

    train: loss, gradients and AdamW in one step. forward: everything at once, without a cache. Arguments are
    (parameters, inputs[, cache]), for train (parameters, optimiser state, inputs).
    gradients: loss and gradients, added to those of earlier batches: (parameters, their sum so far, inputs).
    parts: each of the `tp` cores is itself that many, which split its work the same way. Two that have a head between
    them take halves of its queries in prefill and of its keys in decode; elsewhere each does all of it.
    """
    import jax
    from jax.sharding import AbstractMesh, PartitionSpec

    from trine.models.training import adamw_init

    if phase not in PHASES:
        raise ConfigError(f'no phase "{phase}"; there are {", ".join(PHASES)}')
    if tp > 1 and model.family.kind in UNCUT:
        raise ConfigError(f"{model.family.name} is not cut by tensor parallelism; run one copy on each core")
    like = "train" if phase == "gradients" else phase
    if like == "train" and model.family.kind in TRAINED and not model.settings.head:
        model = model.with_head(TRAINED[model.family.kind])
    tp *= parts
    model = model.with_share(shared_by(model, phase, tokens or seq, tp, parts))
    axis = AXIS if tp > 1 else None
    core = _functions(model, axis, {"at": seq - tokens} if tokens else {})[phase]
    weights, inputs = model.parameters_shapes(tp), model.input_shapes(like, batch, tokens or seq)
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
        by_heads = model.functions.cache_specs(model.settings, AXIS)
        shapes, specs, results, donated = (weights, inputs, cache), (by_core, everywhere, by_heads), (everywhere, by_heads), (2,)
    function = core
    if axis:
        # Every core's arguments as if they were all alike: the program then has one core's shapes throughout.
        function = jax.shard_map(core, mesh=AbstractMesh((tp,), (AXIS,)), in_specs=everywhere, out_specs=everywhere, check_vma=False)
    return Phase(function, shapes, core, specs, results, donated)


def shared_by(model, phase, seq, cores, parts):
    """What two cores of a logical one divide where they have a head between them; "" where they have not."""
    c = model.settings
    if model.family.kind != "decoder" or parts != 2 or cores < 2 * c.heads:
        return ""
    plain = c.mixer == "attention" and c.qk_norm in ("", "head") and not (c.forms or c.sinks or c.score_cap or c.clip)
    if not plain or c.window or c.positions == "alibi":
        return ""
    from trine.models.block import attention_parameters

    layer = attention_parameters(c)
    if any(layer[name]["w"].on_core(cores)[-1] != c.head_dim for name in "qk"):
        return ""
    if phase == "decode":
        return "keys" if seq % 2 == 0 and c.head_dim % 4 == 0 else ""
    return "queries" if phase == "prefill" and seq % 4 == 0 else ""


def _functions(model, axis, where):
    return {
        "prefill": lambda params, inputs, cache: model.prefill(params, inputs, cache, axis, **where),
        "decode": lambda params, inputs, cache: model.decode(params, inputs, cache, axis),
        "train": lambda params, state, inputs: model.train_step(params, state, inputs, axis=axis),
        "gradients": lambda params, before, inputs: model.gradients(params, before, inputs, axis),
        "forward": lambda params, inputs: model.forward(params, inputs, axis),
    }

