"""What the vector engine's searches, shuffles and MX quantisation mean."""

from __future__ import annotations

import numpy as np
from alu_meaning import bits_of
from harness import CHIPS, Case, Maker, Meaning, Step, cast, f32

def searched(make: Maker, chip: str, p: int) -> tuple[str, int, np.ndarray]:
    """Data with many equal values, so that ties matter."""
    dtype = make.dtype(chip, "float", "int")
    n = int(make.rng.integers(8, 80))
    values = make.rng.integers(0, 20, (p, n)) - (10 if dtype[0] != "u" else 0)
    return dtype, n, cast(f32(values), dtype)


def make_max8(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    p, _ = make.shape()
    if make.chance(0.5):
        dtype, n, values = searched(make, chip, p)
        src = make.tile(dtype, p, n, space=make.space(), writes=True, values=values)
    else:
        src = make.tile(make.dtype(chip, "float", "int"), p, int(make.rng.integers(8, 80)), space=make.space(), special=0)
    dst = make.tile(make.dtype(chip, "float", "int"), p, 8, space=make.space(), writes=True)
    return Case(chip, "vector", [Step("max8", {"dst": dst, "src": src})])


def max8(case: Case):
    x = case["src"].f32
    return {"dst": np.take_along_axis(x, np.argsort(-x, axis=1, kind="stable")[:, :8], axis=1)}


def values_of(make: Maker, chip: str, p: int):
    """A searched tile and eight values, most of them in it."""
    dtype, n, values = searched(make, chip, p)
    data = make.tile(dtype, p, n, space=make.space(), writes=True, values=values)
    picked = np.take_along_axis(f32(values), make.rng.integers(0, n, (p, 8)), axis=1)
    picked = np.where(make.rng.random((p, 8)) < 0.15, np.float32(50), picked)
    return data, make.tile(make.pick("f32", "bf16"), p, 8, space=make.space(), writes=True, values=picked)


def places(data, vals, order):
    """Index of each value, or -1: every element goes to the first open value it equals, in `order`."""
    out = np.full((len(data), 8), -1, np.int64)
    for lane, (row, wanted) in enumerate(zip(data, vals)):
        for j in order:
            free = np.flatnonzero((row == wanted[j]) & ~np.isin(np.arange(len(row)), out[lane]))
            if len(free):
                out[lane, j] = free[0]
    return out


def make_nc_find_index8(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    p, _ = make.shape()
    data, vals = values_of(make, chip, p)
    dst = make.tile(make.pick("u16", "u32"), p, 8, space=make.space(), writes=True)
    return Case(chip, "vector", [Step("nc_find_index8", {"dst": dst, "data": data, "vals": vals})])


def nc_find_index8(case: Case):
    at = places(case["data"].f32, case["vals"].f32, range(8))
    return {"dst": bits_of(at & 0xFFFFFFFF, case["dst"].dtype)}


def make_nc_match_replace8(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    p, _ = make.shape()
    data, vals = values_of(make, chip, p)
    dst = data if make.chance(0.2) else make.tile(make.dtype(chip, "float", "int"), p, data.region.elements, space=make.space(), writes=True)
    operands = {"dst": dst, "data": data, "vals": vals}
    if make.chance(0.6):
        operands["dst_idx"] = make.tile(make.pick("u16", "u32"), p, 8, space=make.space(), writes=True)
    return Case(chip, "vector", [Step("nc_match_replace8", operands, {"imm": make.number()})])


def nc_match_replace8(case: Case):
    data = case["data"].f32
    at = places(data, case["vals"].f32, range(7, -1, -1))
    out = data.copy()
    for lane, row in enumerate(at):
        out[lane, row[row >= 0]] = case.attrs["imm"]
    index = case["dst_idx"]
    return {"dst": out} | ({"dst_idx": bits_of(at & 0xFFFFFFFF, index.dtype)} if index else {})


def make_nc_stream_shuffle(make: Maker) -> Case:
    chip = make.pick(*CHIPS)
    p = make.pick(32, 64, 96, 128)
    n = int(make.rng.integers(1, 60))
    dtype = make.dtype(chip, "float", "int")
    src = make.tile(dtype, p, n, space=make.space())
    in_place = make.chance(0.3) and src.region.elements == len(set(src.region.indices()))
    dst = src if in_place else make.tile(dtype, p, n, space=make.space(), writes=True)
    mask = [int(m) if make.chance(0.8) else 255 for m in make.rng.integers(0, 32, 32)]
    return Case(chip, "vector", [Step("nc_stream_shuffle", {"dst": dst, "src": src}, {"shuffle_mask": mask})])


def nc_stream_shuffle(case: Case):
    src, out = case["src"].values, case["dst"].values.copy()
    for p in range(len(out)):
        m = case.attrs["shuffle_mask"][p % 32]
        if m != 255:
            out[p] = src[p // 32 * 32 + m]
    return {"dst": out}


# --- quantize_mx ---


def make_quantize_mx(make: Maker) -> Case:
    p, n = make.pick(32, 64, 96, 128), int(make.rng.integers(1, 12))
    src = make.tile(make.pick("bf16", "f16"), p, 4 * n, special=0, scale=float(make.pick(1e-3, 1.0, 100.0)), start=0)
    spread = 2.0 ** make.rng.integers(-12, 8, (p // 8, 1, 1)).repeat(8, axis=0).reshape(p, 1)
    zero = make.rng.random((p // 8, n)) < 0.1
    values = np.where(zero.repeat(8, axis=0).repeat(4, axis=1), 0, src.f32 * f32(spread))
    src = make.tile(src.dtype, p, 4 * n, writes=True, values=f32(values))
    dst = make.tile(make.pick("f8e4m3fn_x4", "f8e5m2_x4"), p, n, writes=True)
    scale = make.tile("u8", p, n, writes=True)
    return Case("trn3", "vector", [Step("quantize_mx", {"dst": dst, "src": src, "dst_scale": scale})])


def quantize_mx(case: Case):
    src, dst = case["src"].f32, case["dst"]
    element, top = ("f8e4m3fn", 8) if dst.dtype == "f8e4m3fn_x4" else ("f8e5m2", 15)
    p, n = len(src), src.shape[1] // 4
    blocks = src.reshape(p // 8, 8, n, 4).transpose(0, 2, 1, 3).astype(np.float64)  # [group, column, partition, element]
    largest = np.abs(blocks).max(axis=(2, 3))
    exponent = np.where(largest > 0, np.floor(np.log2(np.where(largest > 0, largest, 1))) - (top - 1), -127)
    exponent = np.maximum(exponent, -127)
    codes = cast(f32(blocks / 2.0 ** exponent[:, :, None, None]), element).view(np.uint8)
    carriers = codes.transpose(0, 2, 1, 3).reshape(p, n * 4).copy().view(np.uint32)
    scales = case["dst_scale"].values.copy()
    for group in range(p // 8):
        scales[group // 4 * 32 + group % 4] = (exponent[group] + 127).astype(np.uint8)
    return {"dst": carriers, "dst_scale": scales}


TABLE = {
    "max8": Meaning(make_max8, max8),
    "nc_find_index8": Meaning(make_nc_find_index8, nc_find_index8),
    "nc_match_replace8": Meaning(make_nc_match_replace8, nc_match_replace8),
    "nc_stream_shuffle": Meaning(make_nc_stream_shuffle, nc_stream_shuffle),
    "quantize_mx": Meaning(make_quantize_mx, quantize_mx),
}
