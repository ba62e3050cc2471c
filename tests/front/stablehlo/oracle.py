"""jaxlib's own reader and printer of MLIR, as the referee of ours. Needs jax 0.10.2."""

import io

from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib import _jax
from jaxlib.mlir import ir

VERSION = "1.10.0"  # of the portable artifacts we ask JAX for


def parse(text_or_bytes):
    with jax_mlir.make_ir_context(), ir.Location.unknown():
        return ir.Module.parse(text_or_bytes)


def generic(module, locations=False):
    return module.operation.get_asm(print_generic_op_form=True, enable_debug_info=locations)


def pretty(module, locations=False):
    return module.operation.get_asm(enable_debug_info=locations)


def bytecode(module):
    out = io.BytesIO()
    module.operation.write_bytecode(out)
    return out.getvalue()


def portable(module):
    """As JAX makes it for a plugin: CHLO lowered or made composites, then VHLO, with Shardy's ops as they are."""
    return _jax.mlir.serialize_portable_artifact(bytecode(module), VERSION, True)


def from_portable(artifact):
    with jax_mlir.make_ir_context():
        return _jax.mlir.deserialize_portable_artifact(artifact)
