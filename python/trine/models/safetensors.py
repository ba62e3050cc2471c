"""Reads safetensors files: a header of JSON, then the tensors. Values are mapped, not copied."""

import json
import math
import mmap
import os
import stat
from pathlib import Path

import ml_dtypes
import numpy as np

from trine import _core
from trine.models.reading import FileError

DTYPES = {
    r["safetensors"]: np.dtype(getattr(ml_dtypes, r["numpy"], r["numpy"])).type
    for r in _core.dtypes()
    if r["safetensors"] and r["bits"] >= 8  # narrower elements are packed there, and NumPy's are not
}
HEADER_LIMIT = 100_000_000  # bytes, the format's own


def is_entry(entry):
    """Whether a header's entry has what the format says, of the right kinds."""
    def whole(numbers):
        return isinstance(numbers, list) and all(type(n) is int and n >= 0 for n in numbers)

    return (isinstance(entry, dict) and isinstance(entry.get("dtype"), str) and whole(entry.get("shape"))
            and whole(entry.get("data_offsets")) and len(entry["data_offsets"]) == 2)  # fmt: skip


def shards(index):
    """Names of the files that an index names."""
    try:
        read = json.loads(index.read_text())
    except (ValueError, RecursionError) as e:
        raise FileError(f"{index}: not JSON: {e}") from None
    named = read.get("weight_map", {}) if isinstance(read, dict) else None
    if not isinstance(named, dict) or not all(isinstance(name, str) for name in named.values()):
        raise FileError(f"{index}: no \"weight_map\" of tensors to files")
    return sorted(set(named.values()))


class SafeTensors:
    """Tensors by name, of one file or of the files an index or a folder names."""

    def __init__(self, path):
        path = Path(path)
        self._at = {}
        if not path.is_dir():
            return self._open(path, os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        index = path / "model.safetensors.index.json"
        names = shards(index) if index.exists() else sorted(file.name for file in path.glob("*.safetensors"))
        if not names:
            raise FileError(f"{path} holds no .safetensors file")
        for name in names:
            source = index if index.exists() else path / name
            try:
                fd = _core.open_beneath(str(path), name, str(source))
            except ValueError as e:
                raise FileError(f"{source}: {e}") from None
            self._open(path / name, fd)

    def _open(self, path, fd):
        with open(fd, "rb") as file:
            about = os.fstat(fd)
            if not stat.S_ISREG(about.st_mode):
                raise FileError(f"{path}: not a regular file")
            size, end = int.from_bytes(file.read(8), "little"), about.st_size
            if size > min(HEADER_LIMIT, end - 8):
                raise FileError(f"{path}: a header of {size} bytes in a file of {end}; not a safetensors file")
            try:
                header = json.loads(file.read(size))
            except (ValueError, RecursionError) as e:
                raise FileError(f"{path}: its header is not JSON: {e}") from None
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if not isinstance(header, dict):
            raise FileError(f"{path}: its header is {type(header).__name__}; expected an object")
        for name, entry in header.items():
            if name != "__metadata__":
                if not is_entry(entry):
                    raise FileError(f"{path}: {name} has no dtype, shape or data_offsets as the format has them")
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
        count = math.prod(shape)
        if last - first != count * dtype.itemsize or not 0 <= first <= last <= len(data) - base:
            raise FileError(f"{path}: {name} of shape {list(shape)} lies at bytes {first} to {last}, which does not fit")
        return np.frombuffer(data, dtype, count, base + first).reshape(shape)
