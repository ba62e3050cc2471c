"""Kernels of many kinds, none of them measured: no time is under what bytes and engines need, and every input is read once."""

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python/compat"))

import neuronxcc.nki as nki  # noqa: E402
import neuronxcc.nki.isa as nisa  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402

import trine  # noqa: E402
from trine import _core  # noqa: E402

P, HALF = 128, ml_dtypes.bfloat16


def by_rows(f):
    """A kernel that applies f to tiles of 128 rows."""

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(x.shape[0] // P):
            nl.store(out[i * P : (i + 1) * P], f(nl.load(x[i * P : (i + 1) * P])))
        return out

    return kernel


def softmax(tile):
    e = nl.exp(tile - nl.max(tile, axis=1, keepdims=True))
    return e / nl.sum(e, axis=1, keepdims=True)


def layernorm(tile):
    centred = tile - nl.mean(tile, axis=1, keepdims=True)
    return centred * nl.rsqrt(nl.mean(nl.square(centred), axis=1, keepdims=True) + 1e-5)


def groupnorm(tile):
    out, width = nl.ndarray(tile.shape, dtype=tile.dtype), tile.shape[1] // 8
    for g in nl.affine_range(8):
        out[:, g * width : (g + 1) * width] = layernorm(tile[:, g * width : (g + 1) * width])
    return out


@nki.jit
def rmsnorm(x, weight):
    out, w = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), nl.load(weight)
    for i in nl.affine_range(x.shape[0] // P):
        tile = nl.load(x[i * P : (i + 1) * P])
        scale = nl.rsqrt(nl.mean(nl.square(tile), axis=1, keepdims=True) + 1e-6)
        nl.store(out[i * P : (i + 1) * P], tile * scale * w.broadcast_to(tile.shape))
    return out


@nki.jit
def depthwise(x, weight):
    (channels, length), taps = x.shape, weight.shape[1]
    out = nl.ndarray((channels, length - taps + 1), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(channels // P):
        tile, w = nl.load(x[i * P : (i + 1) * P]), nl.load(weight[i * P : (i + 1) * P])
        sums = nl.zeros((nl.par_dim(P), length - taps + 1), dtype=nl.float32)
        for k in nl.static_range(taps):
            sums[...] = nisa.scalar_tensor_tensor(data=tile[:, k : k + length - taps + 1], op0=nl.multiply,
                                                  operand0=w[:, k : k + 1], op1=nl.add, operand1=sums)  # fmt: skip
        nl.store(out[i * P : (i + 1) * P], sums)
    return out


@nki.jit
def turned(x):
    out = nl.ndarray((x.shape[1], x.shape[0]), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[0] // P):
        tile = nl.load(x[i * P : (i + 1) * P])
        for j in nl.affine_range(x.shape[1] // P):
            nl.store(out[j * P : (j + 1) * P, i * P : (i + 1) * P], nl.copy(nisa.nc_transpose(tile[:, j * P : (j + 1) * P])))
    return out


@nki.jit
def largest(x):
    out = nl.ndarray((x.shape[0], 8), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[0] // P):
        nl.store(out[i * P : (i + 1) * P], nisa.max8(src=nl.load(x[i * P : (i + 1) * P])))
    return out


@nki.jit
def quantised(x, weight, scale):
    """Weights of int8, which every row block uses: loaded and converted once where SBUF holds them."""
    (k, m), n, s = x.shape, weight.shape[1], nl.load(scale)
    out = nl.ndarray((m, n), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(m // P):
        for j in nl.affine_range(n // 512):
            sums = nl.zeros((nl.par_dim(P), 512), dtype=nl.float32, buffer=nl.psum)
            for c in nl.affine_range(k // P):
                moving = nl.copy(nl.load(weight[c * P : (c + 1) * P, j * 512 : (j + 1) * 512]), dtype=x.dtype)
                sums += nisa.nc_matmul(nl.load(x[c * P : (c + 1) * P, i * P : (i + 1) * P]), moving)
            nl.store(out[i * P : (i + 1) * P, j * 512 : (j + 1) * 512], nl.multiply(sums, s))
    return out


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


KERNELS = {
    "softmax": (by_rows(softmax), [zeros(512, 2048)]),
    "layernorm": (by_rows(layernorm), [zeros(512, 2048)]),
    "groupnorm": (by_rows(groupnorm), [zeros(512, 2048)]),
    "dropout": (by_rows(lambda tile: nl.dropout(tile, 0.1)), [zeros(512, 2048)]),
    "rmsnorm": (rmsnorm, [zeros(512, 2048), zeros(1, 2048)]),
    "depthwise": (depthwise, [zeros(256, 2051), zeros(256, 4)]),
    "turned": (turned, [zeros(512, 512)]),
    "largest": (largest, [zeros(512, 4096)]),
    "quantised": (quantised, [zeros(512, 512, dtype=HALF), zeros(512, 1024, dtype=np.int8), zeros(P, 1)]),
}


@pytest.mark.parametrize("instance", ["trn1.2xlarge", "trn2.3xlarge"])
@pytest.mark.parametrize("name", KERNELS)
def test_no_time_is_under_what_it_needs(name, instance):
    kernel, arrays = KERNELS[name]
    found = trine.report(kernel, *arrays, instance=instance)
    chip = _core.chip(found.chip)
    body = found.time_ns - chip["kernel.preamble_ns"] - chip["kernel.teardown_ns"]
    assert found.hbm_read_bytes == sum(a.nbytes for a in arrays)
    assert body >= (found.hbm_read_bytes + found.hbm_write_bytes) / (chip["dma.engines_per_core"] * chip["dma.rate_bytes_per_ns"])
    busiest = max(e.busy_ns for e in found.engines.values())
    assert busiest - 1e-3 <= body <= 2 * busiest + 4000  # and nothing stands still for long
