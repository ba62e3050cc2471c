"""Small kernels, one for each mechanism of docs/decisions/20261117-time-of-kernels.md; each fails without it."""

import json

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import pytest

from trine.nki import shape
from trine.reports import report

TRN1, TRN2 = "trn1.2xlarge", "trn2.3xlarge"
I, J = nl.arange(128)[:, None], nl.arange(512)[None, :]


@nki.jit
def drain(w, x):
    """A multiply, and its result out of PSUM by a copy whose engine nobody names."""
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    a, b = nl.load(w), nl.load(x)
    nl.store(out, nl.copy(nisa.nc_matmul(a, b)))
    return out


@nki.jit
def scaled(x, y):
    """A tile times a constant, which Scalar does as well, and at once a product of tiles, which only Vector does."""
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    a, b = nl.load(x), nl.load(y)
    nl.store(out, nl.multiply(a, nisa.tensor_scalar(b, nl.multiply, 0.1)))
    return out


@nki.jit
def drains(w, x):
    """Transposes and multiplies, one after the other; Scalar drains each before the next is over."""
    out = nl.ndarray((16, 128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    for first in range(0, 16, 4):
        b = nl.load(x)
        left = [nl.copy(nisa.nc_transpose(nl.load(w[i]), engine=nisa.tensor_engine)) for i in range(first, first + 4)]
        for i, a in enumerate(left):
            nl.store(out[first + i], nl.copy(nisa.nc_matmul(a, b)))
    return out


@nki.jit
def behind(w, x):
    """Products, each drained and then scaled three times, so that Scalar has far more to do than anybody."""
    out = nl.ndarray((16, 128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    b = nl.load(x)
    for i in range(16):
        tile = nl.copy(nisa.nc_matmul(nl.load(w[i]), b))
        for factor in (0.5, 0.25, 0.125):
            tile = nisa.tensor_scalar(tile, nl.multiply, factor)
        nl.store(out[i], tile)
    return out


@nki.jit
def inverse(x):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nisa.reciprocal(nl.load(x)))
    return out


@nki.jit
def spread(row, x):
    """One row times every row."""
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nisa.tensor_tensor(nl.load(x), nl.load(row).broadcast_to((128, 512)), op=nl.multiply))
    return out


def engines(kernel, instance, *shapes):
    made = report(kernel, instance=instance, **dict(zip(kernel._signature.parameters, map(shape, shapes))))
    return json.loads(made.to_json())["engines"]


def busy(found, engine):
    return found[engine]["busy_ns"], found[engine]["instructions"]


def test_a_copy_that_nobody_placed_is_scalar_s_on_trn1():
    found = engines(drain, TRN1, (128, 128), (128, 512))
    assert busy(found, "vector") == (0, 0)
    assert busy(found, "scalar") == (pytest.approx((512 + 60) / 1.4, rel=1e-3), 1)


def test_scalar_keeps_its_drains_on_trn1_however_far_it_is_behind():
    assert busy(engines(drains, TRN1, (16, 128, 64), (64, 512)), "vector") == (0, 0)
    found = engines(behind, TRN1, (16, 128, 128), (128, 512))
    assert found["scalar"]["instructions"] == 64 and found["vector"]["instructions"] == 0
    assert found["scalar"]["busy_ns"] > 1.5 * found["tensor"]["busy_ns"]
    assert engines(behind, TRN2, (16, 128, 128), (128, 512))["vector"]["instructions"] > 0


def test_a_product_with_a_constant_is_scalar_s_and_goes_on_through_psum():
    found = engines(scaled, TRN1, (128, 512), (128, 512))
    assert found["scalar"]["instructions"] == 1
    assert busy(found, "vector") == (pytest.approx((512 + 60) / 1.12, rel=1e-3), 1)  # 1,024 with both inputs in SBUF


def test_a_reciprocal_takes_what_profiles_show_and_not_eight_cycles_an_element():
    assert busy(engines(inverse, TRN1, (128, 512)), "vector")[0] == pytest.approx((2.7 * 512 + 60) / 1.12, rel=1e-3)


def test_a_row_reaches_all_partitions_by_a_multiply_and_not_through_vector():
    found = engines(spread, TRN1, (1, 512), (128, 512))
    assert found["tensor"]["instructions"] == 1
    assert busy(found, "vector")[0] < (1024 + 60 + 128 + 60 + 1) / 1.12  # the product, and the ones


@pytest.mark.parametrize("instance, cycles, clock", [(TRN1, 4 * (512 + 128), 2.8), (TRN2, 4 * 512, 2.4)])
def test_weights_of_f32_load_behind_a_multiply_from_v3_on(instance, cycles, clock):
    def made(n):
        @nki.jit
        def many(w, x):
            out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
            a, b, total = nl.load(w), nl.load(x), nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
            for _ in range(n):
                total += nisa.nc_matmul(a, b)
            nl.store(out, nl.copy(total))
            return out

        return report(many, instance=instance, w=shape((128, 128)), x=shape((128, 512))).time_ns

    assert (made(60) - made(40)) / 20 == pytest.approx(cycles / clock, rel=1e-3)


def made_of_tiles(n):
    @nki.jit
    def scaled_tiles(x):
        out = nl.ndarray((n, 128, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        for i in nl.affine_range(n):
            nl.store(out[i], nl.multiply(nl.load(x[i]), 0.5))
        return out

    return report(scaled_tiles, instance=TRN2, x=shape((n, 128, 4))).time_ns


def test_on_trn2_loads_and_stores_of_the_functional_dialect_have_one_issuer():
    assert (made_of_tiles(120) - made_of_tiles(80)) / 40 == pytest.approx(2 * 600, rel=0.02)


@nki.jit
def nested(x, y, z):
    """The inner of two products on one line is the same in every round, the outer is not."""
    out = nl.ndarray((16, 128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    a, b = nl.load(x), nl.load(y)
    for i in nl.affine_range(16):
        other = nl.load(z[i])
        nl.store(out[i], nl.multiply(nl.multiply(a, b), other))
    return out


def test_of_two_calls_on_a_line_the_one_that_stays_alike_is_made_once():
    assert engines(nested, TRN1, (128, 512), (128, 512), (16, 128, 512))["vector"]["instructions"] == 17


@nki.jit
def scale_rows(x):
    """Each row over its root mean square, in x's own dtype."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    factor = nl.rsqrt(nl.mean(nl.square(tile), axis=1, keepdims=True))
    nl.store(out, nl.multiply(tile, factor))
    return out


def test_rsqrt_of_the_functional_dialect_is_one_activation():
    found = engines(scale_rows, TRN1, (128, 512))
    assert found["gpsimd"]["instructions"] == 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_column_of_any_float_is_an_operand_and_no_tile(dtype):
    made = report(scale_rows, instance=TRN1, x=shape((128, 512), dtype)).engines["vector"]
    assert made.busy_ns == pytest.approx((512 + 60) / 1.12, rel=1e-2)  # the sum; Scalar multiplies, as it does by a number


@nki.jit
def product(w, x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nisa.nc_matmul(nl.load(w), nl.load(x)))
    return out


def test_what_is_stored_from_psum_is_cast_before_the_dma_engines_move_it():
    made = report(product, instance=TRN1, w=shape((128, 128), "bfloat16"), x=shape((128, 512), "bfloat16"))
    assert made.sbuf_write_bytes == 2 * (128 * 128 + 128 * 512 + 128 * 512)


@nki.jit
def wide_layer_norm(x, scale, shift):
    rows, n = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    scales, shifts = (nl.load(v).broadcast_to((128, n)) for v in (scale, shift))
    for i in nl.affine_range(rows // 128):
        tile = nl.load(x[i * 128 : (i + 1) * 128])
        mean = nl.mean(tile, axis=1, keepdims=True)
        spread = nl.mean(nl.square(tile - mean), axis=1, keepdims=True)
        nl.store(out[i * 128 : (i + 1) * 128], (tile - mean) * nl.rsqrt(spread + 1e-5) * scales + shifts)
    return out


def test_what_fits_into_sbuf_once_is_not_spilled_for_being_too_large_to_lie_there_twice():
    made = report(wide_layer_norm, instance=TRN1, x=shape((512, 8192)), scale=shape((1, 8192)), shift=shape((1, 8192)))
    assert made.spill_save_bytes == made.spill_reload_bytes == 0


@pytest.mark.parametrize("instance", [TRN1, TRN2])
def test_rows_that_lie_one_after_another_are_transposed_by_all_dma_engines(instance):
    def made(columns):
        @nki.jit
        def transpose(x):
            out = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load_transpose2d(x[:, 0:128]))
            return out

        return report(transpose, instance=instance, x=shape((128, columns), "bfloat16")).time_ns

    assert made(128) <= made(256)


@nki.jit
def attention(q, k, v):
    """Scores of four banks, and sixteen short tiles of PSUM that turn them: the next scores need not wait for these."""
    out = nl.ndarray((q.shape[1], 128), dtype=q.dtype, buffer=nl.shared_hbm)
    keys, values = nl.load(k), [nl.load(v[c * 128 : (c + 1) * 128]) for c in range(16)]
    for i in nl.affine_range(q.shape[1] // 128):
        queries, scores = nl.load(q[:, i * 128 : (i + 1) * 128]), nl.ndarray((nl.par_dim(128), 2048), dtype=nl.float32)
        for j in nl.affine_range(4):
            scores[:, j * 512 : (j + 1) * 512] = nl.copy(nisa.nc_matmul(queries, keys[:, j * 512 : (j + 1) * 512]))
        powers = nl.exp(scores - nl.max(scores, axis=1, keepdims=True))
        shares = nl.multiply(powers, 1.0 / nl.sum(powers, axis=1, keepdims=True))
        total = nl.zeros((128, 128), dtype=nl.float32, buffer=nl.psum)
        for c in nl.affine_range(16):
            total += nisa.nc_matmul(nl.copy(nisa.nc_transpose(shares[:, c * 128 : (c + 1) * 128])), values[c])
        nl.store(out[i * 128 : (i + 1) * 128], total)
    return out


def test_short_tiles_of_psum_do_not_stand_in_the_way_of_long_ones():
    made = report(attention, instance=TRN1, q=shape((128, 2048)), k=shape((128, 2048)), v=shape((2048, 128)))
    assert made.time_ns - 18000 < 1.15 * made.engines["tensor"].busy_ns
