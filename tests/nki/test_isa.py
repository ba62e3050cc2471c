"""nki.isa calls that the language and the examples do not reach, against NumPy; and that all of NKI 0.6 is there."""

import inspect
import re

import ml_dtypes
import numpy as np
import pytest

import trine.nki as nki
import trine.nki.isa as nisa
import trine.nki.language as nl
from trine.nki import isa_rows, machine
from trine.nki.old import isa as old_isa

BF16 = ml_dtypes.bfloat16
DOCUMENTED = """activate2 activation activation_reduce affine_select bn_aggr bn_stats core_barrier dma_compute dma_copy
  dma_transpose dropout exponential get_nc_sub_version get_nc_version iota local_gather max8 memset nc_find_index8
  nc_match_replace8 nc_matmul nc_matmul_mx nc_n_gather nc_stream_shuffle nc_transpose nonzero_with_count quantize_mx rand2
  rand_get_state rand_set_state range_select reciprocal register_alloc register_load register_move register_store rng
  scalar_tensor_tensor select_reduce sendrecv sequence_bounds set_rng_seed tensor_copy tensor_copy_predicated
  tensor_partition_reduce tensor_reduce tensor_scalar tensor_scalar_cumulative tensor_scalar_reduce tensor_tensor
  tensor_tensor_scan topk""".split()


def on(chip, monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", chip)


@pytest.fixture(autouse=True)
def newest(monkeypatch):
    on("trn3", monkeypatch)


def run(f, *arrays, shape=None, dtype=None):
    """f(dst, *tiles) into a tile of shape and dtype (those of the first array by default)."""

    @nki.jit
    def kernel(*given):
        tiles = [nl.load(g) for g in given]
        dst = nl.ndarray(shape or given[0].shape, dtype or given[0].dtype, buffer=nl.sbuf)
        f(dst, *tiles)
        out = nl.ndarray(dst.shape, dst.dtype, buffer=nl.shared_hbm)
        nl.store(out, dst)
        return out

    return kernel(*arrays)


def numbers(shape=(128, 64), seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_every_documented_function_is_there():
    assert [n for n in DOCUMENTED if not callable(getattr(nisa, n, None))] == []


# Calls that are made from instruction rows, as NKI 0.6 and SDK 2.26 document them.
MADE = """bn_aggr(dst, data, name=None) bn_stats(dst, data, name=None) dropout(dst, data, prob, name=None)
  max8(dst, src, name=None) nc_find_index8(dst, data, vals, name=None)
  nc_match_replace8(dst, data, vals, imm, dst_idx=None, name=None) nc_n_gather(dst, data, indices, name=None)
  nc_stream_shuffle(dst, src, shuffle_mask, name=None)
  nonzero_with_count(dst, src, index_offset=0, padding_val=-1, name=None) quantize_mx(dst, src, dst_scale, name=None)
  rand2(dst, min, max, name=None) rand_get_state(dst, engine=<engine.gpsimd: 3>, name=None)
  rand_set_state(src_seeds, engine=<engine.gpsimd: 3>, name=None) reciprocal(dst, data, name=None)
  rng(dst, engine=<engine.vector: 5>, name=None) sequence_bounds(dst, segment_ids, name=None)
  set_rng_seed(src_seeds, name=None) tensor_partition_reduce(dst, op, data, name=None)
  topk(val_dst, idx_dst, src, n, name=None)"""
MADE_OLD = """bn_aggr(data, *) bn_stats(data, *) dropout(data, prob, *) max8(*, src) nc_find_index8(*, data, vals)
  nc_match_replace8(*, data, vals, imm, dst_idx=None) reciprocal(data, *)"""


def test_calls_made_from_rows_take_what_nki_documents():
    made = {name: name + str(inspect.signature(getattr(nisa, name))) for name in isa_rows.CALLS}
    for text in re.findall(r"\w+\([^)]*\)", MADE):
        assert made[text.split("(")[0]] == text
    for text in re.findall(r"\w+\([^)]*\)", MADE_OLD):
        name, rest = text[:-1].split("(")
        assert str(inspect.signature(getattr(old_isa, name))) == f"({rest}, dtype=None, mask=None, **_)"


def test_a_row_names_its_own_operands_and_attributes():
    for row in machine.rows().values():
        known = {x["name"] for kind in ("operands", "attrs") for x in row[kind]} | {"*", "engine"}
        for words in (row["nki"]["takes"], row["nki"]["old"], row["nki"]["returns"].split(" ")[0]):
            assert {w.split("=")[0] for w in words.split()} <= known, row["name"]
        assert bool(row["nki"]["old"]) == bool(row["nki"]["returns"]), row["name"]


def test_versions():
    seen = []

    @nki.jit
    def kernel(a):
        seen.append((nisa.get_nc_version(), nisa.get_nc_sub_version()))

    for target, version in (("trn1", "gen2"), ("trn2", "gen3"), ("trn3", "gen4")):
        nki.jit(kernel.fn, platform_target=target)(numbers())
        assert seen.pop() == (nisa.nc_version[version], 0)


def test_scans():
    x, y = np.abs(numbers()) / 2, numbers(seed=2)
    got = run(lambda d, a, b: nisa.tensor_tensor_scan(d, a, b, 0.5, nl.multiply, nl.add), x, y)
    want, last = np.empty_like(x), np.full(128, 0.5, np.float32)
    for i in range(64):
        last = want[:, i] = x[:, i] * last + y[:, i]
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
    got = run(lambda d, a: nisa.tensor_scalar_cumulative(d, a, nl.add, nl.max, 1.0), y)
    np.testing.assert_allclose(got, np.maximum.accumulate(y + 1, 1), rtol=1e-6)


def test_scalar_forms():
    x, y = numbers(), numbers(seed=2)
    got = run(lambda d, a: nisa.tensor_scalar(d, a, nl.subtract, 1.0, reverse0=True, op1=nl.maximum, operand1=0.25), x)
    np.testing.assert_allclose(got, np.maximum(1 - x, 0.25), rtol=1e-6)
    got = run(lambda d, a, b: nisa.scalar_tensor_tensor(d, a, nl.multiply, 3.0, nl.subtract, b), x, y)
    np.testing.assert_allclose(got, x * 3 - y, rtol=1e-5, atol=1e-6)


def test_accumulators():
    x = numbers()

    def both(d, a):
        nisa.tensor_scalar_reduce(d[:, 0:64], a, nl.multiply, 2.0, nl.add, reduce_res=d[:, 64:65])
        nisa.activation(d[:, 0:64], nl.square, a, reduce_op=nl.add, reduce_res=d[:, 65:66],
                        reduce_cmd=nisa.reduce_cmd.reset_reduce)  # fmt: skip
        nisa.exponential(d[:, 0:64], a, max_value=1.0, reduce_res=d[:, 66:67], reduce_cmd=nisa.reduce_cmd.reset_reduce)
        nisa.tensor_scalar_reduce(d[:, 0:64], a, nl.add, 0.0, nl.max, reduce_res=d[:, 67:68], reduce_res_negate=True)

    got = run(both, x, shape=(128, 68))[:, 64:]
    want = np.stack([(2 * x).sum(1), (x**2).sum(1), np.exp(x - 1).sum(1), -x.max(1)], 1)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)


def test_selection():
    x, y = numbers(), numbers(seed=2)
    mask = (numbers(seed=3) > 0).astype(np.uint8)
    got = run(lambda d, a, m, b: (nisa.tensor_copy(d, b), nisa.tensor_copy_predicated(d, a, m)), x, mask, y)
    assert (got == np.where(mask, x, y)).all()
    got = run(lambda d, a, m: nisa.select_reduce(d, m, a, -5.0), x, mask)
    assert (got == np.where(mask, x, -5)).all()
    low, high = np.full((128, 1), 10, np.float32), np.full((128, 1), 40, np.float32)
    got = run(lambda d, a, l, h: nisa.range_select(d, a, nl.greater_equal, nl.less, l, h, range_start=2), x, low, high)
    place = np.arange(64) + 2
    assert (got == np.where((place >= 10) & (place < 40), x, np.finfo(np.float32).min)).all()
    got = run(lambda d, a: nisa.affine_select(d, [[-1, 64]], 1, a, 9.0, cmp_op=nl.greater_equal), x)
    assert (got == np.where(np.arange(128)[:, None] >= np.arange(64), x, 9)).all()


def test_index_makers():
    got = run(lambda d: nisa.iota(d, [[100, 4], [1, 16]], offset=7, channel_multiplier=1000), shape=(128, 64), dtype="int32")
    want = 7 + 1000 * np.arange(128)[:, None, None] + 100 * np.arange(4)[:, None] + np.arange(16)
    assert (got == want.reshape(128, 64)).all()


def test_gathers():
    x = numbers()
    index = np.random.default_rng(1).integers(0, 64, (128, 20)).astype(np.uint32)
    got = run(lambda d, a, i: nisa.nc_n_gather(d, a, i), x, index, shape=(128, 20), dtype="float32")
    assert (got == np.take_along_axis(x, index.astype(int), 1)).all()
    small = np.random.default_rng(2).integers(0, 64, (128, 2)).astype(np.uint16)
    got = run(lambda d, a, i: nisa.local_gather(d, a, i), x, small, shape=(128, 32), dtype="float32")
    flat = small.reshape(8, 16, 2).transpose(0, 2, 1).reshape(8, 32).astype(int)
    want = np.concatenate([x[16 * g : 16 * g + 16][:, flat[g]] for g in range(8)])
    assert (got == want).all()


def test_free_dimension_gather():
    x = numbers((16, 64)).astype(BF16)
    index = np.random.default_rng(3).integers(0, 64, (16, 2)).astype(np.uint16)

    def f(d, a, i):
        nisa.tensor_copy(d, a.indirect(i))

    got = run(f, x, index, shape=(16, 32))
    assert (got == x[:, index.T.reshape(-1).astype(int)]).all()


def test_partitions():
    x = numbers((32, 64))
    mask = [(i + 5) % 32 for i in range(32)]
    assert (run(lambda d, a: nisa.nc_stream_shuffle(d, a, mask), x) == x[mask]).all()
    got = run(lambda d, a: nisa.tensor_partition_reduce(d, nl.add, a), x, shape=(1, 64))
    np.testing.assert_allclose(got[0], x.sum(0), rtol=1e-5, atol=1e-5)
    assert (run(lambda d, a: nisa.nc_transpose(d, a), x[:, :32].copy()) == x[:, :32].T).all()


def test_nonzero_and_bounds():
    x = (numbers((128, 40)) > 0.5).astype(np.int32)
    got = run(lambda d, a: (nisa.memset(d, 0), nisa.nonzero_with_count(d, a)), x, shape=(128, 41))
    for p in range(0, 128, 16):
        places = np.flatnonzero(x[p])
        assert got[p, -1] == len(places) and (got[p, : len(places)] == places).all()
    ids = np.array([[1, 1, 2, 2, 2, 0, 0, 3]], np.float32)
    got = run(lambda d, a: nisa.sequence_bounds(d, a), ids, shape=(1, 2, 8))
    assert (got[0] == [[0, 0, 2, 2, 2, 8, 8, 7], [2, 2, 5, 5, 5, -1, -1, 8]]).all()


def test_topk():
    n, k = 64, 8
    x = np.random.default_rng(1).permutation(16 * 4 * 2).astype(BF16).reshape(32, 4)

    @nki.jit
    def kernel(a):
        values, places = nl.ndarray((32, k), nl.bfloat16), nl.ndarray((32, k), nl.uint32)
        nisa.memset(values, 0), nisa.memset(places, 0)
        nisa.topk(values, places, nl.load(a), n)
        out = nl.ndarray((32, k), nl.bfloat16, buffer=nl.shared_hbm)
        nl.store(out, values)
        return out

    snake = x.reshape(2, 16, 4).transpose(0, 2, 1).reshape(2, 64).astype(float)
    got = kernel(x).astype(float)
    for g in range(2):
        seen = got[16 * g : 16 * g + 16]
        assert set(np.sort(snake[g])[-k:]) <= set(seen.reshape(-1))


def test_random_state():
    @nki.jit
    def kernel(seeds):
        out = nl.ndarray((128, 24), nl.uint32, buffer=nl.shared_hbm)
        nisa.rand_set_state(nl.load(seeds), engine=nisa.engine.vector)
        state = nl.ndarray((128, 24), nl.uint32)
        nisa.rand_get_state(state, engine=nisa.engine.vector)
        nl.store(out, state)
        return out

    seeds = np.arange(128 * 24, dtype=np.uint32).reshape(128, 24) + 1
    assert (kernel(seeds) == seeds).all()
    got = run(lambda d: nisa.rng(d), shape=(128, 64), dtype="uint16")
    assert len(np.unique(got)) > 1000


def test_activate2():
    x = numbers()
    got = run(lambda d, a: nisa.activate2(d, nl.exp, a, 2.0, 0.5, nl.multiply, nl.subtract), x)
    np.testing.assert_allclose(got, np.exp(2 * x - 0.5), rtol=1e-5)
    got = run(lambda d, a: nisa.activate2(d, nl.prelu, a, 0.0, 0.0, None, None, relu_param=0.1), x)
    np.testing.assert_allclose(got, np.where(x > 0, x, 0.1 * x), rtol=1e-6)


def test_dma_forms(monkeypatch):
    x = numbers()

    @nki.jit
    def kernel(a, index):
        out = nl.ndarray((128, 64), a.dtype, buffer=nl.shared_hbm)
        total = nl.ndarray((128, 64), a.dtype, buffer=nl.shared_hbm)
        rows, i = nl.ndarray((128, 64), a.dtype), nl.load(index)
        nisa.dma_copy(rows, a.vector_select(0, i))
        nl.store(out, rows)
        nisa.dma_compute(total, [a, out, rows], nl.add)
        return out, total

    index = np.random.default_rng(1).integers(0, 128, (128, 1)).astype(np.int32)
    out, total = kernel(x, index)
    assert (out == x[index[:, 0]]).all()
    np.testing.assert_allclose(total, x + 2 * out, rtol=1e-5, atol=1e-6)


def test_rows_outside_can_be_skipped():
    x = numbers((128, 64))
    index = np.arange(0, 256, 2, dtype=np.int32)[:, None]

    @nki.jit
    def kernel(a, index):
        rows = nl.full((128, 64), -1.0, a.dtype)
        nisa.dma_copy(rows, a.ap([[64, 128], [1, 64]], vector_offset=nl.load(index)), oob_mode=nisa.oob_mode.skip)
        out = nl.ndarray((128, 64), a.dtype, buffer=nl.shared_hbm)
        nl.store(out, rows)
        return out

    want = np.full_like(x, -1)
    want[:64] = x[::2]
    assert (kernel(x, index) == want).all()


def test_accumulate_none_overwrites_first_then_adds():
    """Also where regions overlap in part, as taps of a convolution do."""
    x, w = numbers((32, 40)), numbers((32, 16), 2)

    @nki.jit
    def kernel(a, b):
        moving, stationary = nl.load(a), nl.load(b)
        sums = nl.ndarray((16, 40), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(sums[:, 0:24], stationary, moving[:, 0:24])
        nisa.nc_matmul(sums[:, 8:40], stationary, moving[:, 0:32])  # 8:24 adds, 24:40 is new
        nisa.nc_matmul(sums[:, 0:24], stationary, moving[:, 0:24])
        out = nl.ndarray((16, 40), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.copy(sums))
        return out

    p = w.T @ x
    want = np.zeros((16, 40), np.float32)
    want[:, 0:24] += 2 * p[:, 0:24]
    want[:, 8:40] += p[:, 0:32]
    np.testing.assert_allclose(kernel(x, w), want, rtol=1e-4, atol=1e-4)


def test_double_row():
    x = np.random.default_rng(1).integers(-4, 4, (128, 2, 64)).astype(ml_dtypes.float8_e4m3fn)
    y = np.random.default_rng(2).integers(-4, 4, (128, 2, 32)).astype(ml_dtypes.float8_e4m3fn)

    @nki.jit
    def kernel(a, b):
        sums = nl.ndarray((32, 64), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(sums, nl.load(b), nl.load(a), perf_mode=nisa.matmul_perf_mode.double_row)
        out = nl.ndarray((32, 64), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.copy(sums))
        return out

    want = np.einsum("kti,ktj->ij", y.astype(np.float32), x.astype(np.float32))
    assert (kernel(x, y) == want).all()
