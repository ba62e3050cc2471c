"""A matrix multiply, out = lhs_tᵀ · rhs, in schedules from naive loads to blocks in every dimension.

  narrow     every operand is loaded where it is used, 128 columns at a time
  tiled      the same with moving tiles of 512 columns
  hoisted    a row of lhs_t tiles and a column of rhs tiles stay while they are used
  blocked    the same over blocks of output tiles, so that each load serves several
  blocked_k  blocks of K as well: large loads, partial sums kept in SBUF
and with the user's own buffers in PSUM, where the next sum waits until the last one is out:
  one_accumulator, two_accumulators
"""

import trine.nki as nki
import trine.nki.isa as nisa
import trine.nki.language as nl

K, M = 128, 128  # rows and stationary columns of a tile


def fetch(tensor, row, column, rows, columns):
    tile = nl.ndarray((rows, columns), dtype=tensor.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=tensor[row : row + rows, column : column + columns])
    return tile


def put(out, row, column, sums):
    """PSUM to SBUF to HBM."""
    tile = nl.ndarray(sums.shape, dtype=out.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=sums)
    nisa.dma_copy(dst=out[row : row + sums.shape[0], column : column + sums.shape[1]], src=tile)


def result(lhs_t, rhs):
    return nl.ndarray((lhs_t.shape[1], rhs.shape[1]), dtype=lhs_t.dtype, buffer=nl.shared_hbm)


def every_load_where_it_is_used(lhs_t, rhs, width):
    (k, m), n = lhs_t.shape, rhs.shape[1]
    out = result(lhs_t, rhs)
    for i in range(0, m, M):
        for j in range(0, n, width):
            sums = nl.ndarray((M, width), dtype=nl.float32, buffer=nl.psum)
            for c in range(0, k, K):
                nisa.nc_matmul(dst=sums, stationary=fetch(lhs_t, c, i, K, M), moving=fetch(rhs, c, j, K, width))
            put(out, i, j, sums)
    return out


@nki.jit
def narrow(lhs_t, rhs):
    return every_load_where_it_is_used(lhs_t, rhs, 128)


@nki.jit
def tiled(lhs_t, rhs):
    return every_load_where_it_is_used(lhs_t, rhs, nl.tile_size.gemm_moving_fmax)


@nki.jit
def hoisted(lhs_t, rhs):
    (k, m), n = lhs_t.shape, rhs.shape[1]
    width = nl.tile_size.gemm_moving_fmax
    out = result(lhs_t, rhs)
    for i in range(0, m, M):
        lefts = [fetch(lhs_t, c, i, K, M) for c in range(0, k, K)]
        for j in range(0, n, width):
            rights = [fetch(rhs, c, j, K, width) for c in range(0, k, K)]
            sums = nl.ndarray((M, width), dtype=nl.float32, buffer=nl.psum)
            for left, right in zip(lefts, rights):
                nisa.nc_matmul(dst=sums, stationary=left, moving=right)
            put(out, i, j, sums)
    return out


@nki.jit
def blocked(lhs_t, rhs, rows=2, columns=2):
    """Blocks of rows x columns output tiles."""
    (k, m), n = lhs_t.shape, rhs.shape[1]
    width = nl.tile_size.gemm_moving_fmax
    out = result(lhs_t, rhs)
    for i in range(0, m, rows * M):
        lefts = [[fetch(lhs_t, c, i + r * M, K, M) for c in range(0, k, K)] for r in range(rows)]
        for j in range(0, n, columns * width):
            rights = [[fetch(rhs, c, j + q * width, K, width) for c in range(0, k, K)] for q in range(columns)]
            for r in range(rows):
                for q in range(columns):
                    sums = nl.ndarray((M, width), dtype=nl.float32, buffer=nl.psum)
                    for left, right in zip(lefts[r], rights[q]):
                        nisa.nc_matmul(dst=sums, stationary=left, moving=right)
                    put(out, i + r * M, j + q * width, sums)
    return out


@nki.jit
def blocked_k(lhs_t, rhs, rows=16, columns=2, deep=8):
    """Blocks in all three dimensions: rows x columns output tiles over deep tiles of K."""
    (k, m), n = lhs_t.shape, rhs.shape[1]
    width = nl.tile_size.gemm_moving_fmax
    rows, deep = min(rows, m // M), min(deep, k // K)
    out = result(lhs_t, rhs)
    for j in range(0, n, columns * width):
        totals = {}
        for c in range(0, k, deep * K):
            rights = [fetch(rhs, c + d * K, j, K, columns * width) for d in range(deep)]
            for i in range(0, m, rows * M):
                lefts = [fetch(lhs_t, c + d * K, i, K, rows * M) for d in range(deep)]
                for r in range(rows):
                    for q in range(columns):
                        sums = nl.ndarray((M, width), dtype=nl.float32, buffer=nl.psum)
                        for left, right in zip(lefts, rights):
                            nisa.nc_matmul(dst=sums, stationary=left[:, r * M : (r + 1) * M],
                                           moving=right[:, q * width : (q + 1) * width])  # fmt: skip
                        add_up(totals, (i + r * M, q), sums, columns, width)
        for i in range(0, m, M):
            packed = totals[i]
            if packed.dtype != out.dtype:
                packed = nl.copy(packed, dtype=out.dtype)
            nisa.dma_copy(dst=out[i : i + M, j : j + columns * width], src=packed)
    return out


def add_up(totals, place, sums, columns, width):
    """The running sum of one output tile; the tiles of a row lie side by side, ready for one store."""
    row, q = place
    first = row not in totals or q not in totals[row, "seen"]
    if row not in totals:
        totals[row] = nl.ndarray((M, columns * width), dtype=nl.float32, buffer=nl.sbuf)
        totals[row, "seen"] = set()
    part = totals[row][:, q * width : (q + 1) * width]
    if first:
        nisa.tensor_copy(dst=part, src=sums)
        totals[row, "seen"].add(q)
    else:
        nisa.tensor_tensor(dst=part, data1=part, data2=sums, op=nl.add)


def in_own_buffers(lhs_t, rhs, buffers):
    """All loads come first, whole rows at a time; sums take turns in so many tiles of PSUM."""
    (k, m), n = lhs_t.shape, rhs.shape[1]
    width = nl.tile_size.gemm_moving_fmax
    out = result(lhs_t, rhs)
    turns = [nl.ndarray((M, width), dtype=nl.float32, buffer=nl.psum) for _ in range(buffers)]
    lefts, rights = ([fetch(t, c, 0, K, t.shape[1]) for c in range(0, k, K)] for t in (lhs_t, rhs))
    for i in range(0, m, M):
        for j in range(0, n, width):
            sums = turns[(i // M + j // width) % buffers]
            for c, (left, right) in enumerate(zip(lefts, rights)):
                nisa.nc_matmul(dst=sums, stationary=left[:, i : i + M], moving=right[:, j : j + width], accumulate=c > 0)
            put(out, i, j, sums)
    return out


@nki.jit
def one_accumulator(lhs_t, rhs):
    return in_own_buffers(lhs_t, rhs, 1)


@nki.jit
def two_accumulators(lhs_t, rhs):
    return in_own_buffers(lhs_t, rhs, 2)


SCHEDULES = [narrow, tiled, hoisted, blocked, blocked_k]


if __name__ == "__main__":
    import trine

    for kernel in SCHEDULES:
        r = trine.report(kernel, (2048, 2048), (2048, 2048), dtype="bfloat16", instance="trn2.3xlarge")
        print(f"{kernel.__name__:<10} {r.time_ns / 1000:8.1f} µs  MFU {100 * r.mfu:4.1f} %  {r.hbm_read_bytes / 1e6:6.1f} MB read")
