"""Stored bytecode against what jaxlib read in it (make_data.py), short forms, round trips, and number formats."""

import re
import struct
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

DATA = Path(__file__).parent / "data"


@pytest.fixture
def read(trine):
    def run(path_or_text, *options):
        text = path_or_text if isinstance(path_or_text, str) else None
        path = "-" if text is not None else path_or_text
        done = subprocess.run([trine, "shlo", path, *options], input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("path", sorted([*DATA.glob("*.artifact"), *DATA.glob("*.bytecode")]), ids=lambda p: p.name)
def test_as_jaxlib_read_it(read, path):
    assert read(path).split("\n") == read(Path(f"{path}.txt")).split("\n")


@pytest.mark.parametrize("path", sorted(DATA.glob("*.mlir")), ids=lambda p: p.name)
def test_short_forms(read, path):
    assert read(path).split("\n") == read(path.with_suffix(".bytecode")).split("\n")


@pytest.mark.parametrize("path", sorted(p for p in DATA.iterdir() if p.suffix != ".values"), ids=lambda p: p.name)
def test_text_reads_back(read, path):
    for options in ([], ["--locations"]):
        once = read(path, *options)
        assert once.split("\n") == read(once, *options).split("\n")


FORMATS = {
    "f4E2M1FN": "float4_e2m1fn", "f6E2M3FN": "float6_e2m3fn", "f6E3M2FN": "float6_e3m2fn", "f8E3M4": "float8_e3m4",
    "f8E4M3": "float8_e4m3", "f8E4M3FN": "float8_e4m3fn", "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E4M3B11FNUZ": "float8_e4m3b11fnuz", "f8E5M2": "float8_e5m2", "f8E5M2FNUZ": "float8_e5m2fnuz",
    "f8E8M0FNU": "float8_e8m0fnu", "bf16": "bfloat16",
}  # fmt: skip


def dtype_of(name):
    return np.dtype({"f16": np.float16, "f32": np.float32}.get(name) or getattr(ml_dtypes, FORMATS[name]))


@pytest.mark.parametrize("name", [*FORMATS, "f16", "f32"])
def test_floats_print_their_values(read, name):
    """Every code of the small formats, a sample of the others: as ml_dtypes sees them, and back to the same bits."""
    dtype = dtype_of(name)
    bits = int(re.search(r"\d+", name).group())
    rng = np.random.default_rng(7)
    codes = np.arange(2**bits) if bits <= 8 else rng.integers(0, 2**bits, 300)
    for part in np.array_split(codes, -(-len(codes) // 90)):
        raw = part.astype({1: np.uint8, 2: np.uint16, 4: np.uint32}[dtype.itemsize])
        text = f'"a.b"() {{v = dense<"0x{raw.tobytes().hex()}"> : tensor<{len(part)}x{name}>}} : () -> ()\n'
        once = read(text)
        printed = re.search(r"dense<\[(.*)\]>", once).group(1).split(", ")
        for code, value, shown in zip(raw, raw.view(dtype), printed, strict=True):
            if np.isfinite(value.astype(np.float64)):
                assert np.float64(shown).astype(dtype) == value, hex(code)
            else:
                assert int(shown, 16) == code
        assert read(once) == once


@pytest.mark.parametrize("name", [*FORMATS, "f16", "f32"])
def test_decimals_round_to_nearest_even(read, name):
    dtype = dtype_of(name)
    rng = np.random.default_rng(11)
    limit = float(ml_dtypes.finfo(dtype).max)
    values = rng.uniform(-1, 1, 80) * limit * 2.0 ** rng.integers(-12, 0, 80)
    if name == "f8E8M0FNU":
        values = 2.0 ** rng.uniform(-120, 120, 80)
    text = f'"a.b"() {{v = dense<[{", ".join(f"{v:.17e}" for v in values)}]> : tensor<80x{name}>}} : () -> ()\n'
    shown = re.search(r"dense<\[(.*)\]>", read(text)).group(1).split(", ")
    assert list(np.array(shown, np.float64).astype(dtype)) == list(values.astype(dtype))


def test_doubles_keep_their_bits(read):
    bits = np.random.default_rng(3).integers(0, 2**63, 90, dtype=np.uint64)
    once = read(f'"a.b"() {{v = dense<"0x{bits.tobytes().hex()}"> : tensor<90xf64>}} : () -> ()\n')
    shown = re.search(r"dense<\[(.*)\]>", once).group(1).split(", ")
    back = [int(x, 16) if x.startswith("0x") else struct.unpack("<Q", struct.pack("<d", float(x)))[0] for x in shown]
    assert back == list(bits)


def test_json_counts_ops(read):
    assert '"stablehlo.while": ' in read(DATA / "loops.artifact", "--json")
