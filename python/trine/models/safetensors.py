"""Reads safetensors files: a header of JSON, then the tensors. Values are mapped, not copied."""

import json
import mmap
from pathlib import Path

import ml_dtypes
import numpy as np

from trine import _core

DTYPES = {
    r["safetensors"]: np.dtype(getattr(ml_dtypes, r["numpy"], r["numpy"])).type
    for r in _core.dtypes()
    if r["safetensors"] and r["bits"] >= 8  # narrower elements are packed there, and NumPy's are not
}
HEADER_LIMIT = 100_000_000  # bytes, the format's own


class FileError(ValueError):
    """A weights file that is not what it should be."""


class SafeTensors:
    """Tensors by name, of one file or of the files an index or a folder names."""

    def __init__(self, path):
        path = Path(path)
        files = [path]
        if path.is_dir():
            index = path / "model.safetensors.index.json"
            if index.exists():
                named = json.loads(index.read_text()).get("weight_map", {})
                files = [path / name for name in sorted(set(named.values()))]
            else:
                files = sorted(path.glob("*.safetensors"))
            if not files:
                raise FileError(f"{path} holds no .safetensors file")
        self._at = {}
        for file in files:
            self._open(file)

    def _open(self, path):
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            end = path.stat().st_size
            if size > min(HEADER_LIMIT, end - 8):
                raise FileError(f"{path}: a header of {size} bytes in a file of {end}; not a safetensors file")
            try:
                header = json.loads(file.read(size))
            except ValueError as e:
                raise FileError(f"{path}: its header is not JSON: {e}") from None
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        for name, entry in header.items():
            if name != "__metadata__":
                self._at[name] = (path, data, 8 + size, entry)

    def __contains__(self, name):
        return name in self._at

    def keys(self):
        return self._at.keys()

    def __getitem__(self, name):
        path, data, base, entry = self._at[name]
        shape, (first, last) = tuple(entry["shape"]), entry["data_offsets"]
        if entry["dtype"] not in DTYPES:
            raise FileError(f"{path}: {name} is {entry['dtype']}; readable are {', '.join(DTYPES)}")
        dtype = np.dtype(DTYPES[entry["dtype"]])
        count = int(np.prod(shape, dtype=np.int64))
        if last - first != count * dtype.itemsize or not 0 <= first <= last <= len(data) - base:
            raise FileError(f"{path}: {name} of shape {list(shape)} lies at bytes {first} to {last}, which does not fit")
        return np.frombuffer(data, dtype, count, base + first).reshape(shape)
