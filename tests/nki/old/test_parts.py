"""What masks and parts of tiles do to the recorded instructions, and where results are written."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python/compat"))

import neuronxcc.nki as nki  # noqa: E402
import neuronxcc.nki.compiler as ncc  # noqa: E402
import neuronxcc.nki.isa as nisa  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402
from trine.nki.old.index import Index, Mask, arange, mgrid  # noqa: E402


def numbers(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def text_of(kernel, *args, chip="trn2"):
    return kernel.compiled(chip, args, {})[0].program.disassemble()


# --- index expressions ---


def as_array(index):
    """What an index expression stands for, element by element."""
    out = np.full(index.shape, index.const)
    for d, (c, n) in enumerate(zip(index.coefs, index.shape)):
        out = out + c * np.arange(n).reshape([-1 if k == d else 1 for k in range(index.ndim)])
    return out


def test_index_arithmetic_is_numpys():
    i, j = arange(4)[:, None], arange(2, 5)[None, :]
    a, b = np.arange(4)[:, None], np.arange(2, 5)[None, :]
    for ours, want in ((3 * i + j - 1, 3 * a + b - 1), (7 - i, 7 - a), (-j, -b), ((4 * i + 6) // 2, (4 * a + 6) // 2),
                       ((4 * i + 6) % 4, (4 * a + 6) % 4 + 0 * a)):  # fmt: skip
        assert (as_array(ours) == want).all() and ours.limits() == (want.min(), want.max())
    p, x = mgrid[0:8, 2:10:2]
    assert p.grid == x.grid == (8, 4) and (as_array(x) == np.mgrid[0:8, 2:10:2][1][:1]).all()


@pytest.mark.parametrize("seed", range(40))
def test_a_mask_is_the_box_of_its_elements(seed):
    rng = np.random.default_rng(seed)
    shape = rng.integers(1, 7, 2)
    i, j = arange(shape[0])[:, None], arange(shape[1])[None, :]
    a, b = np.arange(shape[0])[:, None], np.arange(shape[1])[None, :]
    c, d, e, f = (int(v) for v in rng.integers(-4, 5, 4))
    mask = (c * i + d < 3) & (e * j + f >= -2)
    inside = (c * a + d < 3) & (e * b + f >= -2)
    box = mask.region(tuple(shape))
    if box is None:
        assert not inside.any()
        return
    want = np.zeros(shape, bool)
    want[box[0][0] : box[0][1], box[1][0] : box[1][1]] = True
    assert (want == inside).all()


def test_a_mask_of_numbers_is_a_condition():
    assert Mask([Index((), (), 0)]) and not Mask([Index((), (), -1)])
    assert (arange(4) < 9) and not (arange(4) > 9)


# --- what is recorded ---


def test_a_masked_load_is_worked_on_in_part():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        i, j = nl.arange(128)[:, None], nl.arange(512)[None, :]
        inside = (i < 100) & (j < 300)
        tile = nl.load(a[i, j], mask=inside)
        nl.store(out[i, j], nl.exp(tile) + 1.0, mask=inside)
        return out

    a = numbers(100, 300)
    np.testing.assert_allclose(kernel(a), np.exp(a) + 1, rtol=1e-5)
    text = text_of(kernel, a)
    assert text.count("0:100, 0, 300@1") >= 4 and "512@1" not in text


def test_a_masked_call_leaves_the_rest_as_it_was():
    @nki.jit
    def kernel(a):
        out = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.shared_hbm)
        i, j = nl.mgrid[0:128, 0:64]
        tile = nl.full((128, 64), 5.0, dtype=a.dtype)
        tile[i, j] = nl.load(a[i, j], mask=(i >= 64) & (j < 10))
        nl.store(out, tile)
        return out

    a = numbers(128, 64)
    want = np.full_like(a, 5)
    want[64:, :10] = a[64:, :10]
    assert (kernel(a) == want).all()


def test_reductions_of_a_part():
    @nki.jit
    def kernel(a):
        sums, tops, means = (nl.ndarray((128, 1), dtype=a.dtype, buffer=nl.shared_hbm) for _ in range(3))
        j = nl.arange(64)[None, :]
        tile = nl.load(a)
        nl.store(sums, nl.sum(tile, axis=1, mask=(j < 10)))
        nl.store(tops, nl.max(tile, axis=[1], mask=(j >= 60)))
        nl.store(means, nl.mean(tile, axis=1, mask=(j < 20)))
        return sums, tops, means

    a = numbers(128, 64)
    sums, tops, means = kernel(a)
    np.testing.assert_allclose(sums[:, 0], a[:, :10].sum(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(means[:, 0], a[:, :20].mean(1), rtol=1e-5, atol=1e-6)
    assert (tops[:, 0] == a[:, 60:].max(1)).all()


def test_a_call_whose_mask_holds_nowhere_is_not_made():
    @nki.jit
    def kernel(a, steps):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        state = nl.zeros(a.shape, dtype=a.dtype)
        i = nl.arange(128)[:, None]
        for step in nl.sequential_range(steps):
            state[...] = nl.add(state, nl.load(a, mask=step < 2), mask=step < 2)
            state += nl.load(a, mask=(i + 1000 * step < 2000))
        nl.store(out, state)
        return out

    a = numbers(128, 16)
    np.testing.assert_allclose(kernel(a, 4), 4 * a, rtol=1e-6)
    assert text_of(kernel, a, 4) == text_of(kernel, a, 4)


def test_and_joins_masks_too():
    @nki.jit
    def kernel(a, n=5):
        out = nl.ndarray((128, 8), dtype=a.dtype, buffer=nl.shared_hbm)
        i, j = nl.mgrid[0:128, 0:8]
        tile = nl.zeros((128, 8), dtype=a.dtype)
        tile[i, j] = nl.load(a[i, j], mask=(i < 100 and j < n))
        if n and not n == 7:
            nl.store(out, tile)
        return out

    a = numbers(128, 8)
    got = kernel(a)
    assert (got[:100, :5] == a[:100, :5]).all() and (got[100:] == 0).all() and (got[:, 5:] == 0).all()


@nki.jit
def mentions_itself(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name=mentions_itself.__name__)
    nl.store(out, nl.load(a) if a.shape[0] > 1 and a.shape[1] > 1 else a)
    return out


def test_and_in_a_kernel_that_mentions_itself():
    a = numbers(128, 8)
    assert (mentions_itself(a) == a).all()


def test_a_partial_tile_stored_whole_leaves_holes_and_says_so():
    @nki.jit
    def kernel(a):
        out = nl.ndarray((128, 8), dtype=a.dtype, buffer=nl.shared_hbm)
        i, j = nl.mgrid[0:128, 0:8]
        nl.store(out, nl.load(a[i, j], mask=(i < 100)))
        return out

    a = numbers(128, 8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert (kernel(a)[:100] == a[:100]).all()
    assert "never written" in str(caught[0].message)


# --- where results go ---


def test_results_are_written_where_they_are_assigned():
    @nki.jit
    def kernel(a):
        out = nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.shared_hbm)
        tile = nl.ndarray((nl.par_dim(128), 2, 64), dtype=a.dtype)
        for k in nl.affine_range(2):
            tile[:, k, :] = nl.load(a[:, nl.ds(64 * k, 64)])
        result = nl.ndarray((128, 64), dtype=nl.bfloat16)
        result[...] = nl.add(tile[:, 0, :], tile[:, 1, :])
        nl.store(out, result)
        return out

    a = numbers(128, 128)
    np.testing.assert_allclose(kernel(a).astype(np.float32), a[:, :64] + a[:, 64:], rtol=2**-7, atol=2**-7)
    assert "tensor_copy" not in text_of(kernel, a)


def test_a_named_dtype_is_rounded_to_before_it_is_widened():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        wide = nl.ndarray(a.shape, dtype=nl.float32)
        wide[...] = nl.multiply(nl.load(a), 3.0, dtype=nl.bfloat16)
        nl.store(out, wide)
        return out

    a = numbers(128, 16)
    assert (kernel(a) == nl.static_cast(a * np.float32(3), nl.bfloat16).astype(np.float32)).all()


def test_zeros_in_psum_are_made_where_nothing_was_added():
    @nki.jit
    def kernel(a, b, parts):
        out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        x, y = nl.load(a), nl.load(b)
        total = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
        for n in nl.affine_range(parts):
            for _ in nl.affine_range(2):
                total[:, nl.ds(128 * n, 128)] += nisa.nc_matmul(x, y[:, nl.ds(128 * n, 128)])
        nl.store(out, total)
        return out

    a, b = numbers(128, 128), numbers(128, 512, seed=2)
    want = 2 * a.T @ b
    np.testing.assert_allclose(kernel(a, b, 4), want, rtol=1e-4, atol=1e-4)
    assert "memset" not in text_of(kernel, a, b, 4)
    want[:, 256:] = 0
    np.testing.assert_allclose(kernel(a, b, 2), want, rtol=1e-4, atol=1e-4)
    assert text_of(kernel, a, b, 2).count("memset") == 1


def test_a_transpose_widens_in_psum():
    @nki.jit
    def kernel(a):
        out = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.shared_hbm)
        bank = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.psum)
        bank[...] = nisa.nc_transpose(nl.load(a))
        nl.store(out, bank)
        return out

    a = nl.static_cast(numbers(128, 64), nl.bfloat16)
    for chip in ("trn1", "trn2"):
        simulated = nki.jit(kernel.fn, platform_target=chip)
        assert (simulated(a) == a.astype(np.float32).T).all()


def test_loop_reduce_puts_iterations_together():
    @nki.jit
    def kernel(a):
        out = nl.ndarray((2, 128, 8), dtype=a.dtype, buffer=nl.shared_hbm)
        for group in nl.affine_range(2):
            for k in nl.affine_range(3):
                tile = nl.load(a[group, k])
                top = nl.loop_reduce(tile, op=np.maximum, loop_indices=[k], dtype=nl.float32)
            nl.store(out[group], top)
        return out

    a = numbers(2, 3, 128, 8)
    assert (kernel(a) == a.max(1)).all()


def test_loop_reduce_over_an_outer_loop():
    @nki.jit
    def kernel(a):
        out = nl.ndarray((2, 3, 128, 8), dtype=a.dtype, buffer=nl.shared_hbm)
        head = nl.program_id(0)
        sums = nl.zeros((3, nl.par_dim(128), 8), dtype=a.dtype)
        for k in nl.affine_range(3):
            for q in nl.affine_range(3):
                if q >= k:  # as tiles above a causal diagonal are left out
                    sums[q] = nl.loop_reduce(nl.load(a[head, q, k]), op=np.add, loop_indices=(k,), dtype=nl.float32)
        for q in nl.affine_range(3):
            nl.store(out[head, q], sums[q])
        return out

    a = numbers(2, 3, 3, 128, 8)
    want = np.stack([a[:, q, : q + 1].sum(1) for q in range(3)], 1)
    assert np.allclose(kernel[2](a), want, atol=1e-6)


def test_offsets_that_the_machine_reads():
    @nki.jit(platform_target="trn2")
    def kernel(a, starts):
        out = nl.ndarray((128, 4, 2), dtype=a.dtype, buffer=nl.shared_hbm)
        tile, at = nl.load(a), nl.load(starts)
        kept = nl.ndarray((128, 4, 2), dtype=a.dtype)
        i, _, j = nl.mgrid[0:128, 0:1, 0:2]
        p, w = nl.mgrid[0:128, 0:2]
        for k in nl.affine_range(4):
            kept[p, k, w] = nisa.tensor_copy_dynamic_src(tile[p, at[0, k] + w])
        nl.store(out, kept)
        return out

    a, starts = numbers(128, 64), np.array([[3, 60, 0, 17]], np.int32)
    want = np.stack([a[:, s : s + 2] for s in starts[0]], 1)
    assert (kernel(a, starts) == want).all()


def test_scatter_with_addition():
    @nki.jit(platform_target="trn2")
    def kernel(table, index, values):
        out = nl.ndarray(table.shape, dtype=table.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(table))
        f = nl.arange(table.shape[1])[None, :]
        nl.atomic_rmw(out[nl.load(index), f], value=nl.load(values), op=np.add)
        return out

    table, values = numbers(128, 32), numbers(64, 32, seed=2)
    index = np.random.default_rng(3).permutation(128)[:64].astype(np.int32)[:, None]
    want = table.copy()
    want[index[:, 0]] += values
    np.testing.assert_allclose(kernel(table, index, values), want, rtol=1e-6)


def test_addresses_counted_up_in_a_loop_count_once():
    def fn(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        at = 0
        for i in nl.affine_range(a.shape[0] // 128):
            tile = nl.ndarray((128, 64), dtype=a.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=at))
            at += 256
            parts = nl.ndarray((2, nl.par_dim(128), 64), dtype=a.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=at, num_free_tiles=(2,)))
            at += 512
            tile[...] = nl.load(a[nl.ds(i * 128, 128), :])
            for k in nl.static_range(2):
                parts[k] = nl.multiply(tile, 2.0 + k)
            tile[...] = nl.add(parts[0], parts[1])
            nl.store(out[nl.ds(i * 128, 128), :], tile)
        return out

    a = numbers(1024, 64)
    kernel = nki.jit(fn)
    np.testing.assert_allclose(kernel(a), 5 * a, rtol=1e-6)
    text = text_of(kernel, a)
    assert {word.split()[0] for word in text.split(" at ")[1:] if word[0] == "0"} == {"0:0", "0:256", "0:512"}
    free = ncc.force_auto_alloc(kernel)
    np.testing.assert_allclose(free(a), 5 * a, rtol=1e-6)
    assert free.compiled("trn2", (a,), {})[0] is not kernel.compiled("trn2", (a,), {})[0]


def test_slices_past_the_end_are_cut_by_the_mask():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        rows = nl.arange(128)[:, None]
        for t in nl.affine_range(2):
            here = t * 128 + rows < 200
            tile = nl.ndarray((128, 8), dtype=a.dtype)
            nisa.dma_copy(dst=tile, src=a[t * 128 : t * 128 + 128, :], mask=here)
            nl.store(out[nl.ds(t * 128, 128)], nl.multiply(tile, 2.0, mask=here), mask=here)
        return out

    x = np.arange(1600, dtype=np.float32).reshape(200, 8)
    assert (kernel(x) == 2 * x).all()


def test_long_access_patterns_become_several_instructions():
    """The eight shifted copies of a volume, as in trilinear upscaling: six free dimensions on both sides."""

    @nki.jit
    def kernel(a):
        out = nl.ndarray((128, 4, 6, 10), dtype=a.dtype, buffer=nl.shared_hbm)
        tile, wide = nl.load(a), nl.zeros((128, 4, 6, 10), dtype=a.dtype)
        p, dx, hx, wx, d, h, w = nl.mgrid[0:128, 0:2, 0:2, 0:2, 0:2, 0:3, 0:5]
        wide[p, 2 * d + dx, 2 * h + hx, 2 * w + wx] = 2 * tile[p, d + dx, h + hx, w + wx] + tile[p, d, h, w]
        nl.store(out, wide)
        return out

    a = numbers(128, 3, 4, 6)
    want = np.zeros((128, 4, 6, 10), np.float32)
    for dx, hx, wx in np.ndindex(2, 2, 2):
        here = a[:, dx : dx + 2, hx : hx + 3, wx : wx + 5]
        want[:, dx::2, hx::2, wx::2] = 2 * here + a[:, :2, :3, :5]
    assert np.allclose(kernel(a), want, atol=1e-6)
    assert np.allclose(kernel[0](a), want, atol=1e-6)  # one program


def test_a_transpose_inside_partitions_is_written_whole():
    """Two index dimensions in one of the tile's; the last 22 of 150 images by a mask."""

    @nki.jit
    def kernel(a):
        images, rows, columns = a.shape
        out = nl.ndarray((images, columns, rows), dtype=a.dtype, buffer=nl.shared_hbm)
        p, i, j = nl.mgrid[0:128, 0:rows, 0:columns]
        for t in nl.affine_range(2):
            here = t * 128 + p < images
            tile = nl.load(a[nl.ds(t * 128, 128)], mask=here).reshape((128, rows * columns))
            turned = nl.ndarray((128, rows * columns), dtype=a.dtype)
            turned[p, j * rows + i] = nl.copy(tile[p, i * columns + j], mask=here)
            q = nl.arange(128)[:, None, None]
            nl.store(out[nl.ds(t * 128, 128)], turned.reshape((128, columns, rows)), mask=t * 128 + q < images)
        return out

    a = numbers(150, 7, 9)
    assert (kernel(a) == a.transpose(0, 2, 1)).all()


def test_operands_of_different_rank():
    @nki.jit
    def kernel(a, b):
        out = nl.ndarray(b.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(a) + nl.load(b))
        return out

    a, b = numbers(128, 6), numbers(128, 4, 6, seed=2)
    assert (kernel(a, b) == a[:, None] + b).all()


def test_where_of_a_whole_tile_and_a_part():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        p, f = nl.mgrid[0:128, 0:8]
        here = p < 100
        part, full = nl.load(a[p, f], mask=here), nl.ones((128, 8), dtype=a.dtype)
        chosen = nl.where(nl.greater(part, 0), full, part)
        nl.store(out[p, f], nl.copy(chosen) * 2, mask=here)
        return out

    a = numbers(100, 8)
    assert (kernel(a) == 2 * np.where(a > 0, 1, a)).all()


@pytest.mark.parametrize("chip", ["trn1", "trn2"])
def test_a_transposing_multiply_may_widen(chip):
    """attn_fwd of the tutorials: v in bf16 is transposed into an f32 tensor in PSUM."""

    @nki.jit(platform_target=chip)
    def widen(x):
        out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        wide = nl.ndarray((2, nl.par_dim(128), 64), dtype=nl.float32, buffer=nl.psum)
        identity = nl.load(nl.shared_constant(np.identity(64, dtype=nl.bfloat16)))
        wide[1] = nisa.nc_matmul(nl.load(x, dtype=nl.bfloat16), identity, is_transpose=True, is_moving_onezero=True)
        nl.store(out, nl.copy(wide[1]))
        return out

    x = np.round(numbers(64, 128) * 8)
    np.testing.assert_array_equal(widen(x), x.T)


def test_a_row_in_hbm_is_repeated_by_the_load():
    @nki.jit
    def scaled(x, gamma):
        out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        rows = nl.load(gamma.reshape((1, 64)).broadcast_to((128, 64)))
        nl.store(out, nl.multiply(nl.load(x), rows))
        return out

    x, gamma = numbers(128, 64), numbers(64, seed=2)
    np.testing.assert_array_equal(scaled(x, gamma), x * gamma)
