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


@nki.jit
def flash_attention(q, k, v, causal=False, block=512):
    """softmax(qᵀk / √d) · v and the log of each row's sum, for the backward pass."""
    d, queries = q.shape
    keys = k.shape[1]
    p, block = nl.tile_size.pmax, min(block, keys)
    scale = d**-0.5
    out = nl.ndarray((queries, d), dtype=v.dtype, buffer=nl.shared_hbm)
    lse = nl.ndarray((queries, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    k_tiles = [nl.load(k[:, c : c + block]) for c in range(0, keys, block)]
    v_tiles = [nl.load(v[c : c + p, :]) for c in range(0, keys, p)]
    for row in range(0, queries, p):
        q_tile = nl.load(q[:, row : row + p])
        top = nl.full((p, 1), -3.0e38, dtype=nl.float32)
        total = nl.zeros((p, 1), dtype=nl.float32)
        acc = nl.zeros((p, d), dtype=nl.float32)
        for c, k_tile in enumerate(k_tiles):
            if causal and c * block > row + p - 1:
                break
            s = scores(q_tile, k_tile, row, c * block, scale, causal)
            higher, part = nl.ndarray((p, 1), dtype=nl.float32), nl.ndarray((p, 1), dtype=nl.float32)
            nisa.tensor_reduce(dst=part, op=nl.max, data=s, axis=1)
            nisa.tensor_tensor(dst=higher, data1=part, data2=top, op=nl.maximum)
            below = nl.ndarray((p, 1), dtype=nl.float32)
            nisa.tensor_scalar(dst=below, data=higher, op0=nl.multiply, operand0=-1.0)
            raised = nl.ndarray((p, block), dtype=v.dtype)
            nisa.activation_reduce(dst=raised, op=nl.exp, data=s, reduce_op=nl.add, reduce_res=part, bias=below)
            shrink = nl.ndarray((p, 1), dtype=nl.float32)
            nisa.activation(dst=shrink, op=nl.exp, data=top, bias=below)
            nisa.scalar_tensor_tensor(dst=total, data=total, op0=nl.multiply, operand0=shrink, op1=nl.add, operand1=part)
            sums = nl.ndarray((p, d), dtype=nl.float32, buffer=nl.psum)
            for i in range(block // p):
                turned = transposed(raised[:, i * p : (i + 1) * p], v.dtype)
                nisa.nc_matmul(dst=sums, stationary=turned, moving=v_tiles[c * block // p + i])
            nisa.scalar_tensor_tensor(dst=acc, data=acc, op0=nl.multiply, operand0=shrink, op1=nl.add, operand1=sums)
            top = higher
        inverse, logs = nl.ndarray((p, 1), dtype=nl.float32), nl.ndarray((p, 1), dtype=nl.float32)
        nisa.reciprocal(dst=inverse, data=total)
        result = nl.ndarray((p, d), dtype=v.dtype)
        nisa.tensor_scalar(dst=result, data=acc, op0=nl.multiply, operand0=inverse)
        nl.store(out[row : row + p, :], result)
        nisa.activation(dst=logs, op=nl.log, data=total)
        nisa.tensor_tensor(dst=logs, data1=logs, data2=top, op=nl.add)
        nl.store(lse[row : row + p, :], logs)
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
