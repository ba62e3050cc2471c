"""RMSNorm and the projection after it in one kernel: what lies between them never reaches HBM.

The norm is one number per row, so it is applied to the product instead of the input, and the tensor engine need not
wait for it.
"""

import trine.nki as nki
import trine.nki.isa as nisa
import trine.nki.language as nl


def turned(tile):
    """tile[p, dim] as dim / p tiles [p, p] side by side, each transposed; four share a bank."""
    p, dim = tile.shape
    out = nl.ndarray((p, dim), dtype=tile.dtype)
    for c in range(0, dim, 4 * p):
        width = min(4 * p, dim - c)
        bank = nl.ndarray((p, width), dtype=tile.dtype, buffer=nl.psum)
        for i in range(0, width, p):
            nisa.nc_transpose(dst=bank[:, i : i + p], data=tile[:, c + i : c + i + p])
        nisa.tensor_copy(dst=out[:, c : c + width], src=bank)
    return out


def inverse_rms(tile, eps):
    """1 / √(mean(x²) + eps) of each row."""
    p, dim = tile.shape
    squares, out = nl.ndarray((p, dim), dtype=nl.float32), nl.ndarray((p, 1), dtype=nl.float32)
    nisa.activation_reduce(dst=squares, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=out)
    nisa.tensor_scalar(dst=out, data=out, op0=nl.multiply, operand0=1 / dim, op1=nl.add, operand1=eps)
    nisa.activation(dst=out, op=nl.rsqrt, data=out)
    return out


@nki.jit
def rmsnorm_qkv(hidden, weight, eps=1e-6):
    """rmsnorm(hidden[batch, n, dim]) · weight[dim, d], d ≤ one bank; n and dim multiples of 128."""
    batch, n, dim = hidden.shape
    d, p = weight.shape[1], nl.tile_size.pmax
    out = nl.ndarray((batch, n, d), dtype=hidden.dtype, buffer=nl.shared_hbm)
    weights = [nl.load(weight[c : c + p, :]) for c in range(0, dim, p)]
    for b in range(batch):
        for row in range(0, n, p):
            tile = nl.load(hidden[b, row : row + p, :])
            columns, scale = turned(tile), inverse_rms(tile, eps)
            sums = nl.ndarray((p, d), dtype=nl.float32, buffer=nl.psum)
            for c, w in enumerate(weights):
                nisa.nc_matmul(dst=sums, stationary=columns[:, c * p : (c + 1) * p], moving=w)
            result = nl.ndarray((p, d), dtype=hidden.dtype)
            nisa.tensor_scalar(dst=result, data=sums, op0=nl.multiply, operand0=scale)
            nl.store(out[b, row : row + p, :], result)
    return out
