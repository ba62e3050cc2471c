"""Elementwise kernels in the functional dialect: rows of 128, columns in tiles of 1,024 that are worked on by halves."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

P, TILE, HALF = 128, 1024, 512


@nki.jit
def silu(x):
    """x / (1 + exp(-x)) of x[128, rows, columns], every partition with rows of its own."""
    _, rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    zero = nisa.memset((P, 1), 0, nl.float32)
    i_p, i_tile, i_half = nl.arange(P)[:, None], nl.arange(TILE)[None, :], nl.arange(HALF)[None, :]
    for r in nl.affine_range(rows):
        for c in nl.affine_range(columns // TILE):
            tile = nl.load(x[i_p, r, c * TILE + i_tile])
            result = nl.ndarray((nl.par_dim(P), TILE), dtype=x.dtype, buffer=nl.sbuf)
            for h in nl.affine_range(TILE // HALF):
                part = tile[i_p, h * HALF + i_half]
                power = nisa.activation(op=nl.exp, data=part, bias=zero, scale=-1.0)
                inverse = nisa.reciprocal(nisa.tensor_scalar(power, nl.add, 1.0))
                result[i_p, h * HALF + i_half] = nl.multiply(part, inverse)
            nl.store(out[i_p, r, c * TILE + i_tile], result)
    return out


@nki.jit
def adamw(weight, gradient, mean, square, rate=0.01, decay=1e-5, beta1=0.9, beta2=0.999, epsilon=1e-8):
    """One AdamW step: the new weight. The last rows are masked."""
    rows, columns = weight.shape
    out = nl.ndarray(weight.shape, dtype=weight.dtype, buffer=nl.shared_hbm)
    zero = nisa.memset((P, 1), 0, nl.float32)
    i_p, i_tile, i_half = nl.arange(P)[:, None], nl.arange(TILE)[None, :], nl.arange(HALF)[None, :]
    for r in nl.affine_range(-(-rows // P)):
        there = r * P + i_p < rows
        for c in nl.affine_range(columns // TILE):
            w, m, v, g = (nl.load(t[r * P + i_p, c * TILE + i_tile], mask=there) for t in (weight, mean, square, gradient))
            result = nl.ndarray((nl.par_dim(P), TILE), dtype=weight.dtype, buffer=nl.sbuf)
            for h in nl.affine_range(TILE // HALF):
                at = (i_p, h * HALF + i_half)
                kept = nl.subtract(w[at], scaled(w[at], decay, there), mask=there)
                first = nl.add(scaled(m[at], beta1, there), scaled(g[at], 1 - beta1, there), mask=there)
                step = scaled(first, rate, there)
                old = scaled(v[at], beta2, there)
                second = nl.add(old, nl.multiply(scaled(g[at], 1 - beta2, there), g[at], mask=there), mask=there)
                root = nisa.activation(op=nl.sqrt, data=second, bias=zero, scale=1 / (1 - beta2), mask=there)
                inverse = nisa.reciprocal(nisa.tensor_scalar(root, nl.add, epsilon, mask=there), mask=there)
                result[at] = nl.subtract(kept, nl.multiply(step, inverse, mask=there), mask=there)
            nl.store(out[r * P + i_p, c * TILE + i_tile], result, mask=there)
    return out


def scaled(tile, factor, mask):
    return nisa.tensor_scalar(tile, nl.multiply, factor, mask=mask)


@nki.jit
def rope(x, cos, sin):
    """Rotary embedding of x[128, positions]: the upper 64 rows are the even parts, the lower 64 the odd ones."""
    d, length = x.shape
    half = d // 2
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_up, i_all, i_f = nl.arange(half)[:, None], nl.arange(d)[:, None], nl.arange(HALF)[None, :]
    for begin in range(0, length, HALF):
        tile = nl.load(x[i_all, begin + i_f])
        c, s = nl.load(cos[i_up, begin + i_f]), nl.load(sin[i_up, begin + i_f])
        even, odd = tile[i_up, i_f], nl.copy(tile[half + i_up, i_f])  # both inputs from the same partitions
        even_cos, odd_cos = nisa.tensor_tensor(even, c, nl.multiply), nisa.tensor_tensor(odd, c, nl.multiply)
        even_sin, odd_sin = nisa.tensor_tensor(even, s, nl.multiply), nisa.tensor_tensor(odd, s, nl.multiply)
        result = nl.ndarray((nl.par_dim(d), HALF), dtype=x.dtype, buffer=nl.sbuf)
        result[i_up, i_f] = nisa.tensor_tensor(even_cos, odd_sin, nl.subtract)
        result[half + i_up, i_f] = nisa.tensor_tensor(odd_cos, even_sin, nl.add)
        nl.store(out[i_all, begin + i_f], result)
    return out
