"""Number formats against ml_dtypes and NumPy, bit for bit: every 8- and 16-bit input, edges, a million random f32.

Both conversion paths run (vector and portable). Where the reference leaves a choice, ours is stated beside it.
"""

import itertools

import ml_dtypes
import numpy as np
import pytest

from trine import _core

FLOATS = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f8e4m3": ml_dtypes.float8_e4m3,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e3m4": ml_dtypes.float8_e3m4,
    "f8e8m0": ml_dtypes.float8_e8m0fnu,
    "f4e2m1": ml_dtypes.float4_e2m1fn,
}
INTS = {"s4": (4, True), "u4": (4, False), "s8": (8, True), "u8": (8, False), "s16": (16, True), "u16": (16, False),
        "s32": (32, True), "u32": (32, False)}  # fmt: skip
PATHS = [pytest.param(False, id="vector"), pytest.param(True, id="portable")]


def convert(array, source, target, **how):
    """Our conversion of an array's bytes; codes come back unpacked, one per element."""
    count = array.size
    data = pack(array.view(code_type(source)), source).view(np.uint8)
    out = _core.convert(data, source, target, count=count, **how)
    return unpack(out.view(code_type(target)), target, count)


def code_type(name):
    bits = {d["name"]: d["bits"] for d in _core.dtypes()}[name]
    return {4: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[bits]


def pack(codes, name):
    if name not in ("f4e2m1", "s4", "u4"):
        return np.ascontiguousarray(codes)
    nibbles = np.append(codes & 15, np.zeros(codes.size % 2, np.uint8))
    return nibbles[0::2] | nibbles[1::2] << 4


def unpack(codes, name, count):
    if name not in ("f4e2m1", "s4", "u4"):
        return codes
    return np.stack([codes & 15, codes >> 4], axis=1).ravel()[:count]


def expected_round(values, name):
    """ml_dtypes' codes. f16 is NumPy's, whose NaNs keep payloads; ours are the one quiet NaN, as in ml_dtypes."""
    with np.errstate(all="ignore"):
        codes = values.astype(FLOATS[name]).view(code_type(name))
    if name == "f16":
        codes = np.where(np.isnan(values), np.signbit(values) * np.uint16(0x8000) | np.uint16(0x7E00), codes)
    return codes


def expected_widen(codes, name):
    with np.errstate(all="ignore"):
        wide = codes.view(FLOATS[name]).astype(np.float32).view(np.uint32)
    if name == "f16":  # NumPy leaves signalling NaNs signalling; we quiet them, as processors do
        wide = np.where(np.isnan(wide.view(np.float32)), wide | np.uint32(0x00400000), wide)
    return wide


def all_codes(name):
    kind = np.dtype(FLOATS[name])
    return np.arange(16 if name == "f4e2m1" else 1 << (8 * kind.itemsize)).astype(code_type(name))


def edge_values():
    """Every format's values and the ties between them, each with its two f32 neighbours; f32's own corners."""
    found = [np.float32([0, np.inf, np.nan, 1e-45, 2**-126, 2**-127, 2**-149, 3.4028235e38])]
    for name in FLOATS:
        codes = all_codes(name)
        with np.errstate(all="ignore"):
            values = np.unique(np.abs(codes.view(FLOATS[name]).astype(np.float64)))
        values = values[np.isfinite(values)]
        beyond = values[-1] + (values[-1] - values[-2])
        ties = (values + np.append(values[1:], beyond)) / 2
        found.append(np.concatenate([values, ties, [beyond, 2 * beyond]]))
    with np.errstate(all="ignore"):
        base = np.unique(np.concatenate(found).astype(np.float32))
        base = np.concatenate([base, np.nextafter(base, np.float32(np.inf)), np.nextafter(base, np.float32(-np.inf))])
    payloads = np.uint32([0x7F800001, 0x7FBFFFFF, 0x7FC12345, 0x7FFFFFFF]).view(np.float32)
    base = np.concatenate([base, payloads])
    return np.concatenate([base, (base.view(np.uint32) ^ 0x80000000).view(np.float32)])


def random_values(count, seed=1):
    return np.random.default_rng(seed).integers(0, 1 << 32, count, np.uint32).view(np.float32)


def test_names_are_the_libraries_own():
    rows = {d["name"]: d for d in _core.dtypes()}
    for name, kind in FLOATS.items():
        assert rows[name]["numpy"] == np.dtype(kind).name
        info = ml_dtypes.finfo(kind)
        assert rows[name]["max"] == float(info.max)
        assert rows[name]["min"] == float(info.min)


@pytest.mark.parametrize("portable", PATHS)
@pytest.mark.parametrize("name", FLOATS)
def test_every_input_widens_to_f32(name, portable):
    codes = all_codes(name)
    np.testing.assert_array_equal(convert(codes, name, "f32", portable=portable), expected_widen(codes, name))


@pytest.mark.parametrize("portable", PATHS)
@pytest.mark.parametrize("name", FLOATS)
def test_f32_rounds_to_nearest_even(name, portable):
    values = np.concatenate([edge_values(), random_values(1_200_000)])
    np.testing.assert_array_equal(convert(values, "f32", name, portable=portable), expected_round(values, name))


@pytest.mark.parametrize("portable", PATHS)
@pytest.mark.parametrize("source, target", list(itertools.permutations(FLOATS, 2)))
def test_every_input_between_formats(source, target, portable):
    codes = all_codes(source)
    if "f8e8m0" in (source, target):  # ml_dtypes casts it only by way of f32
        expected = expected_round(expected_widen(codes, source).view(np.float32), target)
    else:
        with np.errstate(all="ignore"):
            expected = codes.view(FLOATS[source]).astype(FLOATS[target]).view(code_type(target))
    np.testing.assert_array_equal(convert(codes, source, target, portable=portable), expected)


@pytest.mark.parametrize("portable", PATHS)
def test_tf32_keeps_ten_bits(portable):
    values = np.concatenate([edge_values(), random_values(200_000)])
    finite = values[np.isfinite(values)]
    # An independent statement: round the significand of frexp to 11 bits, at f32's own subnormal step.
    _, exponent = np.frexp(finite.astype(np.float64))
    step = np.exp2(np.maximum(exponent, -125) - 11.0)
    with np.errstate(over="ignore"):
        expected = (np.rint(finite.astype(np.float64) / step) * step).astype(np.float32)
    np.testing.assert_array_equal(convert(finite, "f32", "tf32", portable=portable).view(np.float32), expected)
    rest = values[~np.isfinite(values)]
    codes = convert(rest, "f32", "tf32", portable=portable)
    special = np.where(np.isnan(rest), np.uint32(0x7FC00000), np.uint32(0x7F800000))
    np.testing.assert_array_equal(codes, special | rest.view(np.uint32) & np.uint32(0x80000000))


@pytest.mark.parametrize("portable", PATHS)
@pytest.mark.parametrize("name", INTS)
def test_f32_to_integers_rounds_and_saturates(name, portable):
    bits, signed = INTS[name]
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    near = np.arange(-40, 40, dtype=np.float32) / 8
    limits = np.float32([low, high, low - 0.5, high + 0.5, low - 1, high + 1, 2 * high])
    values = np.concatenate([edge_values(), near, limits, random_values(200_000)])
    with np.errstate(invalid="ignore"):  # signalling NaNs
        whole = np.rint(np.nan_to_num(values.astype(np.float64), nan=0, posinf=1e30, neginf=-1e30))
    expected = np.clip(whole, low, high).astype(np.int64) & ((1 << bits) - 1)
    np.testing.assert_array_equal(convert(values, "f32", name, portable=portable), expected)


@pytest.mark.parametrize("portable", PATHS)
@pytest.mark.parametrize("name", INTS)
def test_integers_to_f32(name, portable):
    bits, signed = INTS[name]
    count = 1 << min(bits, 16)
    codes = np.arange(count, dtype=np.uint64) if bits <= 16 else random_values(count).view(np.uint32).astype(np.uint64)
    values = codes.astype(np.int64)
    if signed:
        values = np.where(values >= 1 << (bits - 1), values - (1 << bits), values)
    out = convert(codes.astype(code_type(name)), name, "f32", portable=portable)
    np.testing.assert_array_equal(out.view(np.float32), values.astype(np.float32))


@pytest.mark.parametrize("name", ["s64", "u64"])
def test_64_bit_integers_never_pass_through_f32(name):
    kind = np.int64 if name == "s64" else np.uint64
    info = np.iinfo(kind)
    values = np.array([info.min, info.max, 1, (1 << 53) + 1, (1 << 24) + 1, 1 << 31], kind)
    np.testing.assert_array_equal(convert(values, name, "f32").view(np.float32), values.astype(np.float32))
    clipped = np.array([min(max(int(v), -(1 << 31)), (1 << 31) - 1) for v in values], np.int32)
    np.testing.assert_array_equal(convert(values, name, "s32").view(np.int32), clipped)
    halves = np.float32([0.5, 1.5, -0.5, 2**62, 2.0**63, 2.0**64, -(2.0**63), -(2.0**70), np.nan])
    expected = [min(max(int(np.rint(np.nan_to_num(float(v), nan=0.0))), int(info.min)), int(info.max)) for v in halves]
    np.testing.assert_array_equal(convert(halves, "f32", name).view(kind), np.array(expected, kind))


def test_bool_is_nonzero():
    values = np.float32([0, -0.0, 1e-45, np.nan, -3, np.inf])
    assert convert(values, "f32", "bool").tolist() == [0, 0, 1, 1, 1, 1]
    assert convert(np.uint8([0, 1, 7]), "bool", "f32").view(np.float32).tolist() == [0, 1, 1]


def philox(seed, index):
    """Philox4x32-10 in NumPy: the word of each index."""
    block = np.asarray(index, np.uint64) // 4
    low = np.uint64(0xFFFFFFFF)
    c = [block & low, block >> np.uint64(32), block * 0, block * 0]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [b >> np.uint64(32) ^ c[1] ^ np.uint64(k[0]), b & low, a >> np.uint64(32) ^ c[3] ^ np.uint64(k[1]), a & low]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(c)[np.asarray(index) % 4, np.arange(block.size)]


@pytest.mark.parametrize("portable", PATHS)
@pytest.mark.parametrize("name", ["bf16", "f16", "f8e4m3", "f8e4m3fn", "f8e5m2", "f8e3m4", "f4e2m1"])
def test_stochastic_rounding_is_exact_in_its_words(name, portable):
    """Up exactly when the element's word is below the dropped fraction in 32 bits."""
    seed, start = 0x123456789ABC, 1001
    with np.errstate(invalid="ignore"):
        grid = np.abs(all_codes(name).view(FLOATS[name]).astype(np.float64))
    codes = all_codes(name)[: grid.size // 2]
    grid = grid[: grid.size // 2]
    codes, grid = codes[np.isfinite(grid)], grid[np.isfinite(grid)]
    values = np.abs(np.concatenate([edge_values(), random_values(300_000)]))
    values = values[values < grid[-1]]
    at = np.searchsorted(grid, values, side="right") - 1
    fraction = (values - grid[at]) / (grid[np.minimum(at + 1, grid.size - 1)] - grid[at])
    words = philox(seed, start + np.arange(values.size))
    up = words < np.floor(fraction * 2.0**32)
    out = convert(values, "f32", name, rounding="stochastic", seed=seed, index=start, portable=portable)
    np.testing.assert_array_equal(out, codes[at] + up)
    assert up.any() and not up.all()
    assert _core.random_at(seed, start + 5) == words[5]


MX = {"f8e4m3fn": 8, "f8e5m2": 15, "f4e2m1": 2}


@pytest.mark.parametrize("rule", ["chip", "ocp"])
@pytest.mark.parametrize("element", MX)
def test_mx_blocks(element, rule):
    rng = np.random.default_rng(3)
    values = (rng.standard_normal((500, 32)) * np.exp2(rng.integers(-60, 60, (500, 1)))).astype(np.float32)
    values[7] = 0
    amax = np.abs(values).max(axis=1, keepdims=True)
    exponent = np.frexp(amax)[1] - 1 - (MX[element] - (rule == "chip"))
    exponent[7] = -127
    kind = FLOATS[element]
    most = np.float32(ml_dtypes.finfo(kind).max)
    scaled = np.clip(values * np.exp2(-exponent.astype(np.float32)), -most, most)
    codes, scales = _core.mx_quantize(values.ravel(), element, rule)
    np.testing.assert_array_equal(scales, exponent.ravel() + 127)
    expected = scaled.astype(kind)
    np.testing.assert_array_equal(unpack(codes, element, values.size), expected.view(np.uint8).ravel())
    back = _core.mx_dequantize(codes, scales, element).reshape(values.shape)
    np.testing.assert_array_equal(back, expected.astype(np.float32) * np.exp2(exponent.astype(np.float32)))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: _core.convert(np.zeros(4, np.uint8), "f33", "f32"), 'no dtype "f33"; near: f32'),
        (lambda: _core.convert(np.zeros(4, np.uint8), "f32", "bf16", rounding="up"), 'no rounding "up"'),
        (lambda: _core.convert(np.zeros(5, np.uint8), "f32", "bf16"), "cannot convert 5 bytes of f32"),
        (lambda: _core.convert(np.zeros(4, np.uint8), "f8e5m2_x4", "f32"), "packed MX carriers need their scales"),
        (lambda: _core.mx_quantize(np.zeros(33, np.float32), "f8e5m2"), "whole blocks of 32"),
        (lambda: _core.mx_quantize(np.zeros(32, np.float32), "bf16"), "bf16 is not an MX element"),
        (lambda: _core.mx_quantize(np.zeros(32, np.float32), "f8e5m2", "ieee"), 'no MX rule "ieee"'),
    ],
)
def test_mistakes_are_told(call, message):
    with pytest.raises(ValueError, match=message):
        call()
