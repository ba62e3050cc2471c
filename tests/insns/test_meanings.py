"""Every instruction against an independent NumPy statement of its meaning, on random shapes, formats and patterns.

Each meaning_*.py beside this file has a TABLE of instruction names; a failure prints the program that shows it.
"""

import importlib
import sys
import zlib
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import harness  # noqa: E402

TABLE = {
    name: meaning
    for file in sorted(HERE.glob("meaning_*.py"))
    for name, meaning in importlib.import_module(file.stem).TABLE.items()
}
CASES = [(name, i) for name, m in TABLE.items() for i in range(m.cases)]


@pytest.mark.parametrize("name,index", CASES, ids=[f"{n}-{i}" for n, i in CASES])
def test_meaning(name, index):
    harness.check(TABLE[name], [zlib.crc32(name.encode()), index])
