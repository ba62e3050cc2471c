"""The name `neuronxcc.nki` that kernels up to SDK 2.26 import: it is trine.nki.old, with its parts."""

import sys

import trine.nki.old

for _part in ("compiler", "isa", "language", "typing"):
    sys.modules[f"neuronxcc.nki.{_part}"] = getattr(trine.nki.old, _part)
sys.modules["neuronxcc.nki.isa.constants"] = trine.nki.old.isa
sys.modules["neuronxcc.nki.language.constants"] = trine.nki.old.language
sys.modules["neuronxcc.nki"] = trine.nki.old
