"""Flash attention, forward and backward: the score matrix lives a tile at a time and never reaches HBM.

q and k come as [d, sequence], ready for the tensor engine; v, the result and its gradient as [sequence, d]; d ≤ 128.
"""

import trine.nki as nki
import trine.nki.isa as nisa
import trine.nki.language as nl

LOWEST = -9984.0  # of a masked score; small enough for exp to give zero, large enough for 16 bits


def transposed(tile, dtype):
    """tileᵀ in SBUF, by the tensor engine."""
    p, f = tile.shape
    turned = nl.ndarray((f, p), dtype=tile.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile)
    out = nl.ndarray((f, p), dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=out, src=turned)
    return out


def product(stationary, moving, dtype=nl.float32):
    """stationaryᵀ · moving in SBUF."""
    sums = nl.ndarray((stationary.shape[1], moving.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=sums, stationary=stationary, moving=moving)
    out = nl.ndarray(sums.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=out, src=sums)
    return out


def scores(q_tile, k_tile, row, column, scale, causal):
    """scale · qᵀk in SBUF; where the key is later than the query, LOWEST."""
    p, f = q_tile.shape[1], k_tile.shape[1]
    sums = nl.ndarray((p, f), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=sums, stationary=q_tile, moving=k_tile)
    out = nl.ndarray((p, f), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=out, op=nl.copy, data=sums, scale=scale)
    if causal and column + f - 1 > row:
        masked = nl.ndarray((p, f), dtype=nl.float32, buffer=nl.sbuf)
        nisa.affine_select(dst=masked, pattern=[[-1, f]], channel_multiplier=1, on_true_tile=out, on_false_value=LOWEST,
                           cmp_op=nl.greater_equal, offset=row - column)  # fmt: skip
        return masked
    return out


def raw_scores(q_tile, k_tile, row, column, causal):
    """qᵀk for up to one bank of keys, in PSUM; masked, in SBUF, where a key is later than its query."""
    p, f = q_tile.shape[1], k_tile.shape[1]
    sums = nl.ndarray((p, f), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=sums, stationary=q_tile, moving=k_tile)
    if not causal or column + f - 1 <= row:
        return sums
    tile, masked = nl.copy(sums), nl.ndarray((p, f), dtype=nl.float32)
    nisa.affine_select(dst=masked, pattern=[[-1, f]], channel_multiplier=1, on_true_tile=tile, on_false_value=LOWEST,
                       cmp_op=nl.greater_equal, offset=row - column)  # fmt: skip
    return masked


def lowest_negated(parts, before):
    """-max over the rows of `parts` and what `before` holds, [p, 1]."""
    p = parts[0].shape[0]
    each, out = nl.ndarray((p, len(parts)), dtype=nl.float32), nl.ndarray((p, 1), dtype=nl.float32)
    for i, part in enumerate(parts):
        nisa.tensor_reduce(dst=each[:, i : i + 1], op=nl.max, data=part, axis=1, negate=True)
    if len(parts) > 1:
        nisa.tensor_reduce(dst=out, op=nl.minimum, data=each, axis=1)
    else:
        out = each
    if before is not None:
        nisa.tensor_tensor(dst=out, data1=out, data2=before, op=nl.minimum)
    return out


def times_values(raised, v_tiles):
    """raised · v in PSUM; the transposes of up to four tiles share a bank and are copied together."""
    p, keys = raised.shape
    sums = nl.ndarray((p, v_tiles[0].shape[1]), dtype=nl.float32, buffer=nl.psum)
    for c in range(0, keys, 4 * p):
        width = min(4 * p, keys - c)
        turned = nl.ndarray((p, width), dtype=raised.dtype, buffer=nl.psum)
        for i in range(0, width, p):
            nisa.nc_transpose(dst=turned[:, i : i + p], data=raised[:, c + i : c + i + p])
        tile = nl.ndarray((p, width), dtype=raised.dtype)
        nisa.tensor_copy(dst=tile, src=turned)
        for i in range(0, width, p):
            nisa.nc_matmul(dst=sums, stationary=tile[:, i : i + p], moving=v_tiles[(c + i) // p])
    return sums


@nki.jit
def flash_attention(q, k, v, causal=False, block=1024):
    """softmax(qᵀk / √d) · v and the log of each row's sum, for the backward pass."""
    (d, queries), keys = q.shape, k.shape[1]
    p, block = nl.tile_size.pmax, min(block, keys)
    bank = min(block, nl.tile_size.psum_bank_fmax)
    scale = d**-0.5
    out = nl.ndarray((queries, d), dtype=v.dtype, buffer=nl.shared_hbm)
    lse = nl.ndarray((queries, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    k_tiles = [nl.load(k[:, c : c + bank]) for c in range(0, keys, bank)]
    v_tiles = [nl.load(v[c : c + p, :]) for c in range(0, keys, p)]
    lows, totals = (nl.ndarray((p, queries // p), dtype=nl.float32) for _ in range(2))
    for row in range(0, queries, p):
        q_tile = nl.load(q[:, row : row + p])
        low = total = acc = None  # -max, sum and product so far
        for c in range(0, row + p if causal else keys, block):
            banks = range(c, min(c + block, row + p) if causal else c + block, bank)
            parts = [raw_scores(q_tile, k_tiles[b // bank], row, b, causal) for b in banks]
            lower, bias = lowest_negated(parts, low), nl.ndarray((p, 1), dtype=nl.float32)
            nisa.tensor_scalar(dst=bias, data=lower, op0=nl.multiply, operand0=scale)
            raised, each = nl.ndarray((p, len(parts) * bank), dtype=v.dtype), nl.ndarray((p, len(parts)), dtype=nl.float32)
            for i, part in enumerate(parts):
                nisa.activation_reduce(dst=raised[:, i * bank : (i + 1) * bank], op=nl.exp, data=part, bias=bias, scale=scale,
                                       reduce_op=nl.add, reduce_res=each[:, i : i + 1])  # fmt: skip
            sums = times_values(raised, v_tiles[c // p :])
            more = nl.ndarray((p, 1), dtype=nl.float32)
            nisa.tensor_reduce(dst=more, op=nl.add, data=each, axis=1)
            if low is None:
                total, acc = more, nl.copy(sums)
            else:
                shrink = nl.ndarray((p, 1), dtype=nl.float32)
                nisa.activation(dst=shrink, op=nl.exp, data=low, scale=-scale, bias=bias)
                nisa.scalar_tensor_tensor(dst=total, data=total, op0=nl.multiply, operand0=shrink, op1=nl.add, operand1=more)
                nisa.scalar_tensor_tensor(dst=acc, data=acc, op0=nl.multiply, operand0=shrink, op1=nl.add, operand1=sums)
            low = lower
        inverse, result = nl.ndarray((p, 1), dtype=nl.float32), nl.ndarray((p, d), dtype=v.dtype)
        nisa.reciprocal(dst=inverse, data=total)
        nisa.tensor_scalar(dst=result, data=acc, op0=nl.multiply, operand0=inverse)
        nl.store(out[row : row + p, :], result)
        at = slice(row // p, row // p + 1)
        nisa.tensor_copy(dst=lows[:, at], src=low)
        nisa.tensor_copy(dst=totals[:, at], src=total)
    # All logarithms at once: between exp and log Scalar loads another table.
    logs = nl.log(totals)
    nisa.scalar_tensor_tensor(dst=logs, data=lows, op0=nl.multiply, operand0=-scale, op1=nl.add, operand1=logs)
    nisa.dma_copy(dst=lse.ap([[1, p], [p, queries // p]]), src=logs)
    return out, lse


@nki.jit
def flash_attention_backward(q, k, v, out, lse, grad, causal=False):
    """Gradients of q, k (both [d, sequence]) and v ([sequence, d]) from that of the result."""
    d, queries = q.shape
    keys, p, scale = k.shape[1], nl.tile_size.pmax, d**-0.5
    dq = nl.ndarray((d, queries), dtype=q.dtype, buffer=nl.shared_hbm)
    dk = nl.ndarray((d, keys), dtype=k.dtype, buffer=nl.shared_hbm)
    dv = nl.ndarray((keys, d), dtype=v.dtype, buffer=nl.shared_hbm)
    k_tiles = [nl.load(k[:, c : c + p]) for c in range(0, keys, p)]
    k_rows = [transposed(t, k.dtype) for t in k_tiles]
    v_columns = [transposed(nl.load(v[c : c + p, :]), v.dtype) for c in range(0, keys, p)]
    dk_sums = [nl.zeros((d, p), dtype=nl.float32) for _ in k_tiles]
    dv_sums = [nl.zeros((p, d), dtype=nl.float32) for _ in k_tiles]
    for row in range(0, queries, p):
        r = slice(row, row + p)
        q_tile, grad_tile = nl.load(q[:, r]), nl.load(grad[r, :])
        q_rows, grad_columns = transposed(q_tile, q.dtype), transposed(grad_tile, grad.dtype)
        below, inner = nl.ndarray((p, 1), dtype=nl.float32), nl.ndarray((p, 1), dtype=nl.float32)
        nisa.tensor_scalar(dst=below, data=nl.load(lse[r, :]), op0=nl.multiply, operand0=-1.0)
        both = nl.multiply(nl.load(out[r, :]), grad_tile, dtype=nl.float32)
        nisa.tensor_reduce(dst=inner, op=nl.add, data=both, axis=1)
        dq_sum = nl.ndarray((d, p), dtype=nl.float32, buffer=nl.psum)
        for c, k_tile in enumerate(k_tiles):
            if causal and c * p > row:
                break
            s = scores(q_tile, k_tile, row, c * p, scale, causal)
            chance = nl.ndarray((p, p), dtype=q.dtype)
            nisa.activation(dst=chance, op=nl.exp, data=s, bias=below)
            nisa.tensor_tensor(dst=dv_sums[c], data1=dv_sums[c], data2=product(chance, grad_tile), op=nl.add)
            d_chance = product(grad_columns, v_columns[c])
            # chance · (d_chance - inner) · scale
            d_score = nl.ndarray((p, p), dtype=nl.float32)
            nisa.scalar_tensor_tensor(dst=d_score, data=d_chance, op0=nl.subtract, operand0=inner, op1=nl.multiply, operand1=chance)
            scaled = nl.ndarray((p, p), dtype=q.dtype)
            nisa.tensor_scalar(dst=scaled, data=d_score, op0=nl.multiply, operand0=scale)
            nisa.tensor_tensor(dst=dk_sums[c], data1=dk_sums[c], data2=product(q_rows, scaled), op=nl.add)
            nisa.nc_matmul(dst=dq_sum, stationary=k_rows[c], moving=transposed(scaled, q.dtype))
        nl.store(dq[:, r], nl.copy(dq_sum, dtype=q.dtype))
    for c in range(len(k_tiles)):
        at = slice(c * p, (c + 1) * p)
        nl.store(dk[:, at], nl.copy(dk_sums[c], dtype=k.dtype))
        nl.store(dv[at, :], nl.copy(dv_sums[c], dtype=v.dtype))
    return dq, dk, dv
