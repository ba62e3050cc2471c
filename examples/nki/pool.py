"""Average pooling of a whole image: one number for each channel."""

import trine.nki as nki
import trine.nki.isa as nisa
import trine.nki.language as nl


@nki.jit
def average_pool(x):
    """Means of x[batch, channels, height, width] over the image, as [batch, channels, 1, 1]; channels a multiple of 128."""
    batch, channels, height, width = x.shape
    p, size = nl.tile_size.pmax, height * width
    out = nl.ndarray((batch, channels, 1, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    for b in range(batch):
        for c in range(0, channels, p):
            tile, mean = nl.ndarray((p, size), dtype=x.dtype), nl.ndarray((p, 1), dtype=x.dtype)
            nisa.dma_copy(dst=tile, src=x[b, c : c + p].reshape((p, size)))
            nisa.tensor_reduce(dst=mean, op=nl.add, data=tile, axis=1)
            nisa.tensor_scalar(dst=mean, data=mean, op0=nl.multiply, operand0=1 / size)
            nisa.dma_copy(dst=out[b, c : c + p, 0], src=mean)
    return out
