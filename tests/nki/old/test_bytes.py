"""What of a functional kernel's loads and results reaches HBM, by the rules of Neuron's tensorizer; see the decision
`bytes of kernels`. Each program is small and has one mechanism; its values are held against NumPy's."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python/compat"))

import neuronxcc.nki as nki  # noqa: E402
import neuronxcc.nki.compiler as ncc  # noqa: E402
import neuronxcc.nki.isa as nisa  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402

import trine  # noqa: E402

P, TRN1 = 128, "trn1.2xlarge"


@pytest.fixture(autouse=True)
def chip(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")


def numbers(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def report(kernel, *arrays):
    return trine.report(kernel, *arrays, instance=TRN1)


def rounds(columns, times, tiles=2):
    """exp of the same tiles, `times` times over."""

    def kernel(x):
        out = nl.ndarray((times, tiles, P, columns), dtype=x.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(times):
            for j in nl.affine_range(tiles):
                nl.store(out[i, j], nl.exp(nl.load(x[j])))
        return out

    return kernel


def test_what_a_loop_loads_again_is_loaded_once():
    x = numbers(2, P, 512)
    kernel = nki.jit(rounds(512, 3))
    assert (np.abs(kernel(x) - np.exp(x)) < 1e-3).all()
    assert report(kernel, x).hbm_read_bytes == x.nbytes


def test_unless_sbuf_does_not_hold_it():
    x = numbers(4, P, 14336)  # four tiles of 56 KiB a partition
    assert report(nki.jit(rounds(14336, 3, 4)), x).hbm_read_bytes == 3 * x.nbytes


def test_nor_where_the_kernel_asks_for_it_as_it_is():
    x = numbers(2, P, 512)
    kernel = nki.jit(ncc.skip_middle_end_transformations(rounds(512, 3)))
    assert report(kernel, x).hbm_read_bytes == 3 * x.nbytes


@nki.jit
def two_loops(x):
    """The first loop passes 224 KiB a partition to the second: SBUF has 192."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    kept = nl.ndarray((4, nl.par_dim(P), 14336), dtype=x.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(4):
        kept[i] = nl.exp(nl.load(x[i]))
    for i in nl.affine_range(4):
        nl.store(out[i], nl.multiply(kept[i], 2.0))
    return out


def test_loops_that_pass_on_more_than_sbuf_holds_are_one():
    x = numbers(4, P, 14336)
    found = report(two_loops, x)
    assert (found.hbm_read_bytes, found.spill_save_bytes) == (x.nbytes, 0)
    assert (np.abs(two_loops(x) - 2 * np.exp(x)) < 1e-3 * np.exp(x)).all()


def product(depth):
    """rowsᵀ · columns, where all of columns is loaded before the loop over the rows."""

    @nki.jit
    def kernel(rows, columns):
        blocks, width = rows.shape[2] // P, columns.shape[2]
        out = nl.ndarray((blocks, P, width), dtype=rows.dtype, buffer=nl.shared_hbm)
        right = nl.ndarray((depth, nl.par_dim(P), width), dtype=rows.dtype, buffer=nl.sbuf)
        for k in nl.affine_range(depth):
            right[k] = nl.load(columns[k])
        for b in nl.affine_range(blocks):
            left = nl.ndarray((depth, nl.par_dim(P), P), dtype=rows.dtype, buffer=nl.sbuf)
            for k in nl.affine_range(depth):
                left[k] = nl.load(rows[k, :, b * P : (b + 1) * P])
            whole = nl.ndarray((nl.par_dim(P), width), dtype=rows.dtype, buffer=nl.sbuf)
            for n in nl.affine_range(width // 512):
                sums = nl.zeros((nl.par_dim(P), 512), dtype=np.float32, buffer=nl.psum)
                for k in nl.affine_range(depth):
                    sums += nisa.nc_matmul(left[k], right[k, :, n * 512 : (n + 1) * 512])
                whole[:, n * 512 : (n + 1) * 512] = nl.copy(sums)
            nl.store(out[b], whole)
        return out

    return kernel


def test_an_operand_that_stays_is_loaded_once():
    rows, columns = numbers(8, P, 2 * P), numbers(8, P, 1024, seed=2)
    kernel = product(8)
    want = np.einsum("kpm,kpn->mn", rows, columns).reshape(2, P, 1024)
    assert np.abs(kernel(rows, columns) - want).max() < 1e-2
    assert report(kernel, rows, columns).hbm_read_bytes == rows.nbytes + columns.nbytes


def test_an_operand_that_leaves_no_room_comes_again_for_each_block_of_rows():
    rows, columns = numbers(46, P, 3 * P), numbers(46, P, 1024, seed=2)  # 184 KiB a partition stay through the loop
    found = report(product(46), rows, columns)
    assert found.hbm_read_bytes == rows.nbytes + 3 * columns.nbytes  # all of it, for each of three blocks
    assert found.spill_save_bytes == 0


def test_what_is_computed_by_turns_is_computed_again():
    """Two tiles in an inner loop: their products are made in every round of the outer one, out of loads that are made once."""

    @nki.jit
    def kernel(x):
        out = nl.ndarray((3, 2, P, 512), dtype=x.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(3):
            for j in nl.affine_range(2):
                tile = nl.load(x[j])
                nl.store(out[i, j], nisa.tensor_tensor(tile, tile, op=nl.multiply))
        return out

    found = report(kernel, numbers(2, P, 512))
    assert found.hbm_read_bytes == 2 * P * 512 * 4
    assert found.engines["vector"].instructions == 6


def test_two_rows_spread_on_one_line_are_spread_once_each():
    """Scale and shift of a norm, both broadcast on one line: no round changes either, so neither is made in a round."""

    @nki.jit
    def kernel(x, scale, shift):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        a, b = nl.load(scale), nl.load(shift)
        for i in nl.affine_range(x.shape[0]):
            tile = nl.load(x[i])
            nl.store(out[i], nl.add(nl.multiply(tile, a.broadcast_to((P, 512))), b.broadcast_to((P, 512))))
        return out

    x, scale, shift = numbers(4, P, 512), numbers(1, 512, seed=2), numbers(1, 512, seed=3)
    assert np.abs(kernel(x, scale, shift) - (x * scale + shift)).max() < 1e-3
    assert report(kernel, x, scale, shift).engines["tensor"].instructions == 2  # eight where each round makes them


def test_of_what_waits_the_cheapest_leaves_and_sums_stay():
    """A selective scan over tiles of 32 KiB a partition: its inputs come again for every state, its sums are never saved."""
    path = Path(__file__).resolve().parents[3] / "examples/nki/functional/scan.py"
    spec = importlib.util.spec_from_file_location("functional_scan", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    delta, states = numbers(1, P, 8192), numbers(1, 6, 8192)
    found = report(module.channels_outside, delta, delta, numbers(P, 6), states, states)
    assert found.spill_save_bytes <= delta.nbytes
    assert found.hbm_read_bytes > 6 * delta.nbytes


def test_spilled_bytes_stand_in_the_report():
    @nki.jit
    def spills(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        kept = nl.ndarray((4, nl.par_dim(P), 14336), dtype=x.dtype, buffer=nl.sbuf)
        most = nl.ndarray((nl.par_dim(P), 4), dtype=x.dtype, buffer=nl.sbuf)
        for i in nl.affine_range(4):
            kept[i] = nl.exp(nl.load(x[i]))
            most[:, i] = nisa.tensor_reduce(nl.max, kept[i], axis=(1,))
        high = nisa.tensor_reduce(nl.max, most, axis=(1,))
        for i in nl.affine_range(4):
            nl.store(out[i], nl.subtract(kept[i], high))
        return out

    found = report(spills, numbers(4, P, 14336))
    assert found.spill_save_bytes > 0 and found.spill_reload_bytes > 0
    assert "spilled" in str(found) and '"spill_save_bytes"' in found.to_json()
