"""Meanings of the larger ops in plain NumPy, element by element as StableHLO's specification words them.

Used by the expressions of the tables as `o.name(operands, **k)`, with `k` the attributes of the line. Slow on purpose:
no loop here is shared with, or shaped like, the ones it judges.
"""

import itertools

import numpy as np


def indices(shape):
    return itertools.product(*(range(n) for n in shape))


def place(at, tap, stride, low, base, dilation, size):
    """The element under a window's tap, or None in padding and in the holes of base dilation."""
    spot = at * stride + tap * dilation - low
    return spot // base if spot >= 0 and spot % base == 0 and spot // base < size else None


def count(size, window, stride, low, high, base, dilation):
    padded = low + (0 if size == 0 else (size - 1) * base + 1) + high
    reach = 0 if window == 0 else (window - 1) * dilation + 1
    return 0 if padded <= 0 or reach > padded else (padded - reach) // stride + 1


def convolution(
    x, w, input_batch, input_feature, input_spatial, kernel_input_feature, kernel_output_feature, kernel_spatial,
    output_batch, output_feature, output_spatial, window_strides=None, padding=None, lhs_dilation=None,
    rhs_dilation=None, window_reversal=None, feature_group_count=1, batch_group_count=1,
):  # fmt: skip
    n = len(input_spatial)
    strides, base, dilation = (v or [1] * n for v in (window_strides, lhs_dilation, rhs_dilation))
    pads, flips = padding or [0] * 2 * n, window_reversal or [0] * n
    x = np.transpose(x, [input_batch, input_feature, *input_spatial])
    w = np.transpose(w, [kernel_output_feature, kernel_input_feature, *kernel_spatial])
    w = np.flip(w, [2 + d for d in range(n) if flips[d]]) if any(flips) else w
    sizes = [count(x.shape[2 + d], w.shape[2 + d], strides[d], pads[2 * d], pads[2 * d + 1], base[d], dilation[d]) for d in range(n)]
    batch, outputs, inputs = x.shape[0] // batch_group_count, w.shape[0], w.shape[1]
    out = np.zeros((batch, outputs, *sizes), np.result_type(x, w))
    for b, o, *at in indices(out.shape):
        group = o * feature_group_count * batch_group_count // outputs
        row = b + group * batch if batch_group_count > 1 else b
        first = group * inputs if feature_group_count > 1 else 0
        for i, *tap in indices(w.shape[1:]):
            spot = [place(at[d], tap[d], strides[d], pads[2 * d], base[d], dilation[d], x.shape[2 + d]) for d in range(n)]
            if None not in spot:
                out[(b, o, *at)] += x[(row, first + i, *spot)] * w[(o, i, *tap)]
    return np.transpose(out, np.argsort([output_batch, output_feature, *output_spatial]))


def windows(shape, window_dimensions, window_strides=None, base_dilations=None, window_dilations=None, padding=None, **_):
    """Each position of a window, with the elements it covers in order."""
    n = len(shape)
    strides, base, dilation = (v or [1] * n for v in (window_strides, base_dilations, window_dilations))
    pads = padding or [0] * 2 * n
    sizes = [count(shape[d], window_dimensions[d], strides[d], pads[2 * d], pads[2 * d + 1], base[d], dilation[d]) for d in range(n)]
    for at in indices(sizes):
        spots = ([place(at[d], tap[d], strides[d], pads[2 * d], base[d], dilation[d], shape[d]) for d in range(n)] for tap in indices(window_dimensions))
        yield at, [tuple(s) for s in spots if None not in s]


def reduce_window(x, init, f, **k):
    found = list(windows(x.shape, **k))
    out = np.zeros([1 + max((at[d] for at, _ in found), default=-1) for d in range(x.ndim)], x.dtype)
    for at, spots in found:
        value = init
        for spot in spots:
            value = f(value, x[spot])
        out[at] = value
    return out


def select_and_scatter(x, source, init, keeps, adds, **k):
    out = np.full(x.shape, init, x.dtype)
    for at, spots in windows(x.shape, **k):
        best = None
        for spot in spots:
            if best is None or not keeps(x[best], x[spot]):
                best = spot
        if best is not None:
            out[best] = adds(out[best], source[at])
    return out


def scatter(
    operands, scatter_indices, updates, f, update_window_dims=(), inserted_window_dims=(), input_batching_dims=(),
    scatter_indices_batching_dims=(), scatter_dims_to_operand_dims=(), index_vector_dim=0, **_,
):  # fmt: skip
    """One operand. A window that leaves it in any dim is dropped whole: XLA's rule, not the specification's."""
    x, u = operands.copy(), updates
    rank = x.ndim
    window_dims = [d for d in range(rank) if d not in inserted_window_dims and d not in input_batching_dims]
    sizes = [1] * rank
    for d, w in zip(window_dims, update_window_dims):
        sizes[d] = u.shape[w]
    rows = scatter_indices if index_vector_dim < scatter_indices.ndim else scatter_indices[..., None]
    rows = np.moveaxis(rows, index_vector_dim, -1)
    for at in indices(u.shape):
        batch = [i for d, i in enumerate(at) if d not in update_window_dims]
        start = [0] * rank
        for v, d in zip(rows[tuple(batch)], scatter_dims_to_operand_dims):
            start[d] = int(v)
        for d, s in zip(input_batching_dims, scatter_indices_batching_dims):
            start[d] = batch[s - (s > index_vector_dim)]
        if any(s < 0 or s + n > m for s, n, m in zip(start, sizes, x.shape)):
            continue
        for d, w in zip(window_dims, update_window_dims):
            start[d] += at[w]
        x[tuple(start)] = f(x[tuple(start)], u[at])
    return x


def threefry(counter, key):
    """Threefry-2x32, 20 rounds: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011)."""
    mask = 2**32 - 1
    keys = [key & mask, key >> 32]
    keys.append(keys[0] ^ keys[1] ^ 0x1BD11BDA)
    x, y = ((counter & mask) + keys[0]) & mask, ((counter >> 32) + keys[1]) & mask
    for i in range(20):
        by = (13, 15, 26, 6, 17, 29, 16, 24)[i % 8]
        x = (x + y) & mask
        y = ((y << by | y >> (32 - by)) & mask) ^ x
        if i % 4 == 3:
            turn = i // 4 + 1
            x, y = (x + keys[turn % 3]) & mask, (y + keys[(turn + 1) % 3] + turn) & mask
    return x, y


def philox(counter, key):
    """Philox-4x32, 10 rounds, of a 128-bit counter: the same paper."""
    mask = 2**32 - 1
    x = [counter >> 32 * i & mask for i in range(4)]
    k = [key & mask, key >> 32]
    for _ in range(10):
        p, q = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [(q >> 32) ^ x[1] ^ k[0], q & mask, (p >> 32) ^ x[3] ^ k[1], p & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return x


def philox_words(state, n):
    """n words and the next state: (key, counter), the key being the counter's upper half as well."""
    key, counter = (int(v) for v in state)
    blocks = -(-n // 4)
    words = [w for b in range(blocks) for w in philox(counter + b + (key << 64), key)]
    return words[:n], [key, (counter + blocks) % 2**64]


def threefry_words(counter, key, blocks):
    return [w for b in range(blocks) for w in threefry(counter + b, key)]


def reflectors(h, taus):
    """The first columns of the product of I - tau v v^H, with v below the diagonal of h."""
    rows, columns = h.shape
    q = np.eye(rows, dtype=h.dtype)
    for i, tau in enumerate(taus):
        v = np.concatenate([np.zeros(i), [1], h[i + 1 :, i]])
        q = q @ (np.eye(rows) - tau * np.outer(v, v.conj()))
    return q[:, :columns]


def lu(x):
    """Partial pivoting: the factors in one matrix, the swaps, the permutation."""
    a, rows, swaps = x.copy(), list(range(x.shape[0])), []
    for i in range(min(a.shape)):
        best = i + int(np.argmax(np.abs(a[i:, i].real) + np.abs(a[i:, i].imag)))
        swaps.append(best)
        a[[i, best]] = a[[best, i]]
        rows[i], rows[best] = rows[best], rows[i]
        if a[i, i] != 0:
            a[i + 1 :, i] /= a[i, i]
            a[i + 1 :, i + 1 :] -= np.outer(a[i + 1 :, i], a[i, i + 1 :])
    return a, np.array(swaps, object), np.array(rows, object)


def triangle(a, lower=False, unit_diagonal=False, transpose_a="NO_TRANSPOSE"):
    """op(a) of triangular_solve as a whole matrix."""
    t = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        t = t - np.diag(np.diag(t)) + np.eye(len(t))
    return t if transpose_a == "NO_TRANSPOSE" else t.T if transpose_a == "TRANSPOSE" else t.conj().T


def reflector(x):
    """LAPACK's larfg: beta, tau and v with (I - tau v v^H)^H x = (beta, 0, ...) and v[0] = 1."""
    alpha, rest = x[0], np.linalg.norm(x[1:])
    if rest == 0 and alpha.imag == 0:
        return alpha, 0 * alpha, np.concatenate([[1], 0 * x[1:]])
    beta = -np.copysign(np.hypot(np.abs(alpha), rest), alpha.real)
    return beta, (beta - alpha) / beta, np.concatenate([[1], x[1:] / (alpha - beta)])


def hessenberg(a):
    h, packed, taus = a.copy(), a.copy(), []
    for k in range(len(a) - 1):
        beta, tau, v = reflector(h[k + 1 :, k])
        turn = np.eye(len(a), dtype=a.dtype)
        turn[k + 1 :, k + 1 :] -= tau * np.outer(v, v.conj())
        h = turn.conj().T @ h @ turn
        packed[k + 2 :, k] = v[1:]
        packed[k + 1, k] = beta
        taus.append(tau)
    return np.where(np.tri(len(a), k=-1), packed, h), np.array(taus)


def tridiagonal(a, lower=True):
    """From the lower triangle; the upper one is the same with both orders turned round."""
    if not lower:
        t, d, e, taus = tridiagonal(a[::-1, ::-1])
        return t[::-1, ::-1], d[::-1], e[::-1], taus[::-1]
    full = np.tril(a, -1) + np.tril(a, -1).conj().T + np.diag(np.diag(a).real)
    h, taus = hessenberg(full)
    d, e = np.diag(h).real, np.diag(h, -1).real
    return np.tril(h, -1) + np.diag(d) + np.triu(a, 1), d, e, taus


def tridiagonal_solve(dl, d, du, b):
    return np.linalg.solve(np.diag(d) + np.diag(dl[1:], -1) + np.diag(du[:-1], 1), b)


def pivoted_qr(x, fixed):
    a, order, taus = x.copy(), list(range(1, x.shape[1] + 1)), []
    first = [c for c in range(len(fixed)) if fixed[c]]
    for to, c in enumerate(first):
        a[:, [to, c]] = a[:, [c, to]]
        order[to], order[c] = order[c], order[to]
    for k in range(min(a.shape)):
        best = k if k < len(first) else k + int(np.argmax(np.linalg.norm(a[k:, k:], axis=0)))
        a[:, [k, best]] = a[:, [best, k]]
        order[k], order[best] = order[best], order[k]
        beta, tau, v = reflector(a[k:, k])
        a[k:, k:] -= np.conj(tau) * np.outer(v, v.conj() @ a[k:, k:])
        a[k, k], a[k + 1 :, k] = beta, v[1:]
        taus.append(tau)
    return a, np.array(order, object), np.array(taus)


def window_store(x, offsets, updates, combine, sizes=(), strides=(), **_):
    out = x.reshape(-1).copy()
    for start, window in zip(offsets, updates.reshape(len(offsets), -1)):
        if start == 2**31 - 1:
            continue
        for value, at in zip(window, indices(sizes)):
            spot = int(start) + int(np.dot(at, strides)) if sizes else int(start)
            out[spot] = combine(out[spot], value)
    return out.reshape(x.shape)


def arg_max_parts(x, length):
    def of(part):
        largest = max((v for v in part if not np.isnan(v)), default=-np.inf)
        return [largest, *(next(iter(np.flatnonzero(found)), 2**32) for found in (part == largest, np.isnan(part)))]

    return np.array([[of(row[at : at + length]) for at in range(0, len(row), length)] for row in x], np.float64)


def attention_gradient(*operands, sizes, scale, causal=False, causal_offset=0, **attrs):
    """By arrays [batch, head of keys, head that shares it, query, key, element], of which each operand has some."""
    names = ["q", "k", "v", "out", "gradient", "top", "sum", "bias"]

    def spread(x, name):
        dims = attrs[name]
        named = [d for d in dims if d >= 0]
        x = np.transpose(x, named + [d for d in range(x.ndim) if d not in named])
        return x.reshape([x.shape[named.index(d)] if d >= 0 else 1 for d in dims])

    q, k, v, out, gradient, top, total, *bias = (spread(x.astype(np.float64), n) for x, n in zip(operands, names))
    top, total = top[..., 0], total[..., 0]
    i, j = np.meshgrid(np.arange(sizes[3]), np.arange(sizes[4]), indexing="ij")
    shape = (*sizes[:3], sizes[3], sizes[4])
    seen = np.broadcast_to(j <= i + causal_offset if causal else True, shape)
    scores = np.broadcast_to((q * k).sum(-1) * scale, shape)
    blind = np.zeros((*shape[:4], 1), bool)
    if bias and operands[7].dtype == np.bool_:
        seen = np.broadcast_to(bias[0][..., 0] != 0, shape)
        blind = ~seen.any(-1, keepdims=True)
    elif bias:
        scores = scores + bias[0][..., 0]
    p = np.where(blind, 1, np.where(seen, np.exp(scores - top), 0))
    slopes = np.where(blind, 0, p * ((gradient * v).sum(-1) - (gradient * out).sum(-1)) / total)
    made = {
        "dq": (slopes[..., None] * k).sum(4, keepdims=True),
        "dk": (slopes[..., None] * q).sum((2, 3), keepdims=True),
        "dv": (p[..., None] * gradient / total[..., None]).sum((2, 3), keepdims=True),
    }

    def back(x, name):
        dims = attrs[name]
        rank = max(dims) + 1
        assert sorted(d for d in dims if d >= 0) == list(range(rank))
        return np.transpose(x, [dims.index(d) for d in range(rank)] + [d for d in range(6) if dims[d] < 0]).reshape([x.shape[dims.index(d)] for d in range(rank)]) * attrs[f"{name}_factor"]

    return tuple(back(made[name], name) for name in ("dq", "dk", "dv"))


def softmax_gradient(q, k, v, g, scale):
    scores = scale * q @ k.T
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    dp = g @ v.T
    ds = scale * p * (dp - (p * dp).sum(1, keepdims=True))
    return ds @ k, ds.T @ q, p.T @ g
