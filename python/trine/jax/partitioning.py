"""Functions with partitioning rules of their own (jax.experimental.custom_partitioning).

JAX hands the rules to XLA's partitioner as a custom call with a pointer into Python. Ours partitions what the function is
made of, which gives the same values: the function is emitted in place of the call. How its arguments and results lie is
then asked of the compiled program, and the rules are called with it: one that contradicts itself is the error it is
elsewhere.
"""

from jax._src import core, custom_partitioning
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jax._src.lib.mlir import ir

from trine.jax import inspecting


class Rules:
    """Those of one call, until it is known how all of its values lie."""

    def __init__(self, key, avals_in, avals_out):
        self.key, self.count, self.avals = key, len(avals_in), (*avals_in, *avals_out)
        self.shardings = [None] * len(self.avals)

    def seer(self, i):
        def seen(sharding):
            self.shardings[i] = sharding
            if all(s is not None and not s.is_manual() for s in self.shardings):
                self.check()

        return seen

    def check(self):
        shapes = [xla_client.Shape.array_shape(a.dtype, a.shape) for a in self.avals]
        shardings, results = self.shardings[: self.count], self.shardings[self.count :]
        shape = shapes[self.count] if len(results) == 1 else xla_client.Shape.tuple_shape(shapes[self.count :])
        result = results[0] if len(results) == 1 else xla_client.HloSharding.tuple_sharding(shape, results)
        custom_partitioning._custom_partitioning_partition(shapes[: self.count], shardings, shape, result, self.key)


def _lower(ctx, *values, call, **params):
    emit = mlir.lower_fun(core.jaxpr_as_fun(call), multiple_results=True)
    asked = custom_partitioning._custom_partitioning_lowering_rule(ctx, *values, call=call, **params)
    ops = ir.InsertionPoint.current.block.operations
    op = ops[len(ops) - 1]
    if op.name != "stablehlo.custom_call" or list(op.results) != list(asked):
        return asked  # of one device, or within a manual part: the function as it is
    rules = Rules(ir.StringAttr(op.attributes["backend_config"]).value.encode(), ctx.avals_in, ctx.avals_out)
    op.erase()
    values = [inspecting.emit(ctx, v, rules.seer(i)) for i, v in enumerate(values)]
    results, _ = mlir.ir_tree_registry.flatten(emit(ctx, *values))
    return [inspecting.emit(ctx, v, rules.seer(len(values) + i)) for i, v in enumerate(results)]


def register(platform: str) -> None:
    mlir.register_lowering(custom_partitioning.custom_partitioning_p, _lower, platform=platform, cacheable=False)
