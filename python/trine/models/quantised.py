"""The block formats of GGUF as f32: each row says how long a block is and what its bytes mean.

A function takes blocks[count, bytes] and gives values[count, elements].
"""

import ml_dtypes
import numpy as np


def half(blocks, at):
    """The f16 at a byte of each block, as a column."""
    return blocks[:, at : at + 2].copy().view(np.float16).astype(np.float32)


def nibbles(packed):
    """Low halves of all bytes, then the high ones."""
    return np.concatenate([packed & 15, packed >> 4], -1)


def bits(packed):
    """32 bits of each block, the lowest first."""
    return ((packed.copy().view(np.uint32) >> np.arange(32, dtype=np.uint32)) & 1).astype(np.uint8)


def q4_0(b):
    return (nibbles(b[:, 2:]).astype(np.float32) - 8) * half(b, 0)


def q4_1(b):
    return nibbles(b[:, 4:]) * half(b, 0) + half(b, 2)


def q5_0(b):
    return ((nibbles(b[:, 6:]) | bits(b[:, 2:6]) << 4).astype(np.float32) - 16) * half(b, 0)


def q5_1(b):
    return (nibbles(b[:, 8:]) | bits(b[:, 4:8]) << 4) * half(b, 0) + half(b, 2)


def q8_0(b):
    return b[:, 2:].view(np.int8) * half(b, 0)


def scales_and_minima(b):
    """Of the eight parts of a K block: twelve bytes hold eight pairs of six bits."""
    a, m, d = b[:, 0:4], b[:, 4:8], b[:, 8:12]
    scales = np.concatenate([a & 63, d & 15 | (a >> 6) << 4], -1)
    minima = np.concatenate([m & 63, d >> 4 | (m >> 6) << 4], -1)
    return scales.astype(np.float32), minima.astype(np.float32)


def in_eight(b, q):
    """Parts [count, 8, 32] by their scales and minima."""
    scales, minima = scales_and_minima(b[:, 4:16])
    return (q * (half(b, 0) * scales)[..., None] - (half(b, 2) * minima)[..., None]).reshape(len(b), 256)


def q4_k(b):
    pairs = b[:, 16:].reshape(-1, 4, 32)
    return in_eight(b, np.stack([pairs & 15, pairs >> 4], 2).reshape(-1, 8, 32))


def q5_k(b):
    pairs = b[:, 48:].reshape(-1, 4, 32)
    low = np.stack([pairs & 15, pairs >> 4], 2).reshape(-1, 8, 32)
    high = b[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    return in_eight(b, low | high << 4)


def q6_k(b):
    low = b[:, :128].reshape(-1, 2, 1, 64) >> np.array([0, 4], np.uint8)[:, None] & 15
    high = b[:, 128:192].reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    q = (low.reshape(-1, 2, 4, 32) | high << 4).astype(np.float32) - 32
    scales = b[:, 192:208].view(np.int8) * half(b, 208)
    return (q.reshape(-1, 16, 16) * scales[..., None]).reshape(len(b), 256)


E2M1 = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8)  # twice the number of each code


def mxfp4(b):
    return np.ldexp(E2M1[nibbles(b[:, 1:])].astype(np.float32), b[:, :1].astype(np.int32) - 128)


# GGUF's number of the format: name, elements and bytes of a block, how it is read.
FORMATS = {
    0: ("F32", 1, 4, lambda b: b.view(np.float32)),
    1: ("F16", 1, 2, lambda b: b.view(np.float16).astype(np.float32)),
    2: ("Q4_0", 32, 18, q4_0),
    3: ("Q4_1", 32, 20, q4_1),
    6: ("Q5_0", 32, 22, q5_0),
    7: ("Q5_1", 32, 24, q5_1),
    8: ("Q8_0", 32, 34, q8_0),
    12: ("Q4_K", 256, 144, q4_k),
    13: ("Q5_K", 256, 176, q5_k),
    14: ("Q6_K", 256, 210, q6_k),
    30: ("BF16", 1, 2, lambda b: b.view(ml_dtypes.bfloat16).astype(np.float32)),
    39: ("MXFP4", 32, 17, mxfp4),
}
