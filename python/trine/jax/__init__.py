"""JAX on virtual NeuronCores: what JAX calls when it looks for plugins.

Installed with JAX, `jax.devices()` lists the NeuronCores of the chosen instance (`TRINE_INSTANCE`, `trine use`,
else trn1.2xlarge); JAX's own CPU stays there as `jax.devices("cpu")`.
"""

import ctypes
from pathlib import Path

PLATFORM = "neuron"
PRIORITY = 500  # above every accelerator JAX knows: whoever installs Trine means it


def library_path() -> Path:
    """The PJRT plugin beside the package."""
    import trine

    path = Path(trine.__file__).parent / "trine_pjrt.so"
    if not path.exists():
        raise FileNotFoundError(f"{path} is not built; run `make build`, or install the package with pip")
    return path


def initialize() -> None:
    """The entry point of the group `jax_plugins`."""
    from jax._src import xla_bridge

    # JAX warns once for platforms outside this private set; where it is gone, so is our entry.
    getattr(xla_bridge, "_nonexperimental_plugins", set()).add(PLATFORM)
    xla_bridge.register_plugin(PLATFORM, priority=PRIORITY, library_path=str(library_path()))
    from trine.jax import buffers, callbacks, dlpack, dump, endless, foreign, inspecting, linalg, options, partitioning
    from trine.jax import rules, sizes, texts

    linalg.register(PLATFORM)
    dlpack.register(PLATFORM)
    partitioning.register(PLATFORM)
    sizes.register(PLATFORM)
    options.register(PLATFORM)
    buffers.register(PLATFORM)
    rules.register(PLATFORM)
    endless.register(PLATFORM)
    foreign.register(PLATFORM)
    library = ctypes.CDLL(str(library_path()))
    callbacks.register(PLATFORM, library)
    texts.register(PLATFORM, library)
    dump.register(PLATFORM, library)
    inspecting.register(PLATFORM, library)
    from trine.debug import jax_taps

    jax_taps.register(PLATFORM)
