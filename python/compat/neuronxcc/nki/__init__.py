"""The name `neuronxcc.nki` that kernels up to SDK 2.26 import: it is trine.nki.old, with its parts, and `kernels` of this folder."""

import sys
import types

import trine.nki.old

trine.nki.old.__path__.extend(__path__)
for _part in ("compiler", "isa", "language", "typing"):
    sys.modules[f"neuronxcc.nki.{_part}"] = getattr(trine.nki.old, _part)
for _part in (trine.nki.old.isa, trine.nki.old.language):
    sys.modules[f"neuronxcc.nki.{_part.__name__.rpartition('.')[2]}.constants"] = _part
    _part.constants = _part  # for `from neuronxcc.nki.language import constants`
for _part in ("backends", "backends.neuron", "backends.neuron.dimensions"):
    sys.modules[f"neuronxcc.nki.compiler.{_part}"] = types.ModuleType(f"neuronxcc.nki.compiler.{_part}")
sys.modules["neuronxcc.nki.compiler.backends.neuron.dimensions"].VNC = trine.nki.old.language.nc
sys.modules["neuronxcc.nki"] = trine.nki.old
