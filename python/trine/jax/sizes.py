"""Results too large to count: jaxlib ends the process over them before any plugin is asked, so they are refused here."""

from jax._src import compiler
from jax._src.lib.mlir import ir
from jax.errors import JaxRuntimeError

LIMIT = 2**58  # elements: of any dtype their bytes still count in 63 bits


def check(module) -> None:
    for op in module.body.operations:
        if op.operation.name != "func.func" or ir.StringAttr(op.attributes["sym_name"]).value != "main":
            continue
        for kind in ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value).results:
            elements = 1
            for d in ir.RankedTensorType(kind).shape if isinstance(kind, ir.RankedTensorType) else ():
                elements *= max(d, 1)
            if elements >= LIMIT:
                raise JaxRuntimeError(f"INVALID_ARGUMENT: a result {kind} has more elements than can be counted")


def register(platform: str) -> None:
    known = compiler.backend_compile_and_load

    def backend_compile_and_load(backend, module, *args, **options):
        if backend.platform == platform:
            check(module)
        return known(backend, module, *args, **options)

    compiler.backend_compile_and_load = backend_compile_and_load
