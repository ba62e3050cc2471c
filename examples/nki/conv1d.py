"""A one-dimensional convolution as matmuls: one per tap, all of them adding up in the same PSUM tile."""

import trine.nki as nki
import trine.nki.isa as nisa
import trine.nki.language as nl


@nki.jit
def conv1d(x, w):
    """out[o, t] = Σ_k Σ_c w[k, c, o] · x[c, t + k] for x[c, length], w[taps, c, o]; c and o at most 128."""
    channels, length = x.shape
    taps, _, outs = w.shape
    steps = length - taps + 1
    out = nl.ndarray((outs, steps), dtype=x.dtype, buffer=nl.shared_hbm)
    signal = nl.load(x)
    weights = nl.ndarray((channels, taps, outs), dtype=w.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=weights, src=w.permute((1, 0, 2)))
    for begin in range(0, steps, nl.tile_size.gemm_moving_fmax):
        end = min(begin + nl.tile_size.gemm_moving_fmax, steps)
        sums = nl.ndarray((outs, end - begin), dtype=nl.float32, buffer=nl.psum)
        for k in range(taps):
            nisa.nc_matmul(dst=sums, stationary=weights[:, k, :], moving=signal[:, begin + k : end + k])
        result = nl.ndarray((outs, end - begin), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=sums)
        nl.store(out[:, begin:end], result)
    return out
