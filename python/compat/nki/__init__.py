"""The name `nki` that existing kernels import: it is trine.nki."""

import sys

import trine.nki

for _part in ("collectives", "isa", "language", "typing"):
    sys.modules[f"nki.{_part}"] = getattr(trine.nki, _part)
sys.modules["nki"] = trine.nki
