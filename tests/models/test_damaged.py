"""Weights files that are damaged, or made to mislead: some thousands of each kind, refused or read, and nothing else.

`python tests/models/test_damaged.py SECONDS [SEED]` goes on for longer.
"""

import json
import random
import struct
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from trine.models.gguf import Gguf
from trine.models.reading import ConfigError
from trine.models.safetensors import FileError, SafeTensors

NUMBERS = (0, 1, 127, 255, 256, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)
TEXTS = (b"-1", b"0", b"99999999999999999999", b"1e400", b"NaN", b'""', b"[]", b"{}", b"null", b"true")


def text(value):
    return struct.pack("<Q", len(value)) + value


def gguf():
    """Two tensors, and what a llama's configuration needs."""
    numbers = {"embedding_length": 64, "block_count": 1, "feed_forward_length": 128, "attention.head_count": 4, "attention.head_count_kv": 2,
               "context_length": 128, "vocab_size": 32}  # fmt: skip
    entries = [text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama"), text(b"general.alignment") + struct.pack("<II", 4, 32)]
    entries += [text(f"llama.{name}".encode()) + struct.pack("<II", 4, value) for name, value in numbers.items()]
    entries += [text(b"llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5)]
    entries += [text(b"tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text(b"a") + text(b"b")]
    entries += [text(b"tokenizer.ggml.merges") + struct.pack("<IIQ", 9, 8, 1) + text(b"a b")]
    entries += [text(b"tokenizer.ggml.token_type") + struct.pack("<IIQii", 9, 5, 2, 1, 1), text(b"tokenizer.ggml.model") + struct.pack("<I", 8) + text(b"gpt2")]
    tensors = [text(b"token_embd.weight") + struct.pack("<IQQIQ", 2, 64, 32, 0, 0), text(b"output_norm.weight") + struct.pack("<IQIQ", 1, 64, 8, 8192)]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries) + b"".join(tensors)
    return head + bytes(-len(head) % 32) + np.arange(2048, dtype=np.float32).tobytes() + bytes(68)


def safetensors():
    header = json.dumps({"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
                         "b": {"dtype": "BF16", "shape": [], "data_offsets": [24, 26]}}).encode()  # fmt: skip
    return struct.pack("<Q", len(header)) + header + bytes(26)


def damaged(whole, rng):
    """The file after one to four of the ways in which files go wrong."""
    out = bytearray(whole)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(out) + 1) if rng.random() < 0.5 else rng.randrange(min(len(out), 900) + 1)
        way = rng.randrange(6)
        if way == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif way == 1:
            number = rng.choice(NUMBERS).to_bytes(8, "little")[: rng.choice((1, 2, 4, 8))]
            out[at : at + len(number)] = number
        elif way == 2:
            del out[at : at + rng.randrange(64)]
        elif way == 3:
            out[at:at] = out[at : at + rng.randrange(64)]
        elif way == 4:
            del out[at:]
        else:
            digit = next((i for i in range(at, len(out)) if 48 <= out[i] < 58), len(out))
            out[digit : digit + 1] = rng.choice(TEXTS)
    return bytes(out)


def read_gguf(path):
    file = Gguf(path)
    file.config()
    for name in file.keys():
        np.asarray(file[name]).sum()
    if file.metadata.get("tokenizer.ggml.model"):
        file.tokenizer()


def read_safetensors(path):
    file = SafeTensors(path)
    for name in file.keys():
        file[name].astype(np.float64).sum()


KINDS = {"gguf": (gguf, read_gguf), "safetensors": (safetensors, read_safetensors)}


def run(kind, count, seed, until=None):
    make, read = KINDS[kind]
    whole, rng, done = make(), random.Random(seed), 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(whole)
        read(path)
        while done < count or (until and time.monotonic() < until):
            path.write_bytes(damaged(whole, rng))
            try:
                with np.errstate(all="ignore"):
                    read(path)
            except (FileError, ConfigError):
                pass
            except Exception as e:
                kept = Path(tempfile.gettempdir()) / f"damaged.{kind}"
                kept.write_bytes(path.read_bytes())
                raise AssertionError(f"{kind}, seed {seed}, number {done}: {type(e).__name__}: {e}; the file is {kept}") from e
            done += 1
    return done


@pytest.mark.parametrize("kind", KINDS)
def test_damaged(kind):
    run(kind, 2000, 1)


if __name__ == "__main__":
    seconds, seed = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    for kind in KINDS:
        print(kind, run(kind, 0, seed, time.monotonic() + seconds / len(KINDS)), "files, seed", seed)
