"""GpSimd's instructions in NumPy: affine patterns, gathers, selections, reductions across partitions. All exact."""

import numpy as np
from harness import CHIPS, INTS, Case, Meaning, Step, cast, f32, is_float, numpy_dtype, split

GROUP = 16  # partitions of one processor


def as_dtype(values, name):
    """Exact integers to a format: floats by way of float32, integers saturate."""
    if not is_float(name):
        info = np.iinfo(numpy_dtype(name))
        return np.clip(values, info.min, info.max).astype(numpy_dtype(name))
    return cast(np.asarray(values).astype(np.float32), name)


# --- iota and affine_select ---


def make_pattern(make, n):
    counts = split(make.rng, n, int(make.rng.integers(1, 5)))
    wide = make.chance(0.2)
    steps = [int(make.rng.integers(-(2**31), 2**31) if wide else make.rng.integers(-9, 10)) for _ in counts]
    return {"pattern": [v for pair in zip(steps, counts) for v in pair],
            "offset": int(make.rng.integers(-(2**31), 2**31)) if wide else int(make.rng.integers(-50, 50)),
            "channel_multiplier": int(make.rng.integers(-20, 20))}


def affine(attrs, p):
    at = attrs["offset"] + np.arange(p, dtype=np.int64)[:, None] * attrs["channel_multiplier"]
    for step, count in zip(attrs["pattern"][::2], attrs["pattern"][1::2]):
        at = (at[:, :, None] + np.arange(count, dtype=np.int64) * step).reshape(p, -1)
    return at.astype(np.uint32).view(np.int32).astype(np.int64)


def make_iota(make):
    p, n = make.shape()
    chip = make.pick(*CHIPS)
    dst = make.tile(make.dtype(chip, "float", "int"), p, n, writes=True)
    return Case(chip, "gpsimd", [Step("iota", {"dst": dst}, make_pattern(make, n))])


def iota(case):
    return {"dst": as_dtype(affine(case.attrs, case["dst"].region.partitions), case["dst"].dtype)}


COMPARE = {"equal": np.equal, "not_equal": np.not_equal, "greater_equal": np.greater_equal, "greater": np.greater,
           "less_equal": np.less_equal, "less": np.less}


def make_affine_select(make):
    p, n = make.shape()
    chip = make.pick(*CHIPS)
    dst = make.tile(make.dtype(chip, "float", "int"), p, n, writes=True)
    source = make.tile(dst.dtype if make.chance(0.5) else make.dtype(chip, "float", "int"), p, n)
    if make.chance(0.2):
        source = make.overlapping(dst, n)
    attrs = make_pattern(make, n) | {"on_false_value": make.pick(0.0, -1e30, -9984.0, make.number()),
                                     "cmp_op": make.pick(*COMPARE)}
    return Case(chip, "gpsimd", [Step("affine_select", {"dst": dst, "on_true_tile": source}, attrs)])


def affine_select(case):
    source, dst = case["on_true_tile"], case["dst"]
    chosen = COMPARE[case.attrs["cmp_op"]](affine(case.attrs, dst.region.partitions), 0)
    other = np.float32(case.attrs["on_false_value"])
    if source.dtype == dst.dtype:
        return {"dst": np.where(chosen, source.values, cast(other, dst.dtype))}
    return {"dst": np.where(chosen, source.f32, other)}


# --- gathers ---


def make_local_gather(make):
    p = GROUP * int(make.pick(1, 2, 3, 4, 8))
    columns, run, source_n = int(make.rng.integers(1, 5)), int(make.pick(1, 2, 4, 8)), int(make.rng.integers(8, 200))
    count = columns * GROUP if make.chance(0.5) else int(make.rng.integers(1, columns * GROUP + 1))
    dtype = make.pick("f32", "bf16", "u8", "s32", "f16")
    indices = make.rng.integers(0, source_n - run + 1, (p, columns))
    operands = {"dst": make.tile(dtype, p, count * run, writes=True), "src_buffer": make.tile(dtype, p, source_n),
                "index": make.tile("u16", p, columns, writes=True, values=indices.astype(np.uint16))}
    attrs = {"num_elem_per_idx": run, "num_valid_indices": 0 if count == columns * GROUP else count}
    return Case(make.pick(*CHIPS), "gpsimd", [Step("local_gather", operands, attrs)])


def local_gather(case):
    source, index, run = case["src_buffer"].values, case["index"].values, case.attrs["num_elem_per_idx"]
    out = np.empty((source.shape[0], case["dst"].region.elements), source.dtype)
    for first in range(0, source.shape[0], GROUP):
        rows = slice(first, first + GROUP)
        starts = index[rows].flatten(order="F")[: case.attrs["num_valid_indices"] or None].astype(np.int64)
        out[rows] = source[rows][:, (starts[:, None] + np.arange(run)).reshape(-1)]
    return {"dst": out}


def make_nc_n_gather(make):
    p, n = make.shape(700)
    source_n = int(make.rng.integers(1, 200))
    dtype = make.pick("f32", "bf16", "u8", "s32")
    indices = make.rng.integers(0, source_n, (p, n)).astype(np.uint32)
    operands = {"dst": make.tile(dtype, p, n, writes=True), "data": make.tile(dtype, p, source_n),
                "indices": make.tile("u32", p, n, writes=True, values=indices)}
    return Case(make.pick(*CHIPS), "gpsimd", [Step("nc_n_gather", operands)])


def nc_n_gather(case):
    return {"dst": np.take_along_axis(case["data"].values, case["indices"].values.astype(np.int64), axis=1)}


# --- selections ---


def make_topk(make):
    p = GROUP * int(make.pick(1, 2, 4, 5, 8))
    n = int(make.rng.integers(8, 300))
    k = int(make.rng.integers(1, min(n, 60) + 1))
    columns = -(-n // GROUP) + int(make.rng.integers(0, 3))
    operands = {"val_dst": make.tile("bf16", p, k, writes=True), "idx_dst": make.tile("u32", p, k, writes=True),
                "src": make.tile("bf16", p, columns, special=0, scale=make.pick(0.7, 3.0, 30.0))}
    return Case(make.pick(*CHIPS), "gpsimd", [Step("topk", operands, {"n": n})])


def topk(case):
    source, n, k = case["src"].values, case.attrs["n"], case["val_dst"].region.elements
    values, indices = case["val_dst"].values.copy(), case["idx_dst"].values.copy()
    for first in range(0, source.shape[0], GROUP):
        snake = source[first : first + GROUP].flatten(order="F")[:n]
        best = np.argsort(-f32(snake), kind="stable")[:k][::-1]
        for j, at in enumerate(best):
            values[first + j % GROUP, j // GROUP] = snake[at]
            indices[first + j % GROUP, j // GROUP] = at
    return {"val_dst": values, "idx_dst": indices}


def make_nonzero(make):
    p, n = make.shape()
    dtype = make.pick("f32", "s32")
    source = make.tile(dtype, p, n)
    source.data[make.rng.random(source.data.shape) < make.pick(0.1, 0.5, 0.95)] = make.pick(0, -0.0)
    attrs = {"index_offset": int(make.rng.integers(-100, 5000)), "padding_val": int(make.pick(-1, 0, 77))}
    dst = make.tile("s32", p, n + 1, writes=True)
    return Case(make.pick("trn2", "trn3"), "gpsimd", [Step("nonzero_with_count", {"dst": dst, "src": source}, attrs)])


def nonzero_with_count(case):
    source, out = case["src"].values, case["dst"].values.copy()
    for p in range(0, source.shape[0], GROUP):
        found = np.flatnonzero(source[p] != 0)
        out[p] = case.attrs["padding_val"]
        out[p, : len(found)] = found + case.attrs["index_offset"]
        out[p, -1] = len(found)
    return {"dst": out}


def make_sequence_bounds(make):
    n = int(make.rng.integers(1, 90))
    ids = np.sort(make.rng.integers(0, max(2, n // 3), n))
    if make.chance(0.4):
        ids = np.roll(ids, int(make.rng.integers(n)))
    operands = {"dst": make.tile(make.pick("f32", "s32"), 1, 2 * n, writes=True),
                "segment_ids": make.tile(make.pick("f32", "s32"), 1, n, writes=True, values=ids[None, :].astype(np.float32))}
    return Case(make.pick(*CHIPS), "gpsimd", [Step("sequence_bounds", operands)])


def sequence_bounds(case):
    ids = case["segment_ids"].values[0]
    n = len(ids)
    start, end = np.empty(n), np.empty(n)
    for i in range(n):
        start[i] = n if ids[i] == 0 else start[i - 1] if i and ids[i] == ids[i - 1] else i
    for i in reversed(range(n)):
        end[i] = -1 if ids[i] == 0 else end[i + 1] if i + 1 < n and ids[i] == ids[i + 1] else i + 1
    return {"dst": np.concatenate([start, end])[None, :]}


def make_partition_reduce(make):
    p, n = make.shape()
    op = make.pick("add", "average", "max", "bitwise_or", "bitwise_and")
    chip = make.pick(*CHIPS)
    dtype = make.pick(*INTS) if op.startswith("bitwise") else make.dtype(chip, "float", "int")
    both = op.startswith("bitwise") or make.chance(0.5)
    operands = {"dst": make.tile(dtype if both else make.dtype(chip, "float", "int"), 1, n, writes=True),
                "data": make.tile(dtype, p, n, special=0)}
    return Case(chip, "gpsimd", [Step("tensor_partition_reduce", operands, {"op": op})])


def tensor_partition_reduce(case):
    op, data, dst = case.attrs["op"], case["data"], case["dst"]
    if op.startswith("bitwise"):
        ufunc = np.bitwise_or if op == "bitwise_or" else np.bitwise_and
        return {"dst": ufunc.reduce(data.values, axis=0)[None, :]}
    if op != "average" and data.dtype in INTS and dst.dtype in INTS:
        whole = data.values.astype(np.int64)
        result = whole.sum(axis=0) if op == "add" else whole.max(axis=0)
        result = result.astype(np.uint32).astype(np.int64) if data.dtype[0] == "u" else result.astype(np.int32)
        return {"dst": as_dtype(result, dst.dtype)[None, :]}
    if op == "max":
        return {"dst": data.f32.max(axis=0)[None, :]}
    total = np.add.accumulate(data.f32, axis=0)[-1]  # in the order of the partitions, rounded each time
    return {"dst": (total / np.float32(len(data.f32)) if op == "average" else total)[None, :]}


TABLE = {
    "iota": Meaning(make_iota, iota),
    "affine_select": Meaning(make_affine_select, affine_select, cases=40),
    "local_gather": Meaning(make_local_gather, local_gather),
    "nc_n_gather": Meaning(make_nc_n_gather, nc_n_gather, cases=20),
    "topk": Meaning(make_topk, topk),
    "nonzero_with_count": Meaning(make_nonzero, nonzero_with_count),
    "sequence_bounds": Meaning(make_sequence_bounds, sequence_bounds),
    "tensor_partition_reduce": Meaning(make_partition_reduce, tensor_partition_reduce, cases=40),
}
