"""@nki.jit itself: arguments, results, the cache, targets, launches on two cores, schedules, printing."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

import trine
import trine.nki as nki
import trine.nki.isa as nisa
import trine.nki.language as nl
from trine import _core
from trine.nki import NkiError, machine


@nki.jit
def add(a, b):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for r in range(0, a.shape[0], 128):
        rows = slice(r, min(r + 128, a.shape[0]))
        nl.store(out[rows, :], nl.add(nl.load(a[rows, :]), nl.load(b[rows, :])))
    return out


def ones(shape=(128, 64), dtype=np.float32):
    return np.ones(shape, dtype)


def test_a_kernel_is_traced_once_per_shape_dtype_target_and_plain_argument():
    traced = []

    @nki.jit
    def kernel(a, scale, sizes=(1, 2)):
        traced.append((a.shape, str(a.dtype), scale, sizes, nisa.get_nc_version().name))
        return add.fn(a, a)

    kernel(ones(), 2)
    kernel(ones() * 3, 2)
    assert len(traced) == 1
    kernel(ones((128, 32)), 2)
    kernel(ones(dtype=np.float16), 2)
    kernel(ones(), 3)
    kernel(ones(), 2, sizes=(1, 3))
    nki.simulate(kernel)(ones(), 2)
    assert len(traced) == 6 and len(set(traced)) == 6


def test_arguments_in_containers_and_by_name():
    @nki.jit
    def kernel(pairs, *, names):
        return [add.fn(a, b) for a, b in pairs] + [add.fn(names["x"], names["x"])]

    got = kernel([(ones(), ones()), (ones((64, 8)), 2 * ones((64, 8)))], names={"x": ones((4, 4)) * 5})
    assert [float(g[0, 0]) for g in got] == [2, 3, 10]


def test_tuples_come_back_as_tuples():
    @nki.jit
    def kernel(a):
        return add.fn(a, a), (add.fn(a, a), [add.fn(a, a)])

    x, (y, [z]) = kernel(ones())
    assert (x == 2).all() and (y == 2).all() and (z == 2).all()


def test_a_kernel_may_write_its_argument():
    @nki.jit
    def kernel(a, out):
        nl.store(out[0:64, :], nl.load(a[0:64, :]))

    out = np.zeros((128, 64), np.float32)
    assert kernel(ones(), out) is None
    assert (out[:64] == 1).all() and (out[64:] == 0).all()

    @nki.jit
    def same(a):
        nl.store(a, nl.multiply(nl.load(a), 2.0))
        return a

    x = ones()
    assert (same(x) == 2).all() and (x == 2).all()


def test_assignment_and_many_rows():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        out[...] = a  # 70,000 rows, HBM to HBM
        tile = nl.ndarray((128, 2), a.dtype)
        tile[:, 0:1] = nl.load(a[0:128, :])
        tile[:, 1:2] = 7.0
        out[0:64, :] = tile[0:64, 1:2]
        return out

    x = np.arange(70000, dtype=np.float32)[:, None]
    got = kernel(x)
    assert (got[:64] == 7).all() and (got[64:] == x[64:]).all()


def test_spellings_of_earlier_versions(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")

    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        ones = nl.ndarray((128, 8), a.dtype)
        nisa.dma_copy(dst=ones, src=nl.shared_constant(np.ones((128, 8), np.int8), dtype=nl.float32))
        tile = nl.ndarray((128, 8), a.dtype)
        nisa.tensor_copy(dst=tile, src=nl.load(a), dtype=a.dtype)
        start = nisa.register_alloc()
        nisa.register_move(start, imm=4)
        nisa.tensor_copy_dynamic_src(dst=tile[:, 0:4], src=tile[:, nl.ds(start, 4)])
        nisa.dma_copy(dst=out, src=tile)
        nisa.dma_copy(dst=out, src=ones, dst_rmw_op=nl.add)
        return out

    a = np.random.default_rng(1).standard_normal((128, 8)).astype(np.float32)
    assert np.allclose(kernel(a), np.concatenate([a[:, 4:], a[:, 4:]], 1) + 1)


def test_kernels_call_kernels():
    @nki.jit
    def twice(a):
        return add(add(a, a), a)

    assert (twice(ones()) == 3).all()


class Foreign:
    """An array of another library: all it has is __array__, a shape and a dtype."""

    def __init__(self, values):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def __array__(self, dtype=None, copy=None):
        return self.values


def test_arrays_of_other_libraries():
    assert (add(Foreign(ones()), ones()) == 2).all()


def test_formats_numpy_lacks_come_as_their_bytes():
    @nki.jit
    def kernel(a):
        view = a.view(nl.float8_e4m3fn_x4)
        out = nl.ndarray(view.shape, nl.float8_e4m3fn_x4, buffer=nl.shared_hbm)
        nl.store(out, nl.load(view))
        return out

    x = np.arange(128 * 16, dtype=np.uint32).reshape(128, 16)
    assert (nki.simulate(kernel)(x) == x).all()


@pytest.mark.parametrize("bad", [np.ones((4, 4)), np.ones((0, 4), np.float32), np.array(3, np.float32)])
def test_arrays_the_chip_cannot_hold(bad):
    with pytest.raises(NkiError) as e:
        add(bad, bad)
    assert e.value.code == "NKI006"


def test_wrong_arguments_are_named():
    with pytest.raises(NkiError) as e:
        add(ones())
    assert e.value.code == "NKI003" and "'b'" in str(e.value)


def test_targets(monkeypatch, tmp_path):
    for name in ("NEURON_PLATFORM_TARGET_OVERRIDE", "TRINE_INSTANCE", "NKI_SIMULATOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert machine.target_chip(None) == "trn1"
    assert machine.target_chip(None, simulate=True) == "trn3"
    monkeypatch.setenv("NKI_SIMULATOR", "1")
    assert machine.target_chip(None) == "trn3"
    monkeypatch.setenv("TRINE_INSTANCE", "trn2.3xlarge")
    assert machine.target_chip(None, simulate=True) == "trn2"
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "gen2")
    assert machine.target_chip(None) == "trn1"
    assert machine.target_chip("trn3") == "trn3"
    with pytest.raises(NkiError):
        machine.target_chip("tpu")


def test_tile_sizes_follow_the_target():
    sizes = []

    @nki.jit(platform_target="trn2")
    def kernel(a):
        sizes.append(nl.tile_size.sbuf_size_bytes)

    kernel(ones())
    assert sizes == [224 * 1024 * 128]
    assert (nl.tile_size.pmax, nl.tile_size.gemm_moving_fmax, nl.tile_size.psum_bank_fmax) == (128, 512, 512)


# --- two cores ---


@pytest.fixture
def trn2(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")


def test_programs_share_the_work(trn2):
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        i, n = nl.program_id(0), nl.num_programs(0)
        rows = a.shape[0] // n
        part = slice(i * rows, (i + 1) * rows)
        nl.store(out[part, :], nl.multiply(nl.load(a[part, :]), float(i + 1)))
        return out

    x = ones()
    assert (kernel(x) == 1).all()
    both = kernel[2](x)
    assert (both[:64] == 1).all() and (both[64:] == 2).all()


def test_cores_exchange_tiles(trn2):
    @nki.jit
    def kernel(a):
        out = nl.ndarray((2, 128, 64), a.dtype, buffer=nl.shared_hbm)
        me = nl.program_id(0)
        mine, theirs = nl.load(a[me]), nl.ndarray((128, 64), a.dtype)
        nisa.sendrecv(src=mine, dst=theirs, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=0)
        nl.store(out[me], theirs)
        return out

    x = np.stack([ones(), 2 * ones()])
    assert (kernel[2](x) == x[::-1]).all()


def test_a_barrier_makes_writes_visible(trn2):
    @nki.jit
    def kernel(a):
        middle = nl.ndarray((128, 64), a.dtype, buffer=nl.shared_hbm)
        out = nl.ndarray((2, 128, 64), a.dtype, buffer=nl.shared_hbm)
        me = nl.program_id(0)
        half = slice(64 * me, 64 * me + 64)
        nl.store(middle[half, :], nl.load(a[half, :]))
        nisa.core_barrier(data=middle, cores=(0, 1))
        nl.store(out[me], nl.load(middle))
        return out

    x = np.random.default_rng(1).standard_normal((128, 64)).astype(np.float32)
    assert (kernel[2](x) == x).all()


@pytest.fixture(params=[("trn1", 2), ("trn2", 2), ("trn3", 8)])
def ranks(request, monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", request.param[0])
    return request.param[1]


def over_ranks(f, shape, *arrays):
    """f(src, dst) in HBM on every rank, each with its own arrays."""

    @nki.jit
    def kernel(a):
        dst = nl.ndarray(shape, a.dtype, buffer=nl.shared_hbm)
        f(a, dst)
        return dst

    return nki.simulate(kernel, ranks=len(arrays))(list(arrays))


def test_collectives(ranks):
    import trine.nki.collectives as cc

    x = [np.random.default_rng(r).standard_normal((ranks * 4, 8)).astype(np.float32) for r in range(ranks)]
    everyone = cc.ReplicaGroup([list(range(ranks))])
    got = over_ranks(lambda s, d: cc.all_reduce([s], [d], everyone, nl.add), x[0].shape, *x)
    for g in got:
        np.testing.assert_allclose(g, sum(x), rtol=1e-5, atol=1e-5)
    got = over_ranks(lambda s, d: cc.all_gather([s], [d], everyone, 0), (ranks * ranks * 4, 8), *x)
    assert all((g == np.concatenate(x)).all() for g in got)
    got = over_ranks(lambda s, d: cc.reduce_scatter([s], [d], everyone, 0, nl.add), (4, 8), *x)
    for r, g in enumerate(got):
        np.testing.assert_allclose(g, sum(x)[4 * r : 4 * r + 4], rtol=1e-5, atol=1e-5)
    got = over_ranks(lambda s, d: cc.all_to_all([s], [d], everyone, 0), x[0].shape, *x)
    for r, g in enumerate(got):
        assert (g == np.concatenate([v[4 * r : 4 * r + 4] for v in x])).all()
    halves = cc.ReplicaGroup([list(range(0, ranks, 2)), list(range(1, ranks, 2))])
    got = over_ranks(lambda s, d: cc.all_reduce([s], [d], halves, nl.maximum), x[0].shape, *x)
    assert all((g == np.max(x[r % 2 :: 2], axis=0)).all() for r, g in enumerate(got))


def test_rings(ranks):
    import trine.nki.collectives as cc

    x = [np.full((4, 8), r, np.float32) for r in range(ranks)]
    before = [(r - 1) % ranks for r in range(ranks)]
    everyone = cc.ReplicaGroup([list(range(ranks))])
    got = over_ranks(lambda s, d: cc.collective_permute_implicit([[s]], [[d]], everyone), (4, 8), *x)
    assert [g[0, 0] for g in got] == before
    pairs = [(r, (r + 1) % ranks) for r in range(ranks)]
    got = over_ranks(lambda s, d: cc.collective_permute([s], [d], pairs), (4, 8), *x)
    assert [g[0, 0] for g in got] == before
    got = over_ranks(lambda s, d: cc.collective_permute_implicit_reduce([[s]], [[s]], [[d]], everyone, nl.add), (4, 8), *x)
    assert [g[0, 0] for g in got] == [2 * b for b in before]

    def whose(s, d):
        tile = nl.ndarray((1, 1), nl.int32)
        nisa.register_store(tile, cc.collective_permute_implicit_current_processing_rank_id(1, everyone))
        cc.collective_permute([s], [nl.ndarray(s.shape, s.dtype, buffer=nl.hbm)], pairs)
        nl.store(d, nl.copy(tile, dtype=nl.float32))

    assert [g[0, 0] for g in over_ranks(whose, (1, 1), *x)] == before


def test_ranks_are_the_cores_of_a_chip(trn2):
    with pytest.raises(NkiError, match="1 to 8 ranks"):
        over_ranks(lambda s, d: None, (4, 8), *[ones((4, 8))] * 9)


# --- order, prints ---


@pytest.mark.skipif(not hasattr(_core.Trace, "depends"), reason="the scheduler takes no extra edges yet")
def test_schedules_and_dependencies():
    @nki.jit
    def kernel(a):
        x = nl.load(a)
        y, z = nl.ndarray(x.shape, x.dtype), nl.ndarray(x.shape, x.dtype)
        first = nisa.reciprocal(dst=y, data=x, name="recip")
        second = nisa.tensor_scalar(dst=z, data=x, op0=nl.add, operand0=1, name="plus1")
        second.depends_on(first)
        with nl.no_reorder():
            nisa.tensor_tensor(dst=z, data1=y, data2=z, op=nl.add)
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        nl.store(out, z)
        return out

    assert (kernel(ones()) == 3).all()
    assert (kernel.with_schedule([("plus1", ["recip"])])(ones()) == 3).all()


def test_device_print(capsys):
    @nki.jit
    def kernel(a):
        nl.device_print("seen", nl.load(a))
        return add.fn(a, a)

    kernel(ones((1, 3)))
    assert capsys.readouterr().out == "seen [[1. 1. 1.]]\n"


# --- reports ---


def test_a_report_needs_no_data():
    r = trine.report(add, nki.shape((256, 512)), nki.shape((256, 512)), instance="trn2.3xlarge")
    assert r.chip == "trn2" and r.band[0] <= r.time_ns <= r.band[1]
    assert r.hbm_read_bytes == 2 * 256 * 512 * 4 and r.hbm_write_bytes == 256 * 512 * 4
    assert r.engines["vector"].instructions == 2 and r.engines["vector"].busy_ns > 0
    assert 0 < r.mbu < 1 and r.mfu == 0 and r.energy_j > 0 and r.cost_usd > 0
    assert r.sbuf_peak_bytes > 0 and r.psum_peak_bytes == 0
    same = trine.report(add, (256, 512), (256, 512), instance="trn2.3xlarge")
    assert same.time_ns == r.time_ns
    assert trine.report(add, ((256, 512), "bfloat16"), ((256, 512), "bfloat16"), instance="trn2.3xlarge").time_ns < r.time_ns


def test_a_report_takes_a_plain_function():
    assert trine.report(add.fn, ones(), ones()).time_ns == trine.report(add, ones(), ones()).time_ns
    with pytest.raises(trine.NkiError, match="trine.report of 3"):
        trine.report(3, ones())


def test_a_report_shows_itself(tmp_path):
    import json

    r = trine.report(add, ones(), ones(), instance="trn1.2xlarge")
    assert "add on trn1.2xlarge" in str(r) and "add on trn1.2xlarge" in repr(r)
    assert json.loads(r.to_json())["time_ns"] == r.time_ns
    r.trace(tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    r.picture(tmp_path / "p.svg")
    assert r._repr_svg_().startswith("<svg") and "<svg" in r._repr_html_() and r._repr_png_().startswith(b"\x89PNG")
    assert r.busy_ns["vector"] == r.engines["vector"].busy_ns > 0 and r.waits["vector"]["dma"] > 0
    assert "<pre>add on" in trine.explain(add, ones(), ones())._repr_html_()


def test_explain_names_the_kernels_lines():
    """Many small transfers: the advice says so, at the line that makes them."""

    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        for c in range(0, a.shape[1], 64):
            nl.store(out[:, c : c + 64], nl.load(a[:, c : c + 64]))  # narrow
        return out

    e = trine.explain(kernel, (128, 4096), instance="trn2.3xlarge")
    first = kernel.where()[1]
    assert f"test_kernel.py:{first + 4}" in str(e), str(e)
    assert e.advice and e.advice[0]["would_ns"] < trine.report(kernel, (128, 4096), instance="trn2.3xlarge").time_ns


def test_a_tensor_is_true_as_an_optional_argument_is():
    @nki.jit
    def kernel(a, bias=None):
        t = nl.load(a)
        assert t, "a tile made elsewhere is asked for its presence, not its values"
        return add.fn(a, bias if bias else a)

    assert kernel(ones())[0, 0] == 2
    assert kernel(0 * ones(), 3 * ones())[0, 0] == 3


def test_a_plain_value_in_a_dataclass_is_a_field():
    @dataclass
    class Sizes(nl.NKIObject):
        rows: int
        scale = None

    assert Sizes(4) == Sizes(rows=4, scale=None) and Sizes(4, scale=2).scale == 2

    @nki.jit
    def kernel(a, sizes):
        return add.fn(a, a) if sizes.scale is None else add.fn(a, a[0:1, :].broadcast(0, sizes.rows))

    assert kernel(ones(), Sizes(4))[0, 0] == 2


@nki.jit
def held_too_long(a):
    out = nl.ndarray(a.shape[1:], a.dtype, buffer=nl.shared_hbm)
    held = [nl.exp(nl.load(a[i])) for i in range(a.shape[0])]
    total = nl.zeros(a.shape[1:], nl.float32)
    for tile in held + held:
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
    nl.store(out, total)
    return out


def test_the_lines_of_a_report_add_up():
    report = trine.report(held_too_long, ((8, 128, 8192), "float32"), instance="trn2.3xlarge")
    total = {key: sum(line[key] for line in report.lines) for key in report.lines[0] if key.endswith("_bytes")}
    assert total["spill_save_bytes"] == report.spill_save_bytes > 0
    assert total["spill_reload_bytes"] == report.spill_reload_bytes > 0
    assert total["hbm_read_bytes"] == report.hbm_read_bytes and total["hbm_write_bytes"] == report.hbm_write_bytes
    vector = sum(line["busy_ns"].get("vector", 0) for line in report.lines)
    assert vector == pytest.approx(report.engines["vector"].busy_ns, rel=1e-6)
    longest = [max(line["busy_ns"].values()) for line in report.lines]
    assert longest == sorted(longest, reverse=True)
    spilled = next(line for line in report.lines if line["spill_save_bytes"])
    assert report.source(spilled).startswith("held = [")
    assert "MB of it spill)" in str(report) and "spill     16.8 MB saved, 25.2 MB reloaded" in str(report)
    assert json.loads(report.to_json())["lines"] == report.lines
