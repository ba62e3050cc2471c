"""Matrix multiplies in the functional dialect. What lies with its rows on partitions is transposed on chip, tile by tile."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

P, HALF, TILE = 128, 512, 1024


def eye():
    return nl.load(nl.shared_constant(np.identity(P, dtype=np.float32)))


def transposed(tile, identity):
    """Into PSUM, by a multiply with the identity."""
    return nisa.nc_matmul(tile, identity, is_moving_onezero=True, is_transpose=True)


@nki.jit
def batched(left, right):
    """left[b, m, k] · right[b, k, n] for k ≤ 128, as [b, m / 128, 128, n]."""
    batch, m, k = left.shape
    n = right.shape[2]
    out = nl.ndarray((batch, m // P, P, n), dtype=left.dtype, buffer=nl.shared_hbm)
    identity, i_k = eye(), nl.arange(k)[:, None]
    i_p, i_f, i_tile, i_half = nl.arange(P)[:, None], nl.arange(P)[None, :], nl.arange(TILE)[None, :], nl.arange(HALF)[None, :]
    for b in nl.affine_range(batch):
        for c in nl.affine_range(n // TILE):
            moving = nl.load(right[b, i_k, c * TILE + i_tile])
            for block in nl.affine_range(m // TILE):
                stationary = nl.ndarray((nl.par_dim(k), TILE), dtype=left.dtype, buffer=nl.sbuf)
                for r in nl.affine_range(TILE // P):
                    rows = nl.load(left[b, block * TILE + r * P + i_p, nl.arange(k)[None, :]])
                    stationary[i_k, r * P + i_f] = nl.copy(transposed(rows, identity))
                for r in nl.affine_range(TILE // P):
                    result = nl.ndarray((nl.par_dim(P), TILE), dtype=left.dtype, buffer=nl.sbuf)
                    for h in nl.affine_range(TILE // HALF):
                        sums = nisa.nc_matmul(stationary[i_k, r * P + i_f], moving[i_k, h * HALF + i_half])
                        result[i_p, h * HALF + i_half] = nl.copy(sums)
                    nl.store(out[b, block * (TILE // P) + r, i_p, c * TILE + i_tile], result)
    return out


@nki.jit
def deep(left, right):
    """left[m / 128, 128, k / 128, 128] · right[k / 128, 128, n], as [m / 128, 128, n]: all of a column block of right before its rows."""
    blocks, _, depth, _ = left.shape
    n = right.shape[2]
    out = nl.ndarray((blocks, P, n), dtype=left.dtype, buffer=nl.shared_hbm)
    identity, eight = eye(), TILE // P
    i_p, i_f, i_tile, i_half = nl.arange(P)[:, None], nl.arange(P)[None, :], nl.arange(TILE)[None, :], nl.arange(HALF)[None, :]
    for c in nl.affine_range(n // TILE):
        columns = nl.ndarray((depth, nl.par_dim(P), TILE), dtype=left.dtype, buffer=nl.sbuf)
        for d in nl.affine_range(depth):
            columns[d] = nl.load(right[d, i_p, c * TILE + i_tile])
        for b in nl.affine_range(blocks):
            stationary = nl.ndarray((depth // eight, nl.par_dim(P), eight, P), dtype=left.dtype, buffer=nl.sbuf)
            for g in nl.affine_range(depth // eight):
                rows = nl.load(left[b, 0:P, g * eight : (g + 1) * eight, 0:P])
                for e in nl.affine_range(eight):
                    stationary[g, i_p, e, i_f] = nl.copy(transposed(rows[0:P, e, 0:P], identity))
            result = nl.ndarray((nl.par_dim(P), TILE), dtype=left.dtype, buffer=nl.sbuf)
            for h in nl.affine_range(TILE // HALF):
                sums = nl.zeros((nl.par_dim(P), HALF), dtype=nl.float32, buffer=nl.psum)
                for g in nl.affine_range(depth // eight):
                    for e in nl.affine_range(eight):
                        sums += nisa.nc_matmul(stationary[g, i_p, e, i_f], columns[g * eight + e, i_p, h * HALF + i_half])
                result[i_p, h * HALF + i_half] = nl.copy(sums)
            nl.store(out[b, i_p, c * TILE + i_tile], result)
    return out


@nki.jit
def swiglu(x, up, down, gate):
    """(silu(x · gate) * (x · up)) · down, in three loops: gate, up with the product, and down.

    x[m / 512, 4, 128, k / 128, 128], gate and up[k / 128, 128, n], down[n / 128, 128, k]; the result is [m / 128, 128, k]. The
    product goes through HBM, as a compiler had spilled it.
    """
    blocks, quarters, _, depth, _ = x.shape
    n, k = gate.shape[2], depth * P
    thirds, eight = n // TILE, TILE // P
    out = nl.ndarray((blocks * quarters, P, k), dtype=x.dtype, buffer=nl.shared_hbm)
    saved = nl.ndarray((thirds, eight, blocks, P, HALF), dtype=x.dtype, name="product_spill_0", buffer=nl.hbm)
    zero, identity = nisa.memset((P, 1), 0, nl.float32), eye()
    i_p, i_f, i_tile, i_half = nl.arange(P)[:, None], nl.arange(P)[None, :], nl.arange(TILE)[None, :], nl.arange(HALF)[None, :]

    def weights(source, third):
        tiles = nl.ndarray((depth, nl.par_dim(P), TILE), dtype=x.dtype, buffer=nl.sbuf)
        for d in nl.affine_range(depth):
            tiles[d] = nl.load(source[d, i_p, third * TILE + i_tile])
        return tiles

    def columns_of(block):
        tiles = nl.ndarray((nl.par_dim(P), depth, HALF), dtype=x.dtype, buffer=nl.sbuf)
        for q in nl.affine_range(quarters):
            rows = nl.load(x[block, q, 0:P, 0:depth, 0:P])
            for d in nl.affine_range(depth):
                tiles[i_p, d, q * P + i_f] = nl.copy(transposed(rows[0:P, d, 0:P], identity))
        return tiles

    def product(w, moving, e):
        sums = nl.zeros((nl.par_dim(P), HALF), dtype=nl.float32, buffer=nl.psum)
        for d in nl.affine_range(depth):
            sums += nisa.nc_matmul(w[d, i_p, e * P + i_f], moving[i_p, d, i_half])
        return sums

    gated = nl.ndarray((thirds, blocks, eight, nl.par_dim(P), HALF), dtype=x.dtype, buffer=nl.sbuf)
    for t in nl.affine_range(thirds):
        w = weights(gate, t)
        for b in nl.affine_range(blocks):
            moving = columns_of(b)
            for e in nl.affine_range(eight):
                gated[t, b, e] = nl.copy(product(w, moving, e))
    for t in nl.affine_range(thirds):
        w = weights(up, t)
        for b in nl.affine_range(blocks):
            moving = columns_of(b)
            for e in nl.affine_range(eight):
                sums = product(w, moving, e)
                power = nisa.activation(op=nl.exp, data=gated[t, b, e], bias=zero, scale=-1.0)
                inverse = nisa.reciprocal(nisa.tensor_scalar(power, nl.add, 1.0))
                nl.store(saved[t, e, b], nl.multiply(nl.multiply(gated[t, b, e], inverse), sums))
    last = nl.ndarray((thirds * eight, nl.par_dim(P), k), dtype=x.dtype, buffer=nl.sbuf)
    for d in nl.affine_range(thirds * eight):
        last[d] = nl.load(down[d])
    for b in nl.affine_range(blocks):
        again = nl.ndarray((thirds * eight, nl.par_dim(P), HALF), dtype=x.dtype, buffer=nl.sbuf)
        for t in nl.affine_range(thirds):
            for e in nl.affine_range(eight):
                again[t * eight + e] = nl.load(saved[t, e, b])
        for q in nl.affine_range(quarters):
            result = nl.ndarray((nl.par_dim(P), k), dtype=x.dtype, buffer=nl.sbuf)
            for h in nl.affine_range(k // HALF):
                sums = nl.zeros((nl.par_dim(P), HALF), dtype=nl.float32, buffer=nl.psum)
                for d in nl.affine_range(thirds * eight):
                    sums += nisa.nc_matmul(again[d, i_p, q * P + i_f], last[d, i_p, h * HALF + i_half])
                result[i_p, h * HALF + i_half] = nl.copy(sums)
            nl.store(out[b * quarters + q], result)
    return out
