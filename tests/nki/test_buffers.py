"""What a kernel allocates is what there is: who fills a buffer again waits for those that read it."""

import trine
import trine.nki as nki
import trine.nki.isa as nisa
import trine.nki.language as nl

P, SIZE, WIDTH = 128, 2048, 512


def product(accumulators):
    """A 2048-cubed multiply in bf16 with all operands in SBUF, whose sums take turns in so many buffers."""

    @nki.jit
    def kernel(lhs_t, rhs):
        out = nl.ndarray((SIZE, SIZE), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
        left, right = [], []
        for tiles, source in ((left, lhs_t), (right, rhs)):
            for k in range(SIZE // P):
                tile = nl.ndarray((P, SIZE), dtype=source.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=tile, src=source[k * P : (k + 1) * P, :])
                tiles.append(tile)
        sums = [nl.ndarray((P, WIDTH), dtype=nl.float32, buffer=nl.psum) for _ in range(accumulators)]
        at = 0
        for m in range(SIZE // P):
            row = nl.ndarray((P, SIZE), dtype=lhs_t.dtype, buffer=nl.sbuf)
            for n in range(SIZE // WIDTH):
                here = sums[at % accumulators]
                at += 1
                for k in range(SIZE // P):
                    nisa.nc_matmul(dst=here, stationary=left[k][:, m * P : (m + 1) * P],
                                   moving=right[k][:, n * WIDTH : (n + 1) * WIDTH], accumulate=k > 0)  # fmt: skip
                nisa.tensor_copy(dst=row[:, n * WIDTH : (n + 1) * WIDTH], src=here)
            nisa.dma_copy(dst=out[m * P : (m + 1) * P, :], src=row)
        return out

    return kernel


def time_us(accumulators):
    shape = nki.shape((SIZE, SIZE), "bfloat16")
    return trine.report(product(accumulators), shape, shape, instance="trn2.3xlarge").time_ns / 1000


def test_one_accumulator_waits_for_its_reader():
    one, two, four = time_us(1), time_us(2), time_us(4)
    assert one > 1.05 * two
    assert abs(four - two) < 0.05 * two
