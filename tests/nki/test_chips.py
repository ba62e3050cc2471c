"""What a chip allows that another does not, or that looks larger than it is: banks that were set, strides of 0, rows by index."""

import numpy as np
import pytest

import trine.nki as nki
import trine.nki.isa as nisa
import trine.nki.language as nl

X = np.random.default_rng(0).standard_normal((128, 512)).astype(np.float32)


@pytest.mark.parametrize("chip, value", [("trn1", 0), ("trn2", 0), ("trn2", 3), ("trn3", 3)])
def test_a_matmul_into_a_bank_that_was_set(chip, value):
    @nki.jit(platform_target=chip)
    def kernel(a):
        out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
        t = nl.load(a)
        p = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
        for _ in range(2):  # the second memset starts again
            nisa.memset(p, value)
            nisa.nc_matmul(p, t[:, 0:128], t)
            nisa.nc_matmul(p, t[:, 0:128], t)
        nl.store(out, nl.copy(p))
        return out

    assert np.allclose(kernel(X), 2 * X[:, :128].T @ X + value, atol=1e-3)


def test_a_psum_operand_that_names_an_element_again_and_again():
    @nki.jit(platform_target="trn2")
    def kernel(a):
        out = nl.ndarray((128, 4, 2048), nl.float32, buffer=nl.shared_hbm)
        p = nl.ndarray((128, 4), nl.float32, buffer=nl.psum)
        nisa.tensor_copy(p, nl.load(a[:, 0:4]))
        wide = nl.ndarray((128, 4, 2048), nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(wide, p.ap([[4, 128], [1, 4], [0, 2048]]))
        nl.store(out, wide)
        return out

    assert (kernel(X) == X[:, :4, None]).all()


@pytest.mark.parametrize("chip", ["inf2", "trn1", "trn2"])
def test_rows_by_index(chip):
    @nki.jit(platform_target=chip)
    def kernel(a, index):
        out = nl.ndarray((128, 512), a.dtype, buffer=nl.shared_hbm)
        i, t = nl.load(index), nl.ndarray((128, 512), a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(t, a.ap([[512, 128], [1, 512]], vector_offset=i, indirect_dim=0))
        nisa.dma_copy(out.ap([[512, 128], [1, 512]], vector_offset=i, indirect_dim=0), t)
        return out

    order = np.random.default_rng(1).permutation(128).astype(np.int32)
    got = kernel(X, order[:, None])
    assert (got[order] == X[order]).all()
