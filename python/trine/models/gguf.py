"""Reads GGUF files: metadata, from which the configuration and the tokenizer come, and tensors as f32.

Everything in the file is checked against its length before it is used.
"""

import mmap
import os
import struct
from pathlib import Path

import numpy as np

from trine.models.gguf_rows import FAMILIES, LAYERS_LIMIT, NAMES, OTHER_NAMES, PAIRED, config_of, family_of
from trine.models.quantised import FORMATS
from trine.models.reading import only_read, short
from trine.models.safetensors import FileError

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST = 8, 9
ALIGN_LIMIT = 1 << 20
COUNT_LIMIT = 1 << 24  # entries of a list or tensors of a file


class Cursor:
    """Reads forward through a file's bytes; what is not there is an error that says where."""

    def __init__(self, path, data):
        self.path, self.data, self.at = path, data, 0

    def take(self, size):
        if size < 0 or self.at + size > len(self.data):
            raise FileError(f"{self.path}: {size} bytes are needed at {self.at}, the file has {len(self.data)}")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, code):
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def text(self):
        return self.take(self.number("Q")).decode("utf-8", "replace")

    def count(self, what):
        number = self.number("Q")
        if number > COUNT_LIMIT:
            raise FileError(f"{self.path}: {number} {what}, at most {COUNT_LIMIT} are read")
        return number

    def value(self, kind, depth=0):
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        if kind == TEXT:
            return self.text()
        if kind != LIST or depth > 4:
            raise FileError(f"{self.path}: a value of kind {kind} at byte {self.at}")
        inner, count = self.number("I"), self.count("entries of a list")
        if inner in SCALARS:
            size = struct.calcsize("<" + SCALARS[inner])
            return np.frombuffer(self.take(size * count), "<" + SCALARS[inner]).tolist()
        return [self.value(inner, depth + 1) for _ in range(count)]


class Gguf:
    """`metadata`, and tensors by name."""

    def __init__(self, path):
        self.path = Path(path)
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        c = Cursor(self.path, self._data)
        if c.take(4) != b"GGUF" or (version := c.number("I")) not in (2, 3):
            raise FileError(f"{path}: not a GGUF file of version 2 or 3, little-endian")
        tensors, entries = c.count("tensors"), c.count("entries")
        self.metadata = {c.text(): c.value(c.number("I")) for _ in range(entries)}
        self._at = {}
        for _ in range(tensors):
            name, rank = c.text(), c.number("I")
            if rank > 8:
                raise FileError(f"{path}: {name} has {rank} dims")
            dims = [c.number("Q") for _ in range(rank)]
            self._at[name] = (tuple(reversed(dims)), c.number("I"), c.number("Q"))
        align = self.given("general.alignment", int, 32) or 32
        if align & (align - 1) or not 0 < align <= ALIGN_LIMIT:
            raise FileError(f"{path}: an alignment of {align}; expected a power of two up to {ALIGN_LIMIT}")
        self._base = -(-c.at // align) * align
        self._numbers = dict(self._layer_numbers())
        self.family = FAMILIES.get(self.given("general.architecture", str))
        if self.family:
            self.family = family_of(self, self.family)

    def _layer_numbers(self):
        """(name, value) of learned numbers that are lists of the metadata, one for each layer: xIELU's."""
        for key in ("xielu.alpha_p", "xielu.alpha_n"):
            listed = self.of(key)
            for i, value in enumerate(listed[:LAYERS_LIMIT] if isinstance(listed, list) else ()):
                if not isinstance(value, float):
                    raise FileError(f"{self.path}: {key} of layer {i} is {short(value)}; expected a number")
                yield f"blk.{i}.{key}", value

    def __contains__(self, name):
        return name in self._at or name in self._numbers

    def keys(self):
        return [*self._at, *self._numbers]

    def __getitem__(self, name):
        if name in self._numbers:
            return np.array([self._numbers[name]], np.float32)
        _, shape, blocks, read = self._blocks(name)
        return read(blocks).reshape(shape)

    def packed(self, name):
        """(format, shape, its bytes as they lie in the file) of a tensor."""
        label, shape, blocks, _ = self._blocks(name)
        return label, shape, blocks.reshape(-1)

    def _blocks(self, name):
        shape, kind, offset = self._at[name]
        if kind not in FORMATS:
            known = ", ".join(row[0] for row in FORMATS.values())
            raise FileError(f"{self.path}: {name} is of format {kind}; readable are {known}")
        label, elements, size, read = FORMATS[kind]
        count = int(np.prod(shape, dtype=object)) if shape else 1
        if count % elements or (shape and shape[-1] % elements):
            raise FileError(f"{self.path}: {name} of shape {list(shape)} is no whole number of {label} blocks")
        first, length = self._base + offset, count // elements * size
        if first + length > len(self._data):
            raise FileError(f"{self.path}: {name} ends at byte {first + length}, the file at {len(self._data)}")
        return label, shape, np.frombuffer(self._data, np.uint8, length, first).reshape(-1, size), read

    def given(self, key, kind, otherwise=None):
        """An entry of the metadata, which must be of that kind where it is there."""
        value = self.metadata.get(key, otherwise)
        if value is not otherwise and (not isinstance(value, kind) or isinstance(value, bool)):
            raise FileError(f"{self.path}: {key} is {short(value)}; expected {' or '.join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))}")
        return value

    def texts(self, key):
        """A list of texts."""
        value = self.given(key, list)
        if value is None or not all(isinstance(one, str) for one in value):
            raise FileError(f"{self.path}: {key} is missing, or no list of texts")
        return value

    def number(self, key):
        return self.given(f"{self.metadata.get('general.architecture')}.{key}", (int, float))

    def of(self, key):
        return self.metadata.get(f"{self.metadata.get('general.architecture')}.{key}")

    def config(self):
        """A configuration as config.json would have it."""
        if not self.family:
            raise FileError(f"{self.path}: architecture {self.metadata.get('general.architecture')}; known are {', '.join(FAMILIES)}")
        if "token_embd.weight" in self and len(dims := self._at["token_embd.weight"][0]) != 2:
            raise FileError(f"{self.path}: token_embd.weight is {list(dims)}; expected rows of tokens")
        from trine.models.families import FAMILIES as ROWS

        return only_read(ROWS[self.family], config_of(self))

    def shape(self, name):
        return (1,) if name in self._numbers else self._at[name][0]

    def names(self):
        return NAMES | OTHER_NAMES.get(self.family, {})

    def fixed(self, path, value, settings):
        """Undoes what the converter did: pairs of rotary dims side by side, one added to Gemma's norms, rates as decays."""
        if self.metadata["general.architecture"] in PAIRED and path[-2] in ("q", "k"):
            split = value.reshape(*value.shape[:-1], -1, settings.head_dim // 2, 2)
            return split.swapaxes(-1, -2).reshape(value.shape)
        if path[-2] == "rates" and self.family in ("mamba", "falcon_mamba", "mamba2", "falcon_h1", "granitemoehybrid"):
            return np.log(-value)
        return value - 1 if self.family.startswith(("gemma", "nemotron")) and path[-1] == "scale" else value

    def tokenizer(self):
        from trine.models.tokenizer import Tokenizer

        kind = self.metadata.get("tokenizer.ggml.model")
        if kind != "gpt2":
            raise FileError(f'{self.path}: a tokenizer of kind "{kind}"; byte-pair encoding ("gpt2") is what can be read')
        tokens, merges = self.texts("tokenizer.ggml.tokens"), self.texts("tokenizer.ggml.merges")
        kinds, pattern = self.given("tokenizer.ggml.token_type", list, ()), self.given("tokenizer.ggml.pre", str, "gpt-2")
        try:
            return Tokenizer(tokens, merges, kinds, pattern, self.given("tokenizer.ggml.eos_token_id", int))
        except ValueError as e:
            raise FileError(f"{self.path}: {e}") from None
