"""The name `nki` that existing kernels import: it is trine.nki."""

import sys

import trine.nki
from trine.nki import tensor

for _part in ("collectives", "compiler", "dtype", "isa", "language", "typing"):
    sys.modules[f"nki.{_part}"] = getattr(trine.nki, _part)
sys.modules["nki.isa.constants"] = trine.nki.isa.constants
sys.modules["nki.language.buffers"] = trine.nki.language
sys.modules["nki.language.tensor"] = tensor
sys.modules["nki"] = trine.nki
