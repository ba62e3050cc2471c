"""Number formats as NKI names them. A DType is a string, so that it compares, prints and hashes like NKI's own.

The table itself is C++'s (`_core.dtypes()`); here are only the spellings people use.
"""

import ml_dtypes
import numpy as np

from trine import _core


class DType(str):
    """`float32` and friends: the NKI name, with trine's name, its width and the NumPy dtype (None when there is none)."""

    trine: str
    bits: int
    numpy: "np.dtype | None"
    packed: bool

    @property
    def itemsize(self) -> int:
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        return self.trine[0] in "fbt" and self.trine != "bool"

    @property
    def is_integer(self) -> bool:
        return self.trine[0] in "su"

    def __eq__(self, other):
        if isinstance(other, str):
            return str.__eq__(self, other)
        return other is not None and _known.get(_key(other)) is self

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__


def _key(given):
    try:
        return np.dtype(given)
    except TypeError:
        text = str(given)
        return text.removeprefix("torch.") if text.startswith("torch.") else None


def _table():
    by_name, by_trine, known = {}, {}, {}
    for row in _core.dtypes():
        if not row["nki"]:
            continue
        d = DType(row["nki"])
        d.trine, d.bits, d.packed = row["name"], row["bits"], row["packed"]
        name = row["numpy"] or ("float32" if row["name"] == "tf32" else "")
        d.numpy = np.dtype(getattr(ml_dtypes, name, name)) if name else None
        by_name[str(d)] = by_trine[d.trine] = known[str(d)] = d
        if row["numpy"]:
            known[d.numpy] = known[row["numpy"]] = d
    return by_name, by_trine, known


by_name, by_trine, _known = _table()
_known["bool"] = by_name["bool_"]
globals().update(by_name)  # `from nki.dtype import float8_e4m3fn_x4`


def find(given) -> "DType | None":
    """The DType of an NKI name, a NumPy, torch or JAX dtype; None when the chip has no such format."""
    if type(given) is DType:
        return given
    found = _known.get(given) if isinstance(given, str) else None
    if found is None and given is not None:
        found = _known.get(_key(given))
    return found


def promote(a: DType, b: DType) -> DType:
    """Result of arithmetic on two formats: floats win over integers, then the wider one, then f32."""
    if a is b:
        return a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return by_trine["f32"] if a.is_float else (a if a.is_integer and a.trine[0] == "s" else b)
