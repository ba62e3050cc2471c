"""XLA's own compiler options (`xla_...`), which programs give with `compiler_options`.

They tell another compiler how to work and change nothing here, but a program that gives them runs unchanged; a name or
a value that XLA does not know is the error it is elsewhere. Trine's own options are the plugin's business.
"""

import functools

from jax._src import compiler
from jax._src.lib import _jax, xla_client

NOTHING = "module @nothing { func.func public @main() { return } }"


@functools.cache
def _xla():
    return xla_client.make_cpu_client()


@functools.cache
def check(options) -> None:
    """XLA names what it does not know when it compiles."""
    wanted = xla_client.CompileOptions()
    wanted.env_option_overrides = list(options)
    _xla().compile_and_load(NOTHING, _jax.DeviceList(tuple(_xla().local_devices())), wanted)


def register(platform: str) -> None:
    known = compiler.backend_compile_and_load

    def backend_compile_and_load(backend, module, executable_devices, options, *rest):
        of_xla = tuple(o for o in options.env_option_overrides if o[0].startswith("xla_"))
        if backend.platform == platform and of_xla:
            check(of_xla)
        return known(backend, module, executable_devices, options, *rest)

    compiler.backend_compile_and_load = backend_compile_and_load
