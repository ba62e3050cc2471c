"""Trine: the Trainium stack on an ordinary machine.

Programs of PyTorch, JAX and NKI run on virtual NeuronCores: values at CPU speed or with the chip's rounding, the time of
every instruction on the chip, and what that costs. The work is done in C++ (`trine._core`); this package is the thin
face to it and holds no computation of its own.
"""

import importlib
import importlib.util
import os

if os.environ.get("NEURON_RT_INSPECT_ENABLE") == "1":
    from trine.profile import inspecting

    inspecting.start()

from trine import _core

__version__: str = _core.version

# Loaded when first used, so that `import trine` stays quick.
_LAZY = {"report": "trine.reports", "Report": "trine.reports", "explain": "trine.reports", "timed": "trine.timing",
         "Exact": "trine.exact", "NkiError": "trine.nki.errors"}  # fmt: skip


_PARTS = {"estimate": "numpy", "models": "numpy", "nki": "numpy", "jax": "jax", "torch": "torch", "profile": "numpy"}  # packages, and what each needs
__all__ = [*_LAZY]


def __getattr__(name):
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name in _PARTS:
        return importlib.import_module(f"trine.{name}")
    raise AttributeError(f"module 'trine' has no attribute '{name}'")


def __dir__():
    parts = [part for part, needs in _PARTS.items() if importlib.util.find_spec(needs)]
    return sorted([*_LAZY, *parts, "__doc__", "__version__"])
