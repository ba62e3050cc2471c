"""The functional dialect (neuronxcc.nki) and the name nki, as existing kernels use them."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python/compat"))

import neuronxcc.nki as nki  # noqa: E402
import neuronxcc.nki.compiler as ncc  # noqa: E402
import neuronxcc.nki.isa as nisa  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402
from neuronxcc.nki import benchmark, simulate_kernel  # noqa: E402
from neuronxcc.nki.language import par_dim  # noqa: E402
from trine.nki import NkiError  # noqa: E402


def numbers(shape, seed=1, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def test_the_name_nki_is_the_current_dialect():
    import nki as current
    import nki.isa as current_isa
    import nki.language as current_language
    from nki.typing import tensor

    import trine.nki

    assert current is trine.nki and current_isa is trine.nki.isa and current_language is trine.nki.language
    assert tensor[128, 512] is tensor


def test_basic_matmul():
    @nki.jit
    def kernel(lhs_t, rhs):
        out = nl.ndarray((lhs_t.shape[1], rhs.shape[1]), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
        i_k, i_m = nl.arange(128)[:, None], nl.arange(64)[None, :]
        i_n, i_row = nl.arange(512)[None, :], nl.arange(64)[:, None]
        a, b = nl.load(lhs_t[i_k, i_m]), nl.load(rhs[i_k, i_n])
        nl.store(out[i_row, i_n], value=nl.matmul(a, b, transpose_x=True))
        return out

    a, b = numbers((128, 64)), numbers((128, 512), 2)
    np.testing.assert_allclose(kernel(a, b), a.T @ b, rtol=1e-4, atol=1e-4)


def test_grid_of_programs():
    @nki.jit
    def kernel(a, b):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        ix = nl.program_id(0) * 128 + nl.arange(128)[:, None]
        iy = nl.program_id(1) * 512 + nl.arange(512)[None, :]
        nl.store(out[ix, iy], value=nl.load(a[ix, iy]) + nl.load(b[ix, iy]))
        return out

    a, b = numbers((256, 1024), dtype=np.float16), numbers((256, 1024), 2, np.float16)
    assert (kernel[2, 2](a, b) == a + b).all()


def test_programs_on_two_cores():
    @nki.jit(platform_target="trn2")
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        i = nl.program_id(0)
        nl.store(out[i], nl.load(a[i]) * 2.0)
        return out

    a = numbers((4, 128, 32))
    for grid in (nl.spmd_dim(nl.nc(2), 2), nl.spmd_dim(2, nl.nc(2)), nl.nc(2) * 2):
        assert (kernel[grid,](a) == 2 * a).all()


def test_index_arithmetic_reorders_and_reduces():
    @nki.jit
    def kernel(a, pool):
        p, h, w = a.shape
        out = nl.ndarray((p, h // pool, w // pool), dtype=a.dtype, buffer=nl.shared_hbm)
        i0, i1, i2, i3, i4 = nl.mgrid[0:p, 0 : h // pool, 0:pool, 0 : w // pool, 0:pool]
        tile = nl.load(a)
        nl.store(out, value=nl.sum(tile[i0, pool * i1 + i2, pool * i3 + i4], axis=[2, 4]) / (pool * pool))
        return out

    a = numbers((5, 6, 8))
    np.testing.assert_allclose(kernel(a, 2), a.reshape(5, 3, 2, 4, 2).mean((2, 4)), rtol=1e-5, atol=1e-6)

    @nki.jit
    def turned(a, rows, columns):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile, moved = nl.load(a), nl.ndarray(a.shape, dtype=a.dtype)
        p, i, j = nl.arange(a.shape[0])[:, None, None], nl.arange(rows)[None, :, None], nl.arange(columns)[None, None, :]
        moved[p, j * rows + i] = nl.copy(tile[p, i * columns + j])
        nl.store(out, moved)
        return out

    a = np.arange(5 * 12, dtype=np.int8).reshape(5, 12)
    assert (turned(a, 3, 4) == a.reshape(5, 3, 4).transpose(0, 2, 1).reshape(5, 12)).all()


def test_masks_cut_tiles():
    @nki.jit
    def kernel(a):
        rows, columns = a.shape
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        for block in nl.affine_range((rows + 127) // 128):
            ip, jf = nl.arange(128)[:, None], nl.arange(512)[None, :]
            inside = (block * 128 + ip < rows) & (jf < columns)
            tile = nl.load(a[block * 128 + ip, jf], mask=inside)
            nl.store(out[block * 128 + ip, jf], nl.exp(tile, mask=inside), mask=inside)
        return out

    a = numbers((200, 300))
    np.testing.assert_allclose(kernel(a), np.exp(a), rtol=1e-5)


def test_an_index_outside_needs_a_mask():
    @nki.jit
    def kernel(a):
        ip, jf = nl.arange(128)[:, None], nl.arange(512)[None, :]
        nl.load(a[ip, jf])

    with pytest.raises(NkiError) as e:
        kernel(numbers((100, 512)))
    assert e.value.code == "NKI010" and "mask" in str(e.value)


def test_blocks_assignment_and_accumulation_in_psum():
    @nki.jit
    def kernel(a, b):
        k, m = a.shape
        n = b.shape[1]
        out = nl.ndarray((m, n), dtype=a.dtype, buffer=nl.shared_hbm)
        a_tiles = nl.ndarray((k // 128, par_dim(128), m), dtype=a.dtype, buffer=nl.sbuf)
        b_tiles = nl.ndarray((k // 128, par_dim(128), n), dtype=a.dtype, buffer=nl.sbuf)
        for i in nl.affine_range(k // 128):
            a_tiles[i] = nl.load(a[nl.ds(i * 128, 128), :])
            b_tiles[i, :, :] = nl.load(b[nl.ds(i * 128, 128), :])
        sums = nl.zeros((m, n), dtype=nl.float32, buffer=nl.psum)
        for i in nl.affine_range(k // 128):
            sums += nisa.nc_matmul(a_tiles[i], b_tiles[i])
        total = nl.zeros((par_dim(m), n), dtype=nl.float32)
        total[:, 0:n] += nisa.tensor_scalar(sums, np.multiply, 2.0)
        nl.store(out, value=total)
        return out

    a, b = numbers((384, 64)), numbers((384, 256), 2)
    np.testing.assert_allclose(kernel(a, b), 2 * a.T @ b, rtol=1e-3, atol=1e-3)
    # the loads and the sums go where they belong at once: no copies
    text = kernel.compiled("trn1", (a, b), {})[0].program.disassemble()
    assert "tensor_copy" not in text


def test_functional_calls():
    @nki.jit
    def kernel(a, b):
        out = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.shared_hbm)
        x, row = nl.load(a), nl.load(b)
        top = nl.max(x, axis=1)
        e = nisa.activation(op=nl.exp, data=x, bias=-1.0 * top, scale=1.0)
        share = e / nl.sum(e, axis=[1])
        ix, iy = nl.mgrid[0:128, 0:64]
        low = nisa.affine_select(pred=(iy <= ix), on_true_tile=share[ix, iy], on_false_value=0.0)
        nl.store(out, value=low * row)
        return out

    a, b = numbers((128, 64)), numbers((1, 64), 2)
    e = np.exp(a - a.max(1, keepdims=True))
    want = np.tril(e / e.sum(1, keepdims=True)) * b
    np.testing.assert_allclose(kernel(a, b), want, rtol=1e-4, atol=1e-6)


def test_gather_by_a_tile_of_indices():
    @nki.jit(mode="simulation")
    def kernel(data, index):
        out = nl.ndarray((64, 32), dtype=data.dtype, buffer=nl.shared_hbm)
        i_p, i_f = nl.arange(64)[:, None], nl.arange(32)[None, :]
        idx = nl.load(index[i_p])
        nl.store(out, value=nl.load(data[idx[i_p, 0], i_f]))
        return out

    data, index = numbers((128, 32)), np.random.default_rng(1).integers(0, 128, 64).astype(np.int32)
    assert (kernel(data, index) == data[index]).all()


def test_direct_allocation():
    @nki.jit
    def kernel(a):
        rows = a.shape[0] // 128
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tiles = nl.ndarray((rows, par_dim(128), 256), dtype=a.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0, num_free_tiles=(2,)))
        banks = nl.ndarray((rows, par_dim(128), 256), dtype=nl.float32, buffer=ncc.psum.mod_alloc(base_bank=1, num_bank_tiles=(2,)))
        done = nl.ndarray((rows, par_dim(128), 256), dtype=a.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=4096, num_free_tiles=(2,)))
        for i in nl.affine_range(rows):
            tiles[i] = nl.load(a[nl.ds(i * 128, 128), :])
            banks[i] = nisa.nc_matmul(tiles[i][:, 0:128], tiles[i])
            done[i] = nisa.tensor_copy(banks[i])
            nl.store(out[nl.ds(i * 128, 128), :], done[i])
        return out

    a = numbers((512, 256))
    want = np.concatenate([a[r : r + 128, :128].T @ a[r : r + 128] for r in range(0, 512, 128)])
    np.testing.assert_allclose(kernel(a), want, rtol=1e-3, atol=1e-3)
    text = kernel.compiled("trn1", (a,), {})[0].program.disassemble()
    assert "at 0:1024" in text and "at 0:2048" in text and "at 0:5120" in text


def test_arguments_written_in_place_and_ways_to_run(tmp_path):
    def kernel(a, out):
        nl.store(out, nl.load(a) * 3.0)

    a, out = numbers((128, 16)), np.zeros((128, 16), np.float32)
    simulate_kernel(kernel, a, out)
    assert (out == a * np.float32(3)).all()
    out = np.zeros((128, 16), np.float32)
    nki.baremetal(kernel)(a, out)
    assert (out == a * np.float32(3)).all()
    timed = benchmark(warmup=5, iters=10, save_neff_name="k.neff", save_trace_name="k.ntff", working_directory=str(tmp_path))(kernel)
    timed(a, out)
    latency = timed.benchmark_result.nc_latency
    assert latency.get_latency_percentile(50) == latency.get_latency_percentile(99) > 1
    assert (tmp_path / "k.neff").exists() and (tmp_path / "k.ntff").exists()


def test_static_cast_and_types():
    x = nl.static_cast(np.ones((2, 2)), nl.bfloat16)
    assert x.dtype == nl.bfloat16 and nl.float32 == np.float32 and np.dtype(np.int8) == nl.int8


def test_importing_neuronxcc_adds_the_level_that_scripts_switch_off_at():
    import logging

    logging.disable(logging.OFF)  # as the scripts of a course on kernels start
    try:
        assert not logging.getLogger().isEnabledFor(logging.CRITICAL)
    finally:
        logging.disable(logging.NOTSET)


def test_constants_can_be_imported_from_both_parts():
    from neuronxcc.nki.isa import constants as of_isa
    from neuronxcc.nki.language import constants as of_language

    assert of_isa.get_nc_version and of_language.tile_size.pmax == 128
