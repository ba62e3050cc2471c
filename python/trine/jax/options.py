"""XLA's own compiler options (`xla_...`), which programs give with `compiler_options`.

They tell another compiler how to work and change nothing here, but for `xla_dump_to` (dump.py); a program that gives
them runs unchanged. A name or a value that XLA does not know is the error it is elsewhere. Trine's own options are the
plugin's business.
"""

import functools
import tempfile

from jax._src import compiler
from jax._src.lib import _jax, xla_client

from trine.jax import dump

NOTHING = "module @nothing { func.func public @main() { return } }"


@functools.cache
def _xla():
    return xla_client.make_cpu_client()


@functools.cache
def check(options) -> None:
    """XLA names what it does not know when it compiles."""
    wanted = xla_client.CompileOptions()
    with tempfile.TemporaryDirectory() as nowhere:  # what it dumps of nothing, nobody wants
        wanted.env_option_overrides = [*(o for o in options if o[0] != dump.OPTION), (dump.OPTION, nowhere)]
        _xla().compile_and_load(NOTHING, _jax.DeviceList(tuple(_xla().local_devices())), wanted)


def register(platform: str) -> None:
    known = compiler.backend_compile_and_load

    def backend_compile_and_load(backend, module, executable_devices, options, *rest):
        of_xla = tuple(o for o in options.env_option_overrides if o[0].startswith("xla_"))
        if backend.platform == platform and of_xla:
            check(of_xla)
        return known(backend, module, executable_devices, options, *rest)

    compiler.backend_compile_and_load = backend_compile_and_load
