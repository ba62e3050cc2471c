"""LayerNorm, RMSNorm and softmax over the rows of a matrix, 128 rows at a time."""

import trine.nki as nki
import trine.nki.isa as nisa
import trine.nki.language as nl


def rows(n):
    """Slices of up to 128 rows."""
    step = nl.tile_size.pmax
    return [slice(r, min(r + step, n)) for r in range(0, n, step)]


def on_all_partitions(vector, partitions):
    """A vector of HBM on every partition: DMA reads the same row again and again."""
    width = vector.shape[0]
    tile = nl.ndarray((partitions, width), dtype=vector.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=vector.reshape((1, width)).broadcast(0, partitions))
    return tile


@nki.jit
def layernorm(x, gamma, beta, eps=1e-5):
    """(x - mean) / √(var + eps) · gamma + beta along the last dimension of x[n, d]."""
    n, d = x.shape
    out = nl.ndarray((n, d), dtype=x.dtype, buffer=nl.shared_hbm)
    most = min(n, nl.tile_size.pmax)
    gamma_tile, beta_tile = on_all_partitions(gamma, most), on_all_partitions(beta, most)
    chunk = nl.tile_size.bn_stats_fmax
    chunks = [(c, min(c + chunk, d)) for c in range(0, d, chunk)]
    for r in rows(n):
        p = r.stop - r.start
        tile = nl.load(x[r, :])
        stats = nl.ndarray((p, 6 * len(chunks)), dtype=nl.float32)
        for i, (begin, end) in enumerate(chunks):
            nisa.bn_stats(dst=stats[:, 6 * i : 6 * i + 6], data=tile[:, begin:end])
        mean_var = nl.ndarray((p, 2), dtype=nl.float32)
        nisa.bn_aggr(dst=mean_var, data=stats)
        scale = nl.ndarray((p, 1), dtype=nl.float32)
        nisa.tensor_scalar(dst=scale, data=mean_var[:, 1:2], op0=nl.add, operand0=eps)
        nisa.activation(dst=scale, op=nl.rsqrt, data=scale)
        normal = nl.ndarray((p, d), dtype=nl.float32)
        nisa.tensor_scalar(dst=normal, data=tile, op0=nl.subtract, operand0=mean_var[:, 0:1], op1=nl.multiply, operand1=scale)
        nisa.tensor_tensor(dst=normal, data1=normal, data2=gamma_tile[:p], op=nl.multiply)
        result = nl.ndarray((p, d), dtype=x.dtype)
        nisa.tensor_tensor(dst=result, data1=normal, data2=beta_tile[:p], op=nl.add)
        nl.store(out[r, :], result)
    return out


@nki.jit
def rmsnorm(x, weight, eps=1e-6):
    """x / √(mean(x²) + eps) · weight along the last dimension of x[n, d]."""
    n, d = x.shape
    out = nl.ndarray((n, d), dtype=x.dtype, buffer=nl.shared_hbm)
    weight_tile = on_all_partitions(weight, min(n, nl.tile_size.pmax))
    for r in rows(n):
        p = r.stop - r.start
        tile = nl.load(x[r, :])
        squares, total = nl.ndarray((p, d), dtype=nl.float32), nl.ndarray((p, 1), dtype=nl.float32)
        nisa.activation_reduce(dst=squares, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=total)
        nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=1 / d, op1=nl.add, operand1=eps)
        nisa.activation(dst=total, op=nl.rsqrt, data=total)
        result = nl.ndarray((p, d), dtype=x.dtype)
        nisa.scalar_tensor_tensor(dst=result, data=tile, op0=nl.multiply, operand0=total, op1=nl.multiply,
                                  operand1=weight_tile[:p])  # fmt: skip
        nl.store(out[r, :], result)
    return out


@nki.jit
def softmax(x):
    """exp(x - max) / Σ exp(x - max) along the last dimension of x[n, d]."""
    n, d = x.shape
    out = nl.ndarray((n, d), dtype=x.dtype, buffer=nl.shared_hbm)
    for r in rows(n):
        p = r.stop - r.start
        tile = nl.load(x[r, :])
        top, total = nl.ndarray((p, 1), dtype=nl.float32), nl.ndarray((p, 1), dtype=nl.float32)
        nisa.tensor_reduce(dst=top, op=nl.max, data=tile, axis=1, negate=True)
        raised = nl.ndarray((p, d), dtype=nl.float32)
        nisa.activation_reduce(dst=raised, op=nl.exp, data=tile, reduce_op=nl.add, reduce_res=total, bias=top)
        nisa.reciprocal(dst=total, data=total)
        result = nl.ndarray((p, d), dtype=x.dtype)
        nisa.tensor_scalar(dst=result, data=raised, op0=nl.multiply, operand0=total)
        nl.store(out[r, :], result)
    return out
