"""`xla_dump_to`, by compiler_options or XLA_FLAGS: each program as it came and as it is computed, under XLA's names."""

import itertools
import os
import re
from pathlib import Path

from jax._src import compiler
from jax._src.interpreters import mlir
from jax._src.lib import _jax
from jax._src.lib.mlir import ir

from trine.jax import texts

OPTION = "xla_dump_to"
numbers = itertools.count()


def folder(options) -> str:
    """Where to; empty: nobody wants it."""
    of_process = re.findall(rf"--{OPTION}=(\S+)", os.environ.get("XLA_FLAGS", ""))
    return str(dict(options.env_option_overrides).get(OPTION) or (of_process or [""])[-1])


def hlo_text(module) -> str:
    made = _jax.mlir.mlir_module_to_xla_computation(mlir.module_to_bytecode(module), use_tuple_args=False)
    return made.as_hlo_text()


def register(platform: str, library) -> None:
    known = compiler.backend_compile_and_load

    def backend_compile_and_load(backend, module, executable_devices, options, *rest):
        to = backend.platform == platform and folder(options)
        if not to:
            return known(backend, module, executable_devices, options, *rest)
        os.makedirs(to, exist_ok=True)
        name = ir.StringAttr(module.operation.attributes["sym_name"]).value
        file = f"{to}/module_{next(numbers):04}.{name}"
        Path(f"{file}.before_optimizations.txt").write_text(hlo_text(module))
        executable = known(backend, module, executable_devices, options, *rest)
        Path(f"{file}.{platform}_after_optimizations.txt").write_text(texts.text_of(library, executable) or "")
        return executable

    compiler.backend_compile_and_load = backend_compile_and_load
