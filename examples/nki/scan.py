"""Running sums and the k largest of each row."""

import trine.nki as nki
import trine.nki.isa as nisa
import trine.nki.language as nl


@nki.jit
def cumsum(x, chunk=2048):
    """Running sums along the last dimension of x[n, d], n ≤ 128; chunks hand their last column on."""
    n, d = x.shape
    out = nl.ndarray((n, d), dtype=x.dtype, buffer=nl.shared_hbm)
    chunk = min(chunk, d)
    ones = nl.ones((n, chunk), dtype=nl.float32)
    carry = 0.0
    for begin in range(0, d, chunk):
        end = min(begin + chunk, d)
        tile, sums = nl.load(x[:, begin:end]), nl.ndarray((n, end - begin), dtype=nl.float32)
        nisa.tensor_tensor_scan(dst=sums, data0=ones[:, : end - begin], data1=tile, initial=carry, op0=nl.multiply, op1=nl.add)
        carry = sums[:, end - begin - 1 : end - begin]
        if x.dtype == nl.float32:
            nl.store(out[:, begin:end], sums)
        else:
            nl.store(out[:, begin:end], nl.copy(sums, dtype=x.dtype))
    return out


@nki.jit
def topk(x, k):
    """Values and indices of the k largest of each row of x[n, d], descending; k is a multiple of 8, n ≤ 128."""
    n, d = x.shape
    values = nl.ndarray((n, k), dtype=x.dtype, buffer=nl.shared_hbm)
    indices = nl.ndarray((n, k), dtype=nl.uint32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    top, places = nl.ndarray((n, k), dtype=x.dtype), nl.ndarray((n, k), dtype=nl.uint32)
    for i in range(0, k, 8):
        eight = slice(i, i + 8)
        nisa.max8(dst=top[:, eight], src=tile)
        nisa.nc_find_index8(dst=places[:, eight], data=tile, vals=top[:, eight])
        if i + 8 < k:
            left = nl.ndarray((n, d), dtype=x.dtype)
            nisa.nc_match_replace8(dst=left, data=tile, vals=top[:, eight], imm=-3.0e38)
            tile = left
    nl.store(values, top)
    nl.store(indices, places)
    return values, indices
