"""Profiles: what a program did on virtual NeuronCores, every instruction of it, in one file.

`trine profile capture -- python train.py` writes one; `trine.profile.open("profile.ntff")` reads it. docs/profile.md says
what is in it. The file is C++'s (src/run/profile); here are the ways to look at it.
"""

import importlib

_LAZY = {"open": "trine.profile.reading", "Profile": "trine.profile.reading", "to_json": "trine.profile.reading", "compare": "trine.profile.comparing",
         "recorded": "trine.profile.recording"}  # fmt: skip
__all__ = [*_LAZY]


def __getattr__(name):
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'trine.profile' has no attribute '{name}'")
