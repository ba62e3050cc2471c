"""What the machine leaves undefined but no result depends on: a warning, and the right values."""

import warnings

import numpy as np
import pytest

import trine.nki as nki
import trine.nki.isa as nisa
import trine.nki.language as nl

X = np.random.default_rng(0).standard_normal((128, 512)).astype(np.float32)


def heard(kernel, *args):
    """(result, codes of the warnings)"""
    with warnings.catch_warnings(record=True) as list_:
        warnings.simplefilter("always")
        result = kernel(*args)
    return result, [str(w.message).split(": ")[1].split()[0] for w in list_]


def test_two_cores_that_store_the_same_bytes():
    @nki.jit(platform_target="trn2")
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        for rows in (slice(0, 64), slice(64, 128)):
            nl.store(out[rows, :], nl.load(a[rows, :]))
        return out

    result, codes = heard(kernel[2], X)
    assert (result == X).all() and codes == ["NKI046"] * 2


def test_the_same_bytes_in_one_iteration_and_others_in_the_next():
    @nki.jit(platform_target="trn2")
    def kernel(a, b):
        out = nl.ndarray((2, 128, 512), a.dtype, buffer=nl.shared_hbm)
        source = b if nl.program_id(0) else a

        def body(i):
            t = nl.ndarray((128, 512), a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(t, source[i])
            nisa.dma_copy(out[i], t)

        nl.fori_loop(0, 2, body)
        return out

    alike, codes = heard(kernel[2], np.stack([X, X]), np.stack([X, X]))
    assert (alike[1] == X).all() and codes == ["NKI046"]
    with pytest.raises(nki.NkiError, match="NKI046"):
        kernel[2](np.stack([X, X]), np.stack([X, X + 1]))


@pytest.mark.parametrize("rows, warned", [(64, True), (128, False)])
def test_rows_that_nobody_wrote_and_nobody_uses(rows, warned):
    @nki.jit(platform_target="trn2")
    def kernel(a):
        out = nl.ndarray((64, 512), a.dtype, buffer=nl.shared_hbm)
        t, u = (nl.ndarray((128, 512), a.dtype, buffer=nl.sbuf) for _ in range(2))
        nisa.dma_copy(t[0:rows, :], a[0:rows, :])
        nisa.activation(u, nl.sqrt, t)  # 0 is outside the table's range, and only there by chance
        nisa.dma_copy(out, u[0:64, :])
        return out

    result, codes = heard(kernel, abs(X) + 1)
    assert np.allclose(result, np.sqrt(abs(X) + 1)[:64], rtol=1e-3)
    assert set(codes) <= {"NKI040", "NKI044"} and ("NKI040" in codes) == warned


def test_memory_is_clean_after_a_second_look():
    @nki.jit(platform_target="trn2")
    def kernel(a):
        out = nl.ndarray((64, 512), a.dtype, buffer=nl.shared_hbm)
        t = nl.ndarray((128, 512), a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(t[0:64, :], a[0:64, :])
        nisa.tensor_scalar(t, t, nl.multiply, 2.0)
        nisa.dma_copy(out, t[0:64, :])
        return out

    for _ in range(2):
        result, codes = heard(kernel, X)
        assert (result == 2 * X[:64]).all() and codes == ["NKI040"]
