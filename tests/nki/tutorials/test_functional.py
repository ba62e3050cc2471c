"""Kernels of the tutorials' and reference kernels' kinds in the functional dialect, written here. Against NumPy."""

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python/compat"))

import neuronxcc.nki as nki  # noqa: E402
import neuronxcc.nki.compiler as ncc  # noqa: E402
import neuronxcc.nki.isa as nisa  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402
from neuronxcc.nki.language import par_dim  # noqa: E402

HALF = ml_dtypes.bfloat16


@pytest.fixture(params=["trn1", "trn2"], autouse=True)
def chip(request, monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", request.param)
    return request.param


def numbers(*shape, dtype=np.float32, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# --- scans over time, as state space models have them ---


@nki.jit
def decays(delta, rates, u):
    """h[t] = exp(delta[t] · rate) h[t-1] + delta[t] u[t] for several rates, summed; time in pieces of 64 that carry on."""
    out = nl.ndarray(u.shape, dtype=u.dtype, buffer=nl.shared_hbm)
    channels, length = u.shape
    sums = nl.zeros((par_dim(channels), length), dtype=nl.float32)
    for s in nl.affine_range(rates.shape[1]):
        rate, last = nl.load(rates[:, s], dtype=nl.float32), nl.zeros((par_dim(channels), 1), dtype=nl.float32)
        for piece in nl.static_range(length // 64):
            now = nl.ds(piece * 64, 64)
            change = nl.load(delta[:, now])
            decay = nisa.activation(op=nl.exp, data=change, scale=rate)
            drive = nisa.tensor_tensor(change, nl.load(u[:, now]), op=nl.multiply)
            scan = nisa.tensor_tensor_scan(decay, drive, initial=last, op0=np.multiply, op1=np.add)
            last[...] = nl.copy(scan[:, 63])
            sums[:, now] += scan
    nl.store(out, sums)
    return out


def test_scans_carry_on():
    delta, rates, u = np.abs(numbers(128, 128)) * 0.1, -np.abs(numbers(128, 3, seed=2)), numbers(128, 128, seed=3)
    h, want = np.zeros((128, 3)), np.zeros((128, 128))
    for t in range(128):
        h = np.exp(delta[:, t : t + 1] * rates) * h + delta[:, t : t + 1] * u[:, t : t + 1]
        want[:, t] = h.sum(1)
    np.testing.assert_allclose(decays(delta, rates, u), want, atol=1e-4)


# --- attention with every tile placed by hand ---


def one_bank(idx, pdim_size, fdim_size):
    """Bank idx[0] modulo 2, from the fifth on."""
    return 4 + idx[0] % 2, 0, 0


@nki.jit
def placed_attention(q, k, v):
    """softmax(qᵀ k) v; scores in two halves of PSUM by turns, sums of exponentials as the exponentials are made."""
    d, length = q.shape
    blocks = length // 128
    out = nl.ndarray((length, d), dtype=q.dtype, buffer=nl.shared_hbm)
    identity = nl.load(nl.shared_constant(np.identity(128, dtype=np.int8), dtype=nl.bfloat16))
    q_sb = nl.ndarray((par_dim(d), length), dtype=nl.bfloat16, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    k_sb = nl.ndarray((par_dim(d), length), dtype=nl.bfloat16, buffer=ncc.sbuf.mod_alloc(base_addr=2 * length))
    v_sb = nl.ndarray((blocks, par_dim(128), d), dtype=nl.bfloat16,
                      buffer=ncc.sbuf.mod_alloc(base_addr=4 * length, num_free_tiles=(blocks,)))  # fmt: skip
    q_sb[...], k_sb[...] = nl.load(q, dtype=nl.bfloat16), nl.load(k, dtype=nl.bfloat16)
    for i in nl.affine_range(blocks):
        v_sb[i] = nl.load(v[nl.ds(i * 128, 128), :], dtype=nl.bfloat16)
    scores = nl.ndarray((blocks, par_dim(128), length), dtype=np.float32, buffer=ncc.psum.mod_alloc(base_bank=0, num_bank_tiles=(2,)))
    weights = nl.ndarray((blocks, par_dim(128), length), dtype=nl.bfloat16,
                         buffer=ncc.sbuf.mod_alloc(base_addr=32768, num_free_tiles=(2,)))  # fmt: skip
    product = nl.ndarray((blocks, par_dim(128), d), dtype=np.float32, buffer=ncc.psum.alloc(one_bank))
    for row in nl.sequential_range(blocks, directives=ncc.multi_buffer(2)):
        scores[row] = nisa.nc_matmul(q_sb[:, nl.ds(row * 128, 128)], k_sb)
        top = nl.max(scores[row], axis=1, dtype=nl.float32)
        low = nl.multiply(top, -1.0)
        total = nl.ndarray((par_dim(128), 1), dtype=np.float32)
        weights[row] = nisa.activation(op=np.exp, data=scores[row], bias=low, scale=1.0, reduce_op=np.add, reduce_res=total,
                                       reduce_cmd=nisa.reduce_cmd.reset_reduce, dtype=nl.bfloat16)  # fmt: skip
        for i in nl.affine_range(blocks):
            turned = nisa.nc_matmul(weights[row, :, nl.ds(i * 128, 128)], identity, is_moving_onezero=True)
            turned_sb = nisa.tensor_copy(turned, dtype=nl.bfloat16, engine=nisa.vector_engine)
            product[row] += nisa.nc_matmul(stationary=turned_sb, moving=v_sb[i])
        scaled = nisa.tensor_scalar(product[row], op0=np.multiply, operand0=nisa.reciprocal(total), engine=nisa.vector_engine)
        nl.store(out[nl.ds(row * 128, 128), :], value=scaled)
    return out


def test_attention_placed_by_hand():
    d, length = 64, 512
    q, k, v = numbers(d, length, dtype=HALF), numbers(d, length, dtype=HALF, seed=2) / 4, numbers(length, d, dtype=HALF, seed=3)
    s = q.astype(np.float32).T @ k.astype(np.float32)
    e = np.exp(s - s.max(1, keepdims=True))
    want = e / e.sum(1, keepdims=True) @ v.astype(np.float32)
    for kernel in (placed_attention, ncc.force_auto_alloc(placed_attention)):
        np.testing.assert_allclose(kernel(q, k, v).astype(np.float32), want, rtol=0.03, atol=0.02)


# --- a multiply with a low-rank product that is added ---


@nki.jit
def low_rank(x, w, a, b):
    """xᵀ w + (xᵀ a) b for x[k / 128, 128, 128], w[k / 128, 128, 1024]; both halves of the columns by the same stationary tiles."""
    depth, _, rows = x.shape
    rank = a.shape[2]
    out = nl.ndarray((rows, w.shape[2]), dtype=x.dtype, buffer=nl.shared_hbm)
    i_p, i_half, i_rank = nl.arange(128)[:, None], nl.arange(512)[None, :], nl.arange(rank)[:, None]
    left, right = nl.ndarray((depth, par_dim(128), rows), dtype=x.dtype), nl.ndarray((depth, par_dim(128), w.shape[2]), dtype=x.dtype)
    low = nl.zeros((par_dim(rank), rows), dtype=nl.float32, buffer=nl.psum)
    for d in nl.affine_range(depth):
        left[d], right[d] = nl.load(x[d]), nl.load(w[d])
        low += nisa.nc_matmul(nl.load(a[d]), left[d])
    narrow, wide = nl.copy(low), nl.load(b)
    result = nl.ndarray((par_dim(rows), w.shape[2]), dtype=x.dtype, buffer=nl.sbuf)
    for half in nl.affine_range(w.shape[2] // 512):
        sums = nl.zeros((par_dim(rows), 512), dtype=nl.float32, buffer=nl.psum)
        for d in nl.affine_range(depth):
            sums += nisa.nc_matmul(left[d], right[d, i_p, half * 512 + i_half])
        more = nisa.nc_matmul(narrow, wide[i_rank, half * 512 + i_half])
        result[i_p, half * 512 + i_half] = nl.add(nl.copy(sums), more)
    nl.store(out, result)
    return out


def test_a_low_rank_product_is_added():
    x, w, a, b = numbers(3, 128, 128), numbers(3, 128, 1024, seed=2), numbers(3, 128, 16, seed=3), numbers(16, 1024, seed=4)
    wide = x.reshape(384, 128).T
    want = wide @ w.reshape(384, 1024) + (wide @ a.reshape(384, 16)) @ b
    np.testing.assert_allclose(low_rank(x, w, a, b), want, rtol=1e-4, atol=1e-2)


# --- flash attention's backward, with dropout and one sink a head ---


@nki.jit(mode="trace")
def row_sums(sums, dy, o):
    """sums[i] = Σ dy ∘ o over the head, a row of 128 positions each."""
    for i in nl.affine_range(dy.shape[1] // 128):
        here = nl.ds(i * 128, 128)
        both = nl.multiply(nl.load_transpose2d(dy[:, here], dtype=nl.float32), nl.load_transpose2d(o[:, here]))
        sums[i] = nisa.tensor_reduce(np.add, data=both, axis=(1,), dtype=nl.float32)


@nki.jit
def attention_backward(q, k, v, o, dy, lse, sink):
    """(dq, dk, dv, dsink) of causal softmax(qᵀ k) v with a sink; [head, d, length], lse [head, 128, length / 128]."""
    _, d, length = q.shape
    head, blocks = nl.program_id(axis=0), length // 128
    assert nl.program_ndim() == 1 and nl.num_programs(axes=0) == q.shape[0]
    dq, dk, dv = (nl.ndarray(q.shape, dtype=q.dtype, buffer=nl.shared_hbm) for _ in range(3))
    dsink = nl.ndarray((q.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
    bias = nl.load(lse[head]) * -1.0
    sums = nl.ndarray((blocks, par_dim(128), 1), dtype=nl.float32)
    row_sums(sums=sums, dy=dy[head], o=o[head])
    dq_all = nl.zeros((blocks, par_dim(d), 128), dtype=nl.float32, lazy_initialization=True)
    sink_rows = nl.zeros((par_dim(128), blocks), dtype=nl.float32)
    for j in nl.affine_range(blocks):
        k_j, v_j = nl.load(k[head, :, nl.ds(j * 128, 128)]), nl.load(v[head, :, nl.ds(j * 128, 128)])
        k_turned = nisa.nc_transpose(k_j)
        dk_j = nl.zeros((par_dim(d), 128), dtype=np.float32, buffer=nl.psum)
        dv_j = nl.zeros((par_dim(d), 128), dtype=np.float32, buffer=nl.psum)
        for i in nl.affine_range(blocks):
            needed = i * 128 >= j * 128
            if i >= j:
                q_i, dy_i = nl.load(q[head, :, nl.ds(i * 128, 128)]), nl.load(dy[head, :, nl.ds(i * 128, 128)])
                p, f = nl.mgrid[0:128, 0:128]
                scores = nisa.affine_select(pred=(i * 128 + p >= j * 128 + f), on_true_tile=nisa.nc_matmul(q_i, k_j, mask=needed),
                                            on_false_value=-9984.0, dtype=nl.float32, mask=needed)  # fmt: skip
                y = nisa.activation(np.exp, data=scores, bias=bias[:, i], scale=1.0, mask=needed)
                dv_j[...] += nisa.nc_matmul(nisa.nc_transpose(dy_i, mask=needed), y, mask=needed)
                dp = nl.copy(nisa.nc_matmul(dy_i, v_j, mask=needed), dtype=nl.float32, mask=needed)
                ds = nisa.scalar_tensor_tensor(data=dp, op0=np.subtract, operand0=sums[i, :, 0], op1=np.multiply, operand1=y,
                                               mask=needed)  # fmt: skip
                dk_j[...] += nisa.nc_matmul(nisa.nc_transpose(q_i), ds)
                part = nl.copy(nisa.nc_matmul(k_turned, nisa.nc_transpose(ds)), dtype=nl.float32)
                dq_all[i] = nl.loop_reduce(part, op=np.add, loop_indices=(j,), dtype=nl.float32, mask=needed)
                sigma = nl.add(nl.zeros((par_dim(128), 1), dtype=nl.float32), nl.load(sink[head]), dtype=nl.float32)
                weight = nisa.activation(np.exp, data=sigma, bias=bias[:, i], scale=1.0)
                dot = nisa.tensor_reduce(np.add, nl.multiply(dp, y), axis=(1,), dtype=nl.float32)
                sink_rows[:, i] = nl.loop_reduce(nl.multiply(nl.multiply(dot, -1.0), weight), op=np.add, loop_indices=(j,),
                                                 dtype=nl.float32)  # fmt: skip
        nl.store(dk[head, :, nl.ds(j * 128, 128)], value=dk_j)
        nl.store(dv[head, :, nl.ds(j * 128, 128)], value=dv_j)
    for i in nl.affine_range(blocks):
        nl.store(dq[head, :, nl.ds(i * 128, 128)], value=dq_all[i])
    nl.store(dsink[head], value=nisa.tensor_partition_reduce(np.add, nl.sum(sink_rows, axis=1)))
    return dq, dk, dv, dsink


def test_attention_backward():
    heads, d, length = 2, 64, 256
    q, k, v, dy = (numbers(heads, d, length, seed=s) * scale for s, scale in ((1, 0.3), (2, 0.3), (3, 1), (4, 1)))
    sink = numbers(heads, 1, seed=5)
    s = np.where(np.tril(np.ones((length, length))) > 0, np.einsum("hdi,hdj->hij", q, k), -np.inf)
    lse = np.log(np.exp(s).sum(-1) + np.exp(sink))
    y = np.exp(s - lse[..., None])
    o = np.einsum("hij,hdj->hdi", y, v)
    dp = np.einsum("hdi,hdj->hij", dy, v)
    row = (dp * y).sum(-1)
    ds = (dp - row[..., None]) * y
    want = (np.einsum("hij,hdj->hdi", ds, k), np.einsum("hij,hdi->hdj", ds, q), np.einsum("hij,hdi->hdj", y, dy),
            -(row * np.exp(sink - lse)).sum(-1, keepdims=True))  # fmt: skip
    lse = lse.reshape(heads, length // 128, 128).transpose(0, 2, 1).astype(np.float32)
    got = attention_backward[heads](q, k, v, o.astype(np.float32), dy, lse, sink)
    for g, w in zip(got, want):
        np.testing.assert_allclose(g, w, atol=2e-3)


@nki.jit
def drop(x, seed, rate):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for i in nl.sequential_range(x.shape[1] // 512):
        here = nl.ds(i * 512, 512)
        nl.random_seed(seed=nl.add(nl.load(seed[0]), i, dtype=nl.int32))
        rates = nl.full((128, 1), fill_value=rate, dtype=np.float32)
        tile[:, here] = nl.multiply(nl.dropout(tile[:, here], rate=rates[:, 0]), 1 / (1 - rate))
    nl.store(out, tile)
    return out


def test_dropout_follows_its_seed():
    x = np.abs(numbers(128, 1024)) + 1
    one, same, other = (drop(x, np.array([s], np.int32), 0.25) for s in (3, 3, 4))
    kept = one != 0
    assert abs(kept.mean() - 0.75) < 0.02 and (one == same).all() and (one != other).any()
    np.testing.assert_allclose(one[kept], x[kept] / 0.75, rtol=1e-6)


# --- narrow floats: two rows at a time, and a norm with its scales ---


@nki.jit
def double_row(lhs, rhs, scale):
    """lhs @ rhs, both as f8; rhs holds pairs of rows side by side, dequantised by columns."""
    rows, n = lhs.shape[0], rhs.shape[1] // 2
    out = nl.ndarray((rows, n), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    sums = nl.zeros((par_dim(rows), n), dtype=np.float32, buffer=nl.psum)
    for pair in nl.affine_range(rhs.shape[0] // 128):
        left = nl.ndarray((par_dim(128), 2, rows), dtype=nl.float8_e4m3)
        for half in nl.affine_range(2):
            turned = nl.load_transpose2d(lhs[:, nl.ds((2 * pair + half) * 128, 128)])
            left[:, half, :] = nl.copy(turned, dtype=nl.float8_e4m3)
        right = nl.load(rhs[nl.ds(pair * 128, 128), :]).reshape((128, 2, n))
        sums += nisa.nc_matmul(left, right, perf_mode="double_row_gen3")
    nl.store(out, nl.multiply(sums, nl.load(scale), dtype=nl.bfloat16))
    return out


def test_double_row_matmul(chip):
    if chip == "trn1":
        pytest.skip("trn1 has no double rows")
    lhs, rhs = numbers(64, 512, dtype=ml_dtypes.float8_e4m3), numbers(512, 256, dtype=ml_dtypes.float8_e4m3, seed=2)
    pairs = rhs.reshape(2, 2, 128, 256).transpose(0, 2, 1, 3).reshape(256, 512)
    scale = np.broadcast_to(np.abs(numbers(1, 256, seed=3)), (64, 256)).copy()
    want = lhs.astype(np.float32) @ rhs.astype(np.float32) * scale
    np.testing.assert_allclose(double_row(lhs.astype(HALF), pairs, scale).astype(np.float32), want, rtol=0.01, atol=0.05)


@ncc.enable_stack_allocator
@ncc.skip_middle_end_transformations
@nki.jit
def norm_and_quantise(x, weight, eps):
    """RMS norm of each row, then f8 with a scale a row: the scales come back as well."""
    rows, columns = x.shape
    quantised = nl.ndarray(x.shape, dtype=nl.float8_e4m3, buffer=nl.shared_hbm)
    scales = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    w = nl.load(weight).broadcast_to((128, columns))
    for t in nl.affine_range((rows + 127) // 128):
        p, f = nl.mgrid[0:128, 0:columns]
        here, column = t * 128 + p < rows, t * 128 + nl.arange(128)[:, None] < rows
        tile = nl.load(x[t * 128 + p, f], mask=here)
        squares = nl.ndarray((par_dim(128), 1), dtype=nl.float32)
        nisa.activation_reduce(op=nl.square, data=tile, reduce_op=np.add, reduce_res=squares, mask=here)
        root = nl.rsqrt(nl.add(nl.multiply(squares, 1.0 / columns, mask=column), eps, mask=column), mask=column)
        normed = nl.multiply(nisa.tensor_scalar(tile, np.multiply, root, mask=here), w, mask=here)
        largest = nl.ndarray((par_dim(128), 1), dtype=nl.float32)
        nisa.tensor_scalar_reduce(data=nl.abs(normed, mask=here), op0=np.multiply, operand0=1.0, reduce_op=np.max,
                                  reduce_res=largest, mask=here, dtype=nl.float32)  # fmt: skip
        step = nl.maximum(nl.multiply(largest, 1 / 240.0, mask=column), 1e-10, mask=column)
        codes = nisa.tensor_scalar(normed, np.multiply, nisa.reciprocal(data=step, mask=column), dtype=nl.float8_e4m3, mask=here)
        nl.store(quantised[t * 128 + p, f], codes, mask=here)
        nl.store(scales[t * 128 + nl.arange(128)[:, None], nl.arange(1)[None, :]], step, mask=column)
    return quantised, scales


def test_norm_and_quantise():
    x, w = numbers(200, 384, dtype=HALF), numbers(1, 384, dtype=HALF, seed=2)
    codes, scales = norm_and_quantise(x, w, 1e-6)
    wide = x.astype(np.float32)
    want = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6) * w.astype(np.float32)
    got = codes.astype(np.float32) * scales
    assert np.abs(got - want).max() < np.abs(want).max() * 2**-4 * 1.1
    np.testing.assert_allclose(scales, np.abs(want).max(1, keepdims=True) / 240, rtol=0.02)


# --- pictures: windows, neighbours, the places of maxima ---


@nki.jit
def max_pool(x, size):
    """Windows that overlap, as one access pattern."""
    channels, height, width = x.shape
    out = nl.ndarray((channels, height - size + 1, width - size + 1), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    p, h, w, i, j = nl.mgrid[0:channels, 0 : height - size + 1, 0 : width - size + 1, 0:size, 0:size]
    nl.store(out, nl.max(tile[p, h + i, w + j], axis=[3, 4]))
    return out


def test_max_pool():
    x = numbers(100, 12, 10)
    want = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2)).max((3, 4))
    assert (max_pool(x, 3) == want).all()


@nki.jit
def nearest(x, height, width):
    """Resizes pictures [rows, columns, channels]: a table of places in each row, made on the chip, then copies by row."""
    rows, columns, channels = x.shape
    out = nl.ndarray((height, width, channels), dtype=x.dtype, buffer=nl.shared_hbm)
    for h in nl.static_range(height):
        row = nl.load(x[h * rows // height])
        wide = nl.ndarray((par_dim(width), channels), dtype=x.dtype, buffer=nl.sbuf)
        for w in nl.static_range(width):
            nisa.dma_copy(dst=wide[w], src=row[w * columns // width])
        nl.store(out[h], value=wide)
    return out


@nki.jit
def nearest_columns(count, columns, width):
    """floor(w · columns / width) for every w, in f32 and as integers, and w modulo 4."""
    places = nl.ndarray((128, count), dtype=nl.int32, buffer=nl.shared_hbm)
    rest = nl.ndarray((128, count), dtype=nl.float32, buffer=nl.shared_hbm)
    index = nisa.iota(nl.arange(count)[None, :] + 0 * nl.arange(128)[:, None], dtype=nl.float32)
    exact = nisa.tensor_scalar(index, np.multiply, columns / width, dtype=nl.float32)
    nl.store(places, nl.floor(exact, dtype=nl.int32))
    nl.store(rest, nl.mod(index, 4, dtype=nl.float32))
    return places, rest


def test_nearest_neighbours():
    x = numbers(5, 6, 40)
    want = x[np.arange(11) * 5 // 11][:, np.arange(13) * 6 // 13]
    assert (nearest(x, 11, 13) == want).all()
    places, rest = nearest_columns(64, 30, 64)
    assert (places == np.arange(64) * 30 // 64).all() and (rest == np.arange(64) % 4).all()


@nki.jit
def spread(x, source, size):
    """Each value of source goes to where its window of x has its maximum: the first place, as max pooling's gradient."""
    channels, height, width = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile, values = nl.load(x), nl.load(source)
    result = nl.zeros(x.shape, dtype=x.dtype, name="result")
    for h in nl.affine_range(height // size):
        for w in nl.affine_range(width // size):
            window = tile[:, nl.ds(h * size, size), nl.ds(w * size, size)]
            top = nl.max(window, axis=[1, 2], dtype=nl.float32)
            there = nl.equal(nl.copy(window).reshape((channels, size * size)), top, dtype=nl.uint8)
            order = nisa.iota(nl.arange(size * size)[None, :] + 0 * nl.arange(channels)[:, None], dtype=nl.float32)
            place = nl.where(there, order, nl.full((channels, size * size), fill_value=1e6, dtype=nl.float32))
            first = nl.min(place, axis=1, keepdims=True, dtype=nl.float32)
            mine = nl.multiply(nl.equal(place, first, dtype=nl.float32), values[:, h, w])
            result[:, nl.ds(h * size, size), nl.ds(w * size, size)] = mine.reshape((channels, size, size))
    nl.store(out, result)
    return out


def test_values_go_to_their_windows_maximum():
    x, source = numbers(96, 8, 6), numbers(96, 4, 3, seed=2)
    want = np.zeros_like(x)
    for c, h, w in np.ndindex(96, 4, 3):
        i, j = np.unravel_index(x[c, 2 * h : 2 * h + 2, 2 * w : 2 * w + 2].argmax(), (2, 2))
        want[c, 2 * h + i, 2 * w + j] = source[c, h, w]
    assert (spread(x, source, 2) == want).all()


# --- names that no kernel above uses ---


@nki.jit(additional_compile_opt="--any")
def spellings(a, b):
    """(a + b)ᵀ and more, in ways that mean the same."""
    out = nl.ndarray(shape=(6, 128, 128), dtype=a.dtype, buffer=nl.shared_hbm)
    kept = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.private_hbm)
    x, y = nl.load(a), nl.load(b)
    with ncc.no_reorder():
        total = nl.ndarray((par_dim(128), 128), dtype=nl.float32)
        total[...] = nisa.tensor_tensor(data1=x, data2=y, op=nl.add, name="total")
        nl.store(kept, total)
    nl.store(out[0], nl.transpose(total))
    nl.store(out[1], nisa.dma_transpose(kept, axes=(1, 0)))
    ones = nl.ones((128, 128), dtype=nl.float32, buffer=nl.sbuf)
    halves = nisa.memset((128, 128), value=0.5, dtype=nl.float32)
    wide = nl.full((128, 128), fill_value=2, dtype=nl.uint32, buffer=nl.sbuf, lazy_initialization=True)
    for i in nl.affine_range(1, precise_schedule=True):
        nl.store(out[2 + i], nl.log(nl.add(nl.minimum(nl.abs(x), ones), halves), dtype=nl.float32))
    nl.store(out[3], nl.where(nl.greater(x, 0), x, nl.multiply(x, wide, dtype=nl.float32), dtype=nl.float32))
    nl.store(out[4], nl.matmul(x=x, y=y))
    newest = nisa.get_nc_version() >= nisa.nc_version.gen3
    nl.store(out[5], nl.multiply(ones, nl.fp32.min if newest else nl.finfo(nl.float32).max))
    return out


def test_names(chip):
    a, b = numbers(128, 128), numbers(128, 128, seed=2)
    got = spellings(a, b)
    low = float(np.finfo(np.float32).min)
    for i, want in enumerate(((a + b).T, (a + b).T, np.log(np.minimum(np.abs(a), 1) + 0.5), np.where(a > 0, a, 2 * a), a @ b,
                              np.full_like(a, low if chip == "trn2" else -low))):  # fmt: skip
        np.testing.assert_allclose(got[i], want, rtol=1e-4, atol=1e-4)


# --- tools around kernels ---


def plain_add(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="sum")
    nl.store(dst=out, value=nl.add(nl.load(a), nl.load(b)))
    return out


def test_ways_to_run_a_kernel(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    a, b = numbers(128, 256), numbers(128, 256, seed=2)
    for run in (nki.jit(plain_add), nki.jit(mode="simulation")(plain_add), nki.baremetal(plain_add),
                nki.baremetal(artifacts_dir="x", additional_compile_opt="--any")(plain_add), nki.trace(plain_add)):  # fmt: skip
        assert (run(a, b) == a + b).all()
    assert (nki.simulate_kernel(plain_add, a, b) == a + b).all()
    assert (nki.simulate_kernel(nki.benchmark(plain_add), a, b) == a + b).all()


def test_ways_to_time_a_kernel(tmp_path, monkeypatch):
    import trine

    monkeypatch.chdir(tmp_path)
    a = numbers(128, 256)
    timed = nki.benchmark(warmup=5, iters=10, save_neff_name="add.neff", save_trace_name="add.ntff")(plain_add)
    assert np.isnan(timed(a, a)).all()
    latency = timed.benchmark_result.nc_latency
    assert latency.get_latency_percentile(99) == trine.report(nki.jit(plain_add), a, a).time_ns / 1000
    profiled = nki.profile(working_directory="runs", save_neff_name="file.neff", save_trace_name="p.ntff", profile_nth=2)(plain_add)
    profiled(a, a)
    assert {p.name for p in tmp_path.rglob("*") if p.is_file()} == {"add.neff", "add.ntff", "file.neff", "p.ntff"}
