"""What `compiled.as_text()` shows: the program's ops as each device runs them, with collectives, as XLA writes them.

JAX asks the plugin for a compiled program often, for its shapes and shardings; it gets the plan's steps. The ops are
read again from the saved form when somebody wants to see them.
"""

import ctypes

from jax._src import stages

MAGIC = b"trine executable\n"
Give = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)


def text_of(library, executable) -> str | None:
    saved = executable.serialize()
    begin = saved.find(MAGIC)
    if begin < 0:
        return None
    given = []
    give = Give(lambda text, size: given.append(ctypes.string_at(text, size)))
    failed = library.trine_pjrt_text(saved[begin:], len(saved) - begin, give)
    return None if failed else given[0].decode(errors="replace")


def register(platform: str, library) -> None:
    library.trine_pjrt_text.argtypes = [ctypes.c_char_p, ctypes.c_size_t, Give]
    known = stages.Executable.as_text

    def as_text(self):
        executable = self.xla_extension_executable()
        client = getattr(executable, "client", None)
        ours = client is not None and client.platform == platform and text_of(library, executable)
        return ours or known(self)

    stages.Executable.as_text = as_text
