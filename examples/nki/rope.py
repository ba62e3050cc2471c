"""Rotary position embedding: the two halves of each row of x[n, d] turned by the angle of its position."""

import trine.nki as nki
import trine.nki.isa as nisa
import trine.nki.language as nl


@nki.jit
def rope(x, cos, sin):
    """x[n, d] with cos[n, d/2] and sin[n, d/2]."""
    n, d = x.shape
    half = d // 2
    out = nl.ndarray((n, d), dtype=x.dtype, buffer=nl.shared_hbm)
    for begin in range(0, n, nl.tile_size.pmax):
        r = slice(begin, min(begin + nl.tile_size.pmax, n))
        p = r.stop - r.start
        tile, c, s = nl.load(x[r, :]), nl.load(cos[r, :]), nl.load(sin[r, :])
        first, second = tile[:, :half], tile[:, half:]
        result = nl.ndarray((p, d), dtype=x.dtype)
        turned = nl.ndarray((p, 4, half), dtype=nl.float32)
        for i, (a, b) in enumerate(((first, c), (second, s), (second, c), (first, s))):
            nisa.tensor_tensor(dst=turned[:, i], data1=a, data2=b, op=nl.multiply)
        nisa.tensor_tensor(dst=result[:, :half], data1=turned[:, 0], data2=turned[:, 1], op=nl.subtract)
        nisa.tensor_tensor(dst=result[:, half:], data1=turned[:, 2], data2=turned[:, 3], op=nl.add)
        nl.store(out[r, :], result)
    return out
