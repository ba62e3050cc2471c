"""Kernels of the tutorials' kinds in the current dialect, written here: what they use stays usable. Against NumPy."""

import ml_dtypes
import numpy as np
import pytest

import trine.nki as nki
import trine.nki.isa as nisa
import trine.nki.language as nl


@pytest.fixture
def on(monkeypatch):
    return lambda chip: monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", chip)


def numbers(*shape, dtype=np.float32, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# --- tensor addition, alone and on both cores of a logical one ---


@nki.jit
def add(a, b):
    out = nl.ndarray(shape=a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    rows, columns = a.shape
    mine = columns // nl.num_programs(0)
    for r in nl.affine_range(rows // 128):
        for c in nl.static_range(mine // 512):
            part = nl.ds(r * 128, 128), nl.ds(nl.program_id(axis=0) * mine + c * 512, 512)
            nl.store(dst=out[part], value=nl.add(nl.load(a[part]), nl.load(b[part])))
    return out


def test_addition_on_one_and_two_cores(on):
    on("trn2")
    a, b = numbers(256, 2048, dtype=np.float16), numbers(256, 2048, dtype=np.float16, seed=2)
    assert (add(a, b) == a + b).all() and (add[2](a, b) == a + b).all()
    assert (nki.simulate(add)(a, b) == a + b).all()


# --- transposes and windows inside a partition ---


@nki.jit
def transpose_rows(a, rows, columns):
    """Every row of a is a rows x columns matrix; each is transposed, by a copy through views."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile, turned = nl.load(a), nl.ndarray(a.shape, dtype=a.dtype)
    nisa.tensor_copy(dst=turned.reshape((a.shape[0], columns, rows)),
                     src=tile.reshape((a.shape[0], rows, columns)).permute((0, 2, 1)))  # fmt: skip
    nl.store(out, turned)
    return out


def test_transpose_of_the_free_dimensions():
    a = np.arange(5 * 37 * 44, dtype=np.int32).reshape(5, -1)
    assert (transpose_rows(a, 37, 44) == a.reshape(5, 37, 44).transpose(0, 2, 1).reshape(5, -1)).all()


@nki.jit
def average_pool(a, size):
    channels, height, width = a.shape
    out = nl.ndarray((channels, height // size, width // size), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    windows = tile.ap(pattern=[[height * width, channels], [size * width, height // size], [size, width // size],
                               [width, size], [1, size]])  # fmt: skip
    nl.store(out, nl.multiply(nl.sum(windows, axis=[3, 4]), 1.0 / size**2))
    return out


def test_average_pooling():
    a = numbers(2, 6, 12)
    want = a.reshape(2, 3, 2, 6, 2).mean((2, 4))
    np.testing.assert_allclose(average_pool(a, 2), want, atol=1e-6)


# --- a selective state space model: h[t] = exp(delta[t] A) h[t-1] + delta[t] B[t] u[t]; y[t] = C[t] · h[t] ---


@nki.jit
def mamba(delta, u, a, b, c, states_outside=True, step=None):
    """Channels on partitions. Loops over states or over channels outside; `step` cuts time into scans that carry on."""
    channels, length = u.shape
    states, step = a.shape[1], step or u.shape[1]
    out = nl.ndarray((channels, length), dtype=u.dtype, buffer=nl.shared_hbm)
    tiles = range(channels // 128)
    sums = [nl.zeros((128, length), dtype=nl.float32, buffer=nl.sbuf) for _ in tiles]
    order = [(s, t) for s in range(states) for t in tiles] if states_outside else [(s, t) for t in tiles for s in range(states)]
    for s, t in order:
        rows = nl.ds(t * 128, 128)
        rate, last = nl.load(a[rows, s : s + 1]), nl.zeros((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        for at in nl.sequential_range(length // step):
            now = nl.ds(at * step, step)
            change = nl.load(delta[rows, now])
            decay = nl.ndarray((128, step), dtype=nl.float32)
            nisa.activation(dst=decay, op=nl.exp, data=change, scale=rate)
            drive = nl.multiply(change, nl.load(u[rows, now]))
            b_wide = nl.broadcast_to(nl.load(b[s : s + 1, now]), (128, step))
            c_wide = nl.broadcast_to(nl.load(c[s : s + 1, now]), (128, step))
            nisa.tensor_tensor(dst=drive, data1=drive, data2=b_wide, op=nl.multiply)
            scan = nl.ndarray((128, step), dtype=nl.float32)
            nisa.tensor_tensor_scan(dst=scan, data0=decay, data1=drive, initial=last, op0=nl.multiply, op1=nl.add)
            nisa.tensor_copy(dst=last, src=scan[:, step - 1 : step])
            nisa.tensor_tensor(dst=scan, data1=scan, data2=c_wide, op=nl.multiply)
            nisa.tensor_tensor(dst=sums[t][:, now], data1=sums[t][:, now], data2=scan, op=nl.add)
    for t in tiles:
        nl.store(out[nl.ds(t * 128, 128), :], sums[t])
    return out


@pytest.mark.parametrize("form", [{}, {"states_outside": False}, {"states_outside": False, "step": 64}])
def test_mamba(form):
    channels, states, length = 256, 4, 128
    delta, u = np.abs(numbers(channels, length)) * 0.1, numbers(channels, length, seed=2)
    a, b, c = -np.abs(numbers(channels, states, seed=3)), numbers(states, length, seed=4), numbers(states, length, seed=5)
    h, want = np.zeros((channels, states)), np.zeros((channels, length))
    for t in range(length):
        h = np.exp(delta[:, t : t + 1] * a) * h + delta[:, t : t + 1] * u[:, t : t + 1] * b[:, t]
        want[:, t] = h @ c[:, t]
    np.testing.assert_allclose(mamba(delta, u, a, b, c, **form), want, atol=1e-4)


# --- matrices in MX formats: 32 values share a power of two ---

FORMATS = {  # four packed, one in ml_dtypes, what a block's largest value is scaled to
    "e5m2": (nl.float8_e5m2_x4, ml_dtypes.float8_e5m2, 256),
    "e4m3": (nl.float8_e4m3fn_x4, ml_dtypes.float8_e4m3fn, 256),
    "e2m1": (nl.float4_e2m1fn_x4, ml_dtypes.float4_e2m1fn, 4),
}


def blocks_of(x):
    """[K, n] as [K / 32, 8 partitions, 4 to a carrier, n]."""
    return x.reshape(-1, 8, 4, x.shape[1])


def quantized(x, name):
    """(carriers [K / 4, n], scales [K / 4, n] u8, the values they mean) of x [K, n], scales chosen freely here."""
    _, kind, largest = FORMATS[name]
    blocks = blocks_of(x)
    power = np.ceil(np.log2(np.abs(blocks).max((1, 2), keepdims=True) / largest))
    codes = (blocks / 2.0**power).astype(kind)
    four = np.ascontiguousarray(codes.transpose(0, 1, 3, 2))
    if name == "e2m1":  # a nibble each, the first lowest
        nibbles = four.view(np.uint8).astype(np.uint16)
        carriers = (nibbles << np.array([0, 4, 8, 12], np.uint16)).sum(-1, dtype=np.uint16).reshape(-1, x.shape[1])
    else:
        carriers = four.view(np.uint32)[..., 0].reshape(-1, x.shape[1])
    scales = np.zeros((x.shape[0] // 4, x.shape[1]), np.uint8)
    for block, p in enumerate(power[:, 0, 0, :]):
        scales[block // 4 * 32 + block % 4] = p + 127  # four rows at the start of each quadrant
    return carriers, scales, (codes.astype(np.float64) * 2.0**power).reshape(x.shape)


@nki.jit
def mx_matmul(left, left_scale, right, right_scale, packed):
    """Operands quantised beforehand."""
    out = nl.ndarray((left.shape[1], right.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    tiles = []
    for data, kind in ((left, packed), (left_scale, nl.uint8), (right, packed), (right_scale, nl.uint8)):
        tiles.append(nl.ndarray(data.shape, dtype=kind, buffer=nl.sbuf))
        nisa.dma_copy(dst=tiles[-1], src=data if kind is nl.uint8 else data.view(kind))
    sums = nl.ndarray((left.shape[1], right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul_mx(dst=sums, stationary=tiles[0], moving=tiles[2], stationary_scale=tiles[1], moving_scale=tiles[3])
    nl.store(out, nl.copy(sums))
    return out


@pytest.mark.parametrize("name", FORMATS)
def test_mx_matmul_of_quantised_operands(on, name):
    on("trn3")
    (a, sa, wide_a), (b, sb, wide_b) = quantized(numbers(512, 64), name), quantized(numbers(512, 256, seed=2), name)
    np.testing.assert_allclose(mx_matmul(a, sa, b, sb, FORMATS[name][0]), wide_a.T @ wide_b, rtol=1e-4, atol=1e-3)


@nki.jit
def mx_matmul_from_bf16(left, right, packed, scales_together=False):
    """Quantised on the chip: four rows of K that follow one another lie side by side in a partition."""
    out = nl.ndarray((left.shape[1], right.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    wide = max(left.shape[1], right.shape[1])
    together = nl.ndarray((128, wide), dtype=nl.uint8, buffer=nl.sbuf) if scales_together else None
    data, scales = [], []
    for n, x in enumerate((left, right)):
        k, columns = x.shape
        strided = nl.ndarray((k // 4, columns * 4), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=strided.reshape((k // 4, columns, 4)), src=x.reshape((k // 4, 4, columns)).permute((0, 2, 1)))
        data.append(nl.ndarray((k // 4, columns), dtype=packed, buffer=nl.sbuf))
        if scales_together:  # rows 0 to 3 of each quadrant and rows 4 to 7
            scales.append(together[4 * n :, :columns])
        else:
            scales.append(nl.ndarray((k // 4, columns), dtype=nl.float8_e8m0fnu, buffer=nl.sbuf))
        nisa.quantize_mx(dst=data[n], src=strided, dst_scale=scales[n])
    sums = nl.ndarray((left.shape[1], right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul_mx(dst=sums, stationary=data[0], moving=data[1], stationary_scale=scales[0], moving_scale=scales[1])
    nl.store(out, nl.copy(sums))
    return out


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("name", ["e5m2", "e4m3"])
def test_mx_matmul_quantised_on_the_chip(on, name, together):
    on("trn3")
    half = ml_dtypes.bfloat16
    a, b = numbers(512, 64, dtype=half), numbers(512, 256, dtype=half, seed=2)
    want = a.astype(np.float64).T @ b.astype(np.float64)
    got = mx_matmul_from_bf16(a, b, FORMATS[name][0], together)
    spread = np.sqrt(512) * {"e5m2": 0.09, "e4m3": 0.045}[name]  # of a sum of 512 products with such elements
    assert np.abs(got - want).max() < 5 * spread and np.abs(got - want).std() < spread
