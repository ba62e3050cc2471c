"""NKI kernels inside PyTorch: `nki_op` makes an operator of a function that calls kernels, as torch-neuronx spells it.

    @nki_op("mine::rmsnorm", mutates_args={})
    def rmsnorm_op(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return rmsnorm(x, w)                                   # an @nki.jit kernel

    rmsnorm_op.register_autograd(backward, setup_context=save)

Eagerly a kernel runs by itself; where torch writes down a graph it is one call of `nki::call`, and part of the program.
"""

import hashlib
import sys

import torch

from trine.nki import arrays
from trine.nki import kernel as nki_kernel
from trine.nki.kernel import Kernel, map_results, outputs_of
from trine.torch import decompose

CALLS = {}  # hash of a kernel's recording -> (Compiled, chip)


@torch.library.custom_op("nki::call", mutates_args=())
def call_op(tensors: list[torch.Tensor], key: str) -> list[torch.Tensor]:
    compiled, chip = CALLS[key]
    return [arrays.like_inputs(values, tensors) for values in outputs_of(compiled, chip, tensors)]


@call_op.register_fake
def _(tensors, key):
    compiled, _ = CALLS[key]
    return [tensors[0].new_empty(shape, dtype=_dtype(dtype)) for _, shape, dtype in compiled.outputs]


def _dtype(dtype):
    return {"bool_": torch.bool, "float8_e4m3": torch.float8_e4m3fn}.get(str(dtype)) or getattr(torch, str(dtype))


def _no_gradient(ctx, *grads):
    raise RuntimeError(
        "an NKI kernel has no gradient of its own: give it one, with torch_neuronx.nki_op and its register_autograd, "
        "or inside a torch.autograd.Function"
    )


call_op.register_autograd(_no_gradient)


def call(kernel, args, kwargs):
    """A kernel's results, by one op; arguments that it writes are written."""
    compiled, given = kernel.compiled(kernel.chip(), args, kwargs, recorded=True)
    if not compiled.is_callable:
        raise NotImplementedError(
            f"the kernel {kernel.__name__} cannot be part of a program: it runs on several cores, prints or asserts; "
            "call it outside of what is compiled"
        )
    key = hashlib.sha256(compiled.recording.encode()).hexdigest()[:32]
    CALLS[key] = compiled, kernel.chip()
    found = dict(zip((name for name, _, _ in compiled.outputs), call_op([t.contiguous() for t in given], key)))
    for i, name in compiled.written.items():
        given[i].copy_(found[name])
        found[name] = given[i]
    return map_results(compiled.results, lambda name, shape, dtype: found[name])


is_compiling = torch.compiler.is_compiling
torch.utils._pytree.register_constant(Kernel)
inside_dynamo = torch._dynamo.nonstrict_trace(call)  # Dynamo does not look into it
nki_kernel.torch_call = sys.modules[__name__]


def nki_op(name, function=None, *, mutates_args=(), **options):
    """An operator `space::name` of a function with annotated arguments; its gradient by `register_autograd`."""
    if function is None:
        return lambda f: nki_op(name, f, mutates_args=mutates_args, **options)
    made = torch.library.custom_op(name, function, mutates_args=tuple(mutates_args), **options)
    made.register_fake(function)
    decompose.TAKEN_APART[made._opoverload] = function
    decompose.table.cache_clear()
    return made


def wrap_nki(kernel):
    """The kernel itself: it may be called as it is."""
    if not isinstance(kernel, Kernel):
        raise TypeError(f"wrap_nki of {kernel!r}; expected a function decorated with @nki.jit")
    return kernel
