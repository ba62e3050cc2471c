"""A selective scan as state space models have it, in the functional dialect, with its two outer loops in either order.

h[t] = exp(delta[t] a) h[t-1] + delta[t] u[t] b[t] for every channel and state; the result is the sum of h c over the states.
"""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

P = 128


def one_state(delta, u, a, b, c):
    """h c of one state for a tile of channels: delta and u[128, t], a[128, 1] on chip, b and c[1, t] in HBM."""
    decay = nisa.activation(op=nl.exp, data=delta, scale=a)
    row = nl.load(b)
    both = nisa.tensor_tensor(delta, u, op=nl.multiply)
    drive = nisa.tensor_tensor(both, row.broadcast_to(delta.shape), op=nl.multiply)
    h = nisa.tensor_tensor_scan(decay, drive, initial=0, op0=np.multiply, op1=np.add)
    row = nl.load(c)
    return nisa.tensor_tensor(h, row.broadcast_to(delta.shape), op=nl.multiply)


@nki.jit
def states_outside(delta, u, a, b, c):
    """delta and u[batch, channels, t], a[channels, states], b and c[batch, states, t]: each state for all channels."""
    batch, channels, length = delta.shape
    out = nl.ndarray(delta.shape, dtype=delta.dtype, buffer=nl.shared_hbm)
    for n in nl.affine_range(batch):
        sums = nl.zeros((channels // P, nl.par_dim(P), length), dtype=delta.dtype)
        for s in nl.affine_range(a.shape[1]):
            for tile in nl.affine_range(channels // P):
                here = slice(tile * P, (tile + 1) * P)
                now, rate = nl.load(delta[n, here, 0:length]), nl.load(a[here, s])
                drive = nl.load(u[n, here, 0:length])
                sums[tile, 0:P, 0:length] += one_state(now, drive, rate, b[n, s : s + 1, 0:length], c[n, s : s + 1, 0:length])
        for tile in nl.affine_range(channels // P):
            nl.store(out[n, tile * P : (tile + 1) * P, 0:length], sums[tile, 0:P, 0:length])
    return out


@nki.jit
def channels_outside(delta, u, a, b, c):
    """The same, all states for a tile of channels whose delta and u are loaded once."""
    batch, channels, length = delta.shape
    out = nl.ndarray(delta.shape, dtype=delta.dtype, buffer=nl.shared_hbm)
    for n in nl.affine_range(batch):
        for tile in nl.affine_range(channels // P):
            here = slice(tile * P, (tile + 1) * P)
            sums = nl.zeros((nl.par_dim(P), length), dtype=delta.dtype)
            now, drive = nl.load(delta[n, here, 0:length]), nl.load(u[n, here, 0:length])
            for s in nl.affine_range(a.shape[1]):
                rate = nl.load(a[here, s])
                sums[0:P, 0:length] += one_state(now, drive, rate, b[n, s : s + 1, 0:length], c[n, s : s + 1, 0:length])
            nl.store(out[n, here, 0:length], sums)
    return out
