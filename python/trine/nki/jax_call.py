"""A kernel inside what JAX traces: one primitive, which becomes a custom call that programs of NeuronCores know.

The chip is chosen when the program is lowered. JAX's own CPU has no such call: there it is a callback.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax._src.interpreters import mlir
from jax.interpreters import batching

from trine.nki import arrays
from trine.nki.kernel import _Slot, _split, map_results, outputs_of, run

TARGET = "AwsNeuronCustomNativeKernel"


class Call:
    """A kernel and its arguments, arrays left out: what is the same for every chip."""

    def __init__(self, kernel, args, kwargs):
        found = []
        self.kernel = kernel
        self.args = [_split(a, f"arg{i}", found) for i, a in enumerate(args)]
        self.kwargs = {k: _split(v, k, found) for k, v in kwargs.items()}

    def compiled(self, shapes):
        def put(value):
            if isinstance(value, _Slot):
                return shapes[value.index]
            if type(value) in (list, tuple):
                return type(value)(map(put, value))
            return {k: put(v) for k, v in value.items()} if type(value) is dict else value

        return self.kernel.compiled(self.kernel.chip(), [put(a) for a in self.args],
                                    {k: put(v) for k, v in self.kwargs.items()}, recorded=True)[0]  # fmt: skip

    def run(self, given):
        """All outputs, those for arguments that are written included."""
        given = [np.asarray(a) for a in given]
        return outputs_of(self.compiled(given), self.kernel.chip(), given)


def call(kernel, args, kwargs, given, compiled):
    """The kernel's results as JAX traces it."""
    recorded, _ = kernel.compiled(kernel.chip(), args, kwargs, recorded=True)
    if not recorded.is_callable:  # several cores, or it prints
        results = map_results(compiled.results, lambda _, shape, dtype: arrays.jax_struct(shape, dtype))
        return jax.pure_callback(lambda *data: run(compiled, kernel.chip(), [np.array(a) for a in data]), results, *given)
    found = call_p.bind(*given, call=Call(kernel, args, kwargs))
    by_name = {name: value for (name, _, _), value in zip(recorded.outputs, found)}
    return map_results(recorded.results, lambda name, shape, dtype: by_name[name])


call_p = Primitive("nki_kernel")
call_p.multiple_results = True


@call_p.def_impl
def _impl(*given, call):
    return [jnp.asarray(x) for x in call.run(given)]


@call_p.def_abstract_eval
def _abstract(*avals, call):
    compiled = call.compiled([arrays.ShapeDtype(a.shape, a.dtype) for a in avals])
    return [jax.core.ShapedArray(s.shape, s.dtype) for s in (arrays.jax_struct(shape, dtype) for _, shape, dtype in compiled.outputs)]


def _lower(ctx, *operands, call):
    if tuple(ctx.module_context.platforms) != ("neuron",):
        shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in ctx.avals_out]
        back = mlir.lower_fun(lambda *given: jax.pure_callback(lambda *data: call.run(data), shapes, *given), True)
        return back(ctx, *operands)
    compiled = call.compiled([arrays.ShapeDtype(a.shape, a.dtype) for a in ctx.avals_in])
    types = [mlir.aval_to_ir_type(ctx.module_context, a) for a in ctx.avals_out]
    return list(mlir.custom_call(TARGET, result_types=types, operands=operands, backend_config=compiled.recording, api_version=1).results)


mlir.register_lowering(call_p, _lower, cacheable=False)


def _batched(given, dims, *, call):
    """One after the other: a kernel is for the shapes it was written for."""
    size = next(a.shape[d] for a, d in zip(given, dims) if d is not None)
    moved = [jnp.broadcast_to(a, (size, *a.shape)) if d is None else jnp.moveaxis(a, d, 0) for a, d in zip(given, dims)]
    found = jax.lax.map(lambda one: call_p.bind(*one, call=call), tuple(moved))
    return found, [0] * len(found)


batching.primitive_batchers[call_p] = _batched
