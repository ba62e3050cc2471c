"""Functions with partitioning rules of their own (jax.experimental.custom_partitioning).

JAX hands the rules to XLA's partitioner as a custom call with a pointer into Python. Ours partitions what the function is
made of, which gives the same values: the function is emitted in place of the call.
"""

from jax._src import core
from jax._src.custom_partitioning import custom_partitioning_p
from jax._src.interpreters import mlir


def _lower(ctx, *values, call, **_):
    return mlir.lower_fun(core.jaxpr_as_fun(call), multiple_results=True)(ctx, *values)


def register(platform: str) -> None:
    mlir.register_lowering(custom_partitioning_p, _lower, platform=platform)
