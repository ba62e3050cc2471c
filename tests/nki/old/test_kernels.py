"""Whole kernels in the functional spelling, written as its tutorials write them, against NumPy on two generations."""

import math
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python/compat"))

import neuronxcc.nki as nki  # noqa: E402
import neuronxcc.nki.isa as nisa  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402


@pytest.fixture(params=["trn1", "trn2"], autouse=True)
def chip(request, monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", request.param)
    return request.param


def numbers(*shape, dtype=np.float32, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@nki.jit
def add_tile(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    ix = nl.program_id(0) * 128 + nl.arange(128)[:, None]
    iy = nl.program_id(1) * 512 + nl.arange(512)[None, :]
    nl.store(out[ix, iy], value=nl.load(a[ix, iy]) + nl.load(b[ix, iy]))
    return out


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_tensor_add_over_a_grid(dtype):
    a, b = numbers(256, 1024, dtype=dtype), numbers(256, 1024, dtype=dtype, seed=2)
    assert (add_tile[2, 2](a, b) == a + b).all()


def test_tensor_add_over_two_cores(chip):
    if chip == "trn1":
        pytest.skip("one physical core to a logical one")
    a, b = numbers(512, 1024), numbers(512, 1024, seed=2)
    for rows in (nl.spmd_dim(2, nl.nc(2)), nl.nc(2) * 2):
        assert (add_tile[rows, 2](a, b) == a + b).all()


@nki.jit
def matmul_tile(lhs_t, rhs):
    result = nl.ndarray((64, 512), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    i_k, i_m = nl.mgrid[0:128, 0:64]
    i_k2, i_n = nl.mgrid[0:128, 0:512]
    i_row, i_column = nl.mgrid[0:64, 0:512]
    product = nl.matmul(nl.load(lhs_t[i_k, i_m]), nl.load(rhs[i_k2, i_n]), transpose_x=True)
    nl.store(result[i_row, i_column], value=nl.copy(product, dtype=result.dtype))
    return result


def test_matmul_of_one_tile():
    a, b = numbers(128, 64), numbers(128, 512, seed=2)
    np.testing.assert_allclose(matmul_tile(a, b), a.T @ b, rtol=1e-4, atol=1e-4)


@nki.jit
def matmul_tiled(lhs_t, rhs):
    (k_size, m_size), n_size = lhs_t.shape, rhs.shape[1]
    result = nl.ndarray((m_size, n_size), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(m_size // 128):
        for n in nl.affine_range(n_size // 512):
            total = nl.zeros((128, 512), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(k_size // 128):
                a = nl.ndarray((128, 128), dtype=lhs_t.dtype, buffer=nl.sbuf)
                b = nl.ndarray((128, 512), dtype=rhs.dtype, buffer=nl.sbuf)
                a[...] = nl.load(lhs_t[k * 128 : (k + 1) * 128, m * 128 : (m + 1) * 128])
                b[...] = nl.load(rhs[k * 128 : (k + 1) * 128, n * 512 : (n + 1) * 512])
                total += nl.matmul(a[...], b[...], transpose_x=True)
            nl.store(result[m * 128 : (m + 1) * 128, n * 512 : (n + 1) * 512], value=nl.copy(total, dtype=result.dtype))
    return result


def test_matmul_adds_up_in_psum():
    a, b = numbers(384, 256, dtype=ml_dtypes.bfloat16), numbers(384, 1024, dtype=ml_dtypes.bfloat16, seed=2)
    want = a.astype(np.float32).T @ b.astype(np.float32)
    got = matmul_tiled(a, b).astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=2**-7, atol=2**-7)
    # nothing but loads, matmuls, one copy out of PSUM for each tile, and stores
    text = matmul_tiled.compiled("trn2", (a, b), {})[0].program.disassemble()
    assert text.count("nc_matmul") == 12 and "memset" not in text and text.count("tensor_copy") <= 4


@nki.jit
def matmul_any(x, y):
    """x @ y with sizes that no tile divides; x comes as it is, so it is transposed on the chip."""
    (rows, inner), columns = x.shape, y.shape[1]
    result = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    i_p, i_f, i_n = nl.arange(128)[:, None], nl.arange(128)[None, :], nl.arange(512)[None, :]
    for m in nl.affine_range(math.ceil(rows / 128)):
        for n in nl.affine_range(math.ceil(columns / 512)):
            total = nl.zeros((128, 512), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(math.ceil(inner / 128)):
                a = nl.zeros((128, 128), dtype=x.dtype)
                b = nl.zeros((128, 512), dtype=y.dtype)
                a[i_p, i_f] = nl.load(x[m * 128 + i_p, k * 128 + i_f], mask=(m * 128 + i_p < rows) & (k * 128 + i_f < inner))
                b[i_p, i_n] = nl.load(y[k * 128 + i_p, n * 512 + i_n], mask=(k * 128 + i_p < inner) & (n * 512 + i_n < columns))
                total += nl.matmul(a, b)
            inside = (m * 128 + i_p < rows) & (n * 512 + i_n < columns)
            nl.store(result[m * 128 + i_p, n * 512 + i_n], value=total, mask=inside)
    return result


def test_matmul_of_odd_sizes():
    x, y = numbers(200, 300), numbers(300, 700, seed=2)
    np.testing.assert_allclose(matmul_any(x, y), x @ y, rtol=1e-4, atol=1e-4)


@nki.jit
def average_pool(image, size):
    channels, height, width = image.shape
    out = nl.ndarray((channels, height // size, width // size), dtype=image.dtype, buffer=nl.shared_hbm)
    c, y, dy, x, dx = nl.mgrid[0:channels, 0 : height // size, 0:size, 0 : width // size, 0:size]
    tile = nl.load(image)
    nl.store(out, value=nl.sum(tile[c, size * y + dy, size * x + dx], axis=[2, 4]) / (size * size))
    return out


def test_average_pool():
    image = numbers(64, 24, 18)
    want = image.reshape(64, 8, 3, 6, 3).mean((2, 4))
    np.testing.assert_allclose(average_pool(image, 3), want, rtol=1e-5, atol=1e-6)


@nki.jit
def transpose_2d(tensor, shape):
    out = nl.ndarray(tensor.shape, dtype=tensor.dtype, buffer=nl.shared_hbm)
    rows, columns = shape
    p, i, j = nl.arange(tensor.shape[0])[:, None, None], nl.arange(rows)[None, :, None], nl.arange(columns)[None, None, :]
    tile, turned = nl.load(tensor), nl.ndarray(tensor.shape, dtype=tensor.dtype)
    turned[p, j * rows + i] = nl.copy(tile[p, i * columns + j])
    nl.store(out, value=turned)
    return out


def test_transpose_of_the_free_dimensions():
    a = np.arange(100 * 35, dtype=np.int32).reshape(100, 35)
    assert (transpose_2d(a, (5, 7)) == a.reshape(100, 5, 7).transpose(0, 2, 1).reshape(100, 35)).all()


@nki.jit
def softmax(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    ix, iy = nl.arange(128)[:, None], nl.arange(a.shape[1])[None, :]
    for i in nl.affine_range(math.ceil(a.shape[0] / 128)):
        inside = i * 128 + ix < a.shape[0]
        tile = nl.load(a[i * 128 + ix, iy], mask=inside)
        top = nl.max(tile, axis=[1], keepdims=True, mask=inside)
        raised = nl.exp(nl.subtract(tile, top, mask=inside))
        nl.store(out[i * 128 + ix, iy], value=raised / nl.sum(raised, axis=[1]), mask=inside)
    return out


@pytest.mark.parametrize("rows", [128, 200])
def test_softmax(rows):
    a = numbers(rows, 300)
    e = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(softmax(a), e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)


@nki.jit
def rms_norm(a, weight):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    ix, iw, iy = nl.arange(128)[:, None], nl.arange(1)[:, None], nl.arange(a.shape[1])[None, :]
    w = nl.load(weight.reshape((1, weight.shape[0]))[iw, iy])
    for i in nl.affine_range(math.ceil(a.shape[0] / 128)):
        inside = i * 128 + ix < a.shape[0]
        tile = nl.load(a[i * 128 + ix, iy], mask=inside)
        scale = nl.rsqrt(nl.sum(nl.square(tile), axis=[1]) / a.shape[1])
        normal = nl.multiply(tile, scale)
        normal[...] = nl.multiply(normal, w.broadcast_to((128, a.shape[1])), mask=inside)
        nl.store(out[i * 128 + ix, iy], value=normal, mask=inside)
    return out


def test_rms_norm():
    a, w = numbers(200, 512), numbers(512, seed=2)
    want = a / np.sqrt((a * a).mean(1, keepdims=True)) * w
    np.testing.assert_allclose(rms_norm(a, w), want, rtol=1e-4, atol=1e-5)


@nki.jit
def layer_norm(a, epsilon, gamma, beta):
    """Masks on loads and stores only: the arithmetic in between is written for whole tiles."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    rows, columns = a.shape
    ip, jf, one = nl.arange(128)[:, None], nl.arange(columns)[None, :], nl.arange(1)[:, None]
    g = nl.load(gamma.reshape((1, columns))[one, jf]).broadcast_to((128, columns))
    b = nl.load(beta.reshape((1, columns))[one, jf]).broadcast_to((128, columns))
    for i in nl.affine_range(math.ceil(rows / 128)):
        tile = nl.load(a[i * 128 + ip, jf], mask=(i * 128 + ip < rows))
        mean = nl.mean(tile, axis=1)
        variance = nl.mean(nl.square(tile), axis=1) - mean * mean
        normal = (tile - mean) * nl.rsqrt(variance + epsilon)
        nl.store(out[i * 128 + ip, jf], value=normal * g + b, mask=(i * 128 + ip < rows))
    return out


@nki.jit
def layer_norm_by_statistics(a, epsilon, gamma, beta):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    rows, columns = a.shape
    ip, jf, one = nl.arange(128)[:, None], nl.arange(columns)[None, :], nl.arange(1)[:, None]
    g = nl.load(gamma.reshape((1, columns))[one, jf]).broadcast_to((128, columns))
    b = nl.load(beta.reshape((1, columns))[one, jf]).broadcast_to((128, columns))
    most = nl.tile_size.bn_stats_fmax
    parts = math.ceil(columns / most)
    ib, i6 = nl.arange(most)[None, :], nl.arange(6)[None, :]
    for i in nl.affine_range(math.ceil(rows / 128)):
        tile = nl.load(a[i * 128 + ip, jf], mask=(i * 128 + ip < rows))
        stats = nl.ndarray((128, 6 * parts), dtype=np.float32)
        for j in nl.affine_range(parts):
            stats[ip, j * 6 + i6] = nisa.bn_stats(tile[ip, j * most + ib], mask=(j * most + ib < columns), dtype=np.float32)
        both = nisa.bn_aggr(stats[ip, nl.arange(6 * parts)[None, :]])
        normal = nisa.tensor_scalar(data=tile, op0=np.subtract, operand0=both[ip, 0], op1=np.multiply,
                                    operand1=nl.rsqrt(both[ip, 1] + epsilon))  # fmt: skip
        nl.store(out[i * 128 + ip, jf], value=normal * g + b, mask=(i * 128 + ip < rows))
    return out


@pytest.mark.parametrize("kernel", [layer_norm, layer_norm_by_statistics])
def test_layer_norm(kernel):
    a, g, b = numbers(300, 700), numbers(700, seed=2), numbers(700, seed=3)
    want = (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5) * g + b
    np.testing.assert_allclose(kernel(a, 1e-5, g, b), want, rtol=1e-4, atol=1e-4)


@nki.jit
def attention(q, k, v, scale):
    """softmax(q kᵀ · scale) v, causal, q and k with the head first; the scores of a row of tiles stay in SBUF."""
    d, length = q.shape
    out = nl.ndarray((length, d), dtype=q.dtype, buffer=nl.shared_hbm)
    q_local, k_local = nl.load(q), nl.load(k)
    v_local = nl.ndarray((length // 128, nl.par_dim(128), d), dtype=v.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(length // 128):
        v_local[i] = nl.load(v[nl.ds(i * 128, 128), :])
    for row in nl.affine_range(length // 128):
        scores = nl.ndarray((128, length), dtype=nl.float32)
        ix, iy = nl.mgrid[0:128, 0:128]
        for column in nl.affine_range(length // 128):
            product = nisa.nc_matmul(q_local[:, nl.ds(row * 128, 128)], k_local[:, nl.ds(column * 128, 128)])
            scores[ix, column * 128 + iy] = nisa.affine_select(
                pred=(row * 128 + ix >= column * 128 + iy), on_true_tile=product, on_false_value=-9984.0)  # fmt: skip
        top = nisa.tensor_reduce(np.max, scores, axis=(1,), negate=True)
        total = nl.ndarray((128, 1), dtype=nl.float32)
        weights = nisa.activation_reduce(np.exp, nl.multiply(scores, scale), bias=top * scale, reduce_op=np.add,
                                         reduce_res=total, dtype=nl.bfloat16)  # fmt: skip
        turned = nl.ndarray((length // 128, nl.par_dim(128), 128), dtype=nl.bfloat16)
        result = nl.zeros((128, d), dtype=nl.float32, buffer=nl.psum)
        for i in nl.affine_range(length // 128):
            turned[i] = nisa.nc_transpose(weights[:, nl.ds(i * 128, 128)])
        for i in nl.affine_range(length // 128):
            result += nisa.nc_matmul(turned[i], v_local[i])
        nl.store(out[nl.ds(row * 128, 128), :], value=nl.divide(result, total, dtype=q.dtype))
    return out


def test_attention():
    d, length = 64, 512
    half = ml_dtypes.bfloat16
    q, k, v = numbers(d, length, dtype=half), numbers(d, length, dtype=half, seed=2), numbers(length, d, dtype=half, seed=3)
    s = q.astype(np.float32).T @ k.astype(np.float32) / np.sqrt(d)
    e = np.exp(np.where(np.tril(np.ones_like(s)) > 0, s, -np.inf))
    want = e / e.sum(1, keepdims=True) @ v.astype(np.float32)
    np.testing.assert_allclose(attention(q, k, v, 1 / np.sqrt(d)).astype(np.float32), want, rtol=0.05, atol=0.02)
