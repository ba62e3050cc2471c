"""What decides the order of things: device loops against the same loops unrolled, registers, cores, dependencies."""

import contextlib
import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import trine
import trine.nki as nki
import trine.nki.collectives as cc
import trine.nki.isa as nisa
import trine.nki.language as nl

F32 = np.float32


@pytest.fixture(params=["trn1", "trn2", "trn3"])
def chip(request, monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", request.param)
    return request.param


@pytest.fixture
def trn2(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")


def some(*shape, seed=3):
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(F32)


def result(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype, buffer=nl.shared_hbm)


def text(kernel, *args, chip="trn2"):
    return kernel.compiled(chip, args, {})[0].program.disassemble()


def program_bytes(kernel, args, chip, path):
    kernel._cache.clear()
    kernel.compiled(chip, args, {})[0].program.save(str(path))
    return path.read_bytes()


# --- device loops ---


STEPS = ["load", "store", "add", "scale", "max", "multiply", "own", "own"]


def random_body(seed):
    """A body over tiles that outlive it and tiles of its own: loads and stores at the index, arithmetic, a product."""
    choose = np.random.default_rng(seed)
    steps = [str(choose.choice(STEPS)) for _ in range(7)]
    picks = choose.integers(0, 3, (7, 3))

    def body(source, place, tiles):
        for step, (x, y, z) in zip(steps, picks):
            if step == "load":
                nisa.dma_copy(dst=tiles[x], src=source)
            elif step == "store":
                nisa.dma_copy(dst=place, src=tiles[x])
            elif step == "own":
                own = nl.ndarray((64, 64), nl.float32)
                nisa.dma_copy(dst=own, src=source)
                nisa.tensor_scalar(dst=own, data=own, op0=nl.add, operand0=float(z))
                nisa.tensor_tensor(dst=tiles[x], data1=tiles[y], data2=own, op=nl.subtract)
            elif step == "scale":
                nisa.tensor_scalar(dst=tiles[x], data=tiles[y], op0=nl.multiply, operand0=0.5)
            elif step == "multiply":
                sums = nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
                nisa.nc_matmul(dst=sums, stationary=tiles[x], moving=tiles[y])
                nisa.tensor_scalar(dst=tiles[z], data=sums, op0=nl.multiply, operand0=1 / 64)
            else:
                nisa.tensor_tensor(dst=tiles[x], data1=tiles[y], data2=tiles[z], op=nl.add if step == "add" else nl.maximum)

    return body


def random_kernel(seed, loop):
    body = random_body(seed)

    @nki.jit
    def kernel(a):
        n = a.shape[0]
        out, last = result(a.shape), result((3, 64, 64))
        for i in range(n):
            nisa.dma_copy(dst=out[i], src=a[n - 1 - i])
        tiles = [nl.load(a[t]) for t in range(3)]
        loop(a, out, lambda source, place: body(source, place, tiles))
        for t, tile in enumerate(tiles):
            nl.store(last[t], tile)
        return out, last

    return kernel


def unrolled(a, out, body):
    for i in range(a.shape[0]):
        body(a[i], out[i])


def on_device(a, out, body):
    nl.fori_loop(0, a.shape[0], lambda i: body(a.select(0, i), out.select(0, i)))


def with_bound_in_register(a, out, body):
    nl.fori_loop(0, nisa.register_alloc(a.shape[0]), lambda i: body(a.select(0, i), out.select(0, i)))


def nested(a, out, body):
    rows = [t.reshape((2, t.shape[0] // 2, *t.shape[1:])) for t in (a, out)]
    for i in nl.dynamic_range(2):
        for j in nl.dynamic_range(a.shape[0] // 2):
            body(*(t.select(0, i).select(0, j) for t in rows))


@pytest.mark.parametrize("seed", range(24))
def test_random_loops_do_what_they_do_unrolled(seed, monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", ["trn1", "trn2", "trn3"][seed % 3])
    a = some(4 + 2 * (seed % 5), 64, 64, seed=seed)
    want = random_kernel(seed, unrolled)(a)
    for loop in (on_device, with_bound_in_register, nested):
        for got, w in zip(random_kernel(seed, loop)(a), want):
            np.testing.assert_array_equal(got, w)


def test_a_tile_of_a_device_loop_is_one_place(trn2):
    """What the body allocates it allocates once, so a load waits for the store before it; unrolled, each has a tile."""

    def body(source, place):
        tile = nl.ndarray((128, 2048), nl.float32)
        nisa.dma_copy(dst=tile, src=source)
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=place, src=tile)

    def kernel(loop):
        @nki.jit
        def kernel(a):
            out = result(a.shape)
            loop(a, out, body)
            return out

        return kernel

    looped, flat = (trine.report(kernel(f), nki.shape((64, 128, 2048)), instance="trn2.3xlarge").time_ns for f in (on_device, unrolled))
    assert looped > 1.3 * flat


def test_matmul_in_three_loops(chip):
    @nki.jit
    def kernel(a, b):
        out = result((a.shape[1], b.shape[1]))

        def tile_of(tensor, k, column, width):
            tile = nl.ndarray((128, width), nl.float32)
            rows = tensor.reshape((tensor.shape[0] // 128, 128, tensor.shape[1] // width, width))
            nisa.dma_copy(dst=tile, src=rows.select(0, k).select(1, column))
            return tile

        def column(i, j):
            sums = nl.zeros((128, 256), nl.float32)

            def part(k):
                product = nl.ndarray((128, 256), nl.float32, buffer=nl.psum)
                nisa.nc_matmul(dst=product, stationary=tile_of(a, k, i, 128), moving=tile_of(b, k, j, 256))
                nisa.tensor_tensor(dst=sums, data1=sums, data2=product, op=nl.add)

            nl.fori_loop(0, a.shape[0] // 128, part)
            rows = out.reshape((out.shape[0] // 128, 128, out.shape[1] // 256, 256))
            nisa.dma_copy(dst=rows.select(0, i).select(1, j), src=sums)

        nl.fori_loop(0, a.shape[1] // 128, lambda i: nl.fori_loop(0, b.shape[1] // 256, lambda j: column(i, j)))
        return out

    a, b = some(384, 256), some(384, 512, seed=4)
    np.testing.assert_array_equal(kernel(a, b), a.T @ b)
    assert text(kernel, a, b, chip=chip).count("end_loop") >= 3


def test_a_loop_of_no_trips_leaves_all_as_it_was(chip):
    @nki.jit
    def kernel(a, count):
        out, tile, stop = result(a.shape), nl.load(a), nisa.register_alloc()
        nisa.register_load(stop, nl.load(count))

        def body(i):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)

        nl.fori_loop(0, stop, body)
        nl.fori_loop(3, 3, body)
        nl.store(out, tile)
        return out

    a = some(16, 8)
    for n in (0, 1, 6):
        np.testing.assert_array_equal(kernel(a, np.array([[n]], np.int32)), a + n)


def test_while_around_for_and_inside_it(chip):
    """Collatz steps of each of four numbers."""

    @nki.jit
    def kernel(numbers):
        out = result((1, 4))
        for i in nl.dynamic_range(4):
            x, steps = nl.ndarray((1, 1), nl.float32), nl.zeros((1, 1), nl.float32)
            nisa.dma_copy(dst=x, src=numbers.ap([[4, 1], [1, 1]], scalar_offset=i, indirect_dim=1))
            more, flag, odd = nisa.register_alloc(1), nl.ndarray((1, 1), nl.int32), nl.ndarray((1, 1), nl.float32)

            def body(r):
                half, grown = nl.ndarray((1, 1), nl.float32), nl.ndarray((1, 1), nl.float32)
                nisa.tensor_scalar(dst=half, data=x, op0=nl.multiply, operand0=0.5)
                # odd: half has a fraction. (x / 2 + 2^23) rounds it away.
                nisa.tensor_scalar(dst=odd, data=half, op0=nl.add, operand0=2.0**23, op1=nl.subtract, operand1=2.0**23)
                nisa.tensor_tensor(dst=odd, data1=odd, data2=half, op=nl.not_equal)
                nisa.tensor_scalar(dst=grown, data=x, op0=nl.multiply, operand0=3.0, op1=nl.add, operand1=1.0)
                nisa.tensor_tensor(dst=grown, data1=grown, data2=half, op=nl.subtract)
                nisa.tensor_tensor(dst=grown, data1=grown, data2=odd, op=nl.multiply)
                nisa.tensor_tensor(dst=x, data1=half, data2=grown, op=nl.add)
                nisa.tensor_scalar(dst=steps, data=steps, op0=nl.add, operand0=1.0)
                nisa.tensor_scalar(dst=flag, data=x, op0=nl.greater, operand0=1.0)
                nisa.register_load(r, flag)
                return r

            nl.while_loop(more, body)
            nisa.dma_copy(dst=out.ap([[4, 1], [1, 1]], scalar_offset=i, indirect_dim=1), src=steps)
        return out

    def collatz(n):
        steps = 0
        while n > 1 or not steps:
            n, steps = (3 * n + 1 if n % 2 else n // 2), steps + 1
        return steps

    numbers = [6, 7, 9, 2]
    np.testing.assert_array_equal(kernel(np.array([numbers], F32))[0], [collatz(n) for n in numbers])


def test_loops_are_timed_by_their_trips(trn2):
    @nki.jit
    def kernel(a, trips):
        out, tile = result(a.shape), nl.load(a)
        nl.fori_loop(0, trips, lambda i: nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0))
        nl.store(out, tile)
        return out

    times = [trine.report(kernel, nki.shape((128, 512)), n, instance="trn2.3xlarge").time_ns for n in (10, 110, 1110)]
    assert (times[2] - times[1]) / (times[1] - times[0]) == pytest.approx(10, rel=0.05)


# --- registers ---


def test_registers_choose_rows(chip):
    """Rows picked in an order that data decides, by a register and by a chain of registers."""

    @nki.jit
    def kernel(a, order):
        out, places = result(a.shape), nl.load(order)
        for r in range(a.shape[0]):
            at, copy = nisa.register_alloc(), nisa.register_alloc()
            nisa.register_load(at, places[:, r : r + 1])
            nisa.register_move(copy, at)
            row = nl.ndarray((1, a.shape[1]), a.dtype)
            nisa.dma_copy(dst=row, src=a.ap([[a.shape[1], 1], [1, a.shape[1]]], scalar_offset=copy))
            nisa.dma_copy(dst=out[r : r + 1, :], src=row)
        return out

    a, order = some(9, 32), np.random.default_rng(2).permutation(9).astype(np.int32)
    np.testing.assert_array_equal(kernel(a, order[None]), a[order])


# --- two cores ---


def test_cores_work_in_loops_and_meet(trn2):
    """Each core sums its half in a device loop; they exchange the sums and both have the whole."""

    @nki.jit
    def kernel(a):
        out, me = result((2, 128, 16)), nl.program_id(0)
        half, total = a.shape[0] // nl.num_programs(0), nl.zeros((128, 16), nl.float32)
        for i in nl.dynamic_range(me * half, (me + 1) * half):
            tile = nl.ndarray((128, 16), nl.float32)
            nisa.dma_copy(dst=tile, src=a.select(0, i))
            nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
        other = nl.ndarray((128, 16), nl.float32)
        nisa.sendrecv(src=total, dst=other, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=0)
        nisa.tensor_tensor(dst=total, data1=total, data2=other, op=nl.add)
        nl.store(out[me], total)
        return out

    a = some(6, 128, 16)
    for got in kernel[2](a):
        np.testing.assert_array_equal(got, a.sum(0))


def test_barriers_in_a_row(trn2):
    """Halves go round three times: each core reads what the other wrote before the barrier."""

    @nki.jit
    def kernel(a):
        me = nl.program_id(0)
        rounds = [result((2, 64, 32)) for _ in range(3)]
        tile = nl.load(a[me])
        for r in rounds:
            nl.store(r[me], tile)
            nisa.core_barrier(data=r, cores=(0, 1))
            tile = nl.add(nl.load(r[1 - me]), 1.0)
        out = result((2, 64, 32))
        nl.store(out[me], tile)
        return out

    a = some(2, 64, 32)
    np.testing.assert_array_equal(kernel[2](a), a[::-1] + 3)


def test_cores_that_write_the_same_bytes_race(trn2):
    @nki.jit
    def kernel(a):
        out = result((64, 32))
        nl.store(out, nl.multiply(nl.load(a), float(nl.program_id(0))))
        return out

    with pytest.raises(trine.NkiError, match="race"):
        kernel[2](some(64, 32))


# --- order ---


def order_of(program_text, names):
    """The instructions of these names in the order of their stream."""
    return [word for line in program_text.splitlines() for word in [line.split()[0] if line.split() else ""] if word in names]


@nki.jit
def late_and_early(a, fixed):
    """A slow chain, then work that could go first."""
    x = nl.load(a)
    y, z, w = (nl.ndarray(x.shape, x.dtype) for _ in range(3))
    with nl.no_reorder() if fixed else contextlib.nullcontext():
        nisa.reciprocal(dst=y, data=x)
        for _ in range(3):
            nisa.activation(dst=y, op=nl.tanh, data=y)
        nisa.tensor_tensor(dst=y, data1=y, data2=y, op=nl.add)
        nisa.memset(dst=z, value=2.0)
        nisa.tensor_scalar(dst=w, data=z, op0=nl.add, operand0=1.0, engine=nisa.engine.vector)
    out = result((3, *a.shape))
    for i, t in enumerate((y, z, w)):
        nl.store(out[i], t)
    return out


def test_no_reorder_keeps_the_order_of_an_engine(trn2):
    a = np.abs(some(128, 512)) + 1
    free, fixed = late_and_early(a, False), late_and_early(a, True)
    np.testing.assert_array_equal(free, fixed)
    names = ("reciprocal", "tensor_tensor", "memset", "tensor_scalar")
    order = [n for n in order_of(text(late_and_early, a, True), names) if n != "memset"]
    assert order == ["reciprocal", "tensor_tensor", "tensor_scalar"]
    assert order_of(text(late_and_early, a, False), names).index("tensor_scalar") < 3  # not last any more


def test_loops_one_after_the_other_share_psum(chip):
    """24 products of a bank each are written before the first is read, as loops that a compiler would fuse do."""

    @nki.jit
    def kernel(a, b):
        rows, columns = a.shape[1] // 128, b.shape[1] // 512
        each = [(i, j) for i in range(rows) for j in range(columns)]
        left, right = nl.load(a), nl.load(b)
        products = {at: nl.ndarray((128, 512), nl.float32, buffer=nl.psum) for at in each}
        for i, j in each:
            nisa.nc_matmul(dst=products[i, j], stationary=left[:, 128 * i : 128 * i + 128], moving=right[:, 512 * j : 512 * j + 512])
        tops = [nl.ndarray((128, columns), nl.float32) for _ in range(rows)]
        for i, j in each:
            nisa.tensor_reduce(dst=tops[i][:, j : j + 1], op=nl.max, data=products[i, j], axis=1)
        top = [nl.max(t, axis=1, keepdims=True) for t in tops]
        out = result((a.shape[1], b.shape[1]))
        for i, j in each:
            tile = nl.ndarray((128, 512), nl.float32)
            nisa.tensor_scalar(dst=tile, data=products[i, j], op0=nl.subtract, operand0=top[i])
            nl.store(out[128 * i : 128 * i + 128, 512 * j : 512 * j + 512], tile)
        return out

    a, b = some(128, 768), some(128, 2048, seed=4)
    want = a.T @ b
    np.testing.assert_array_equal(kernel(a, b), want - want.max(1, keepdims=True))
    assert any("psum" in m for m in kernel.compiled(chip, (a, b), {})[0].messages)


def events(report, tmp_path):
    """(name, start, end) of every instruction, in ns."""
    path = tmp_path / "trace.json"
    report.trace(path)
    rows = json.loads(path.read_text())
    rows = rows["traceEvents"] if isinstance(rows, dict) else rows
    return [(e["name"], 1e3 * e["ts"], 1e3 * (e["ts"] + e["dur"])) for e in rows if e.get("ph") == "X"]


def test_depends_on_and_with_schedule_hold_back_a_free_instruction(trn2, tmp_path):
    def make(explicit):
        @nki.jit
        def kernel(a):
            x = nl.load(a)
            y, z = nl.ndarray(x.shape, x.dtype), nl.ndarray(x.shape, x.dtype)
            slow = nisa.activation(dst=y, op=nl.exp, data=x, name="slow")
            free = nisa.tensor_scalar(dst=z, data=x, op0=nl.add, operand0=1.0, name="free")
            if explicit:
                free.depends_on(slow)
            out = result((2, *a.shape))
            nl.store(out[0], y)
            nl.store(out[1], z)
            return out

        return kernel

    a = some(128, 2048)
    kernels = {"alone": make(False), "depends_on": make(True), "with_schedule": make(False).with_schedule([("free", ["slow"])])}
    apart = {}
    for name, kernel in kernels.items():
        np.testing.assert_array_equal(kernel(a)[1], a + 1)
        seen = events(trine.report(kernel, a, instance="trn2.3xlarge"), tmp_path)
        start_of_free = next(b for n, b, _ in seen if n.lower().startswith(("tensor_scalar", "scalar")))
        end_of_slow = next(e for n, _, e in seen if n.lower().startswith("activat"))
        apart[name] = start_of_free - end_of_slow
    assert apart["alone"] < 0 <= min(apart["depends_on"], apart["with_schedule"])


def test_prints_come_in_program_order(capsys):
    @nki.jit
    def kernel(a):
        out, tile = result(a.shape), nl.load(a)
        for i in range(3):
            nl.device_print(f"round {i}", tile)
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nl.store(out, tile)
        return out

    kernel(np.zeros((1, 2), F32))
    assert capsys.readouterr().out.splitlines() == ["round 0 [[0. 0.]]", "round 1 [[1. 1.]]", "round 2 [[2. 2.]]"]


# --- collectives ---


def test_collectives_between_compute():
    """Data-parallel step: a local product, the sum over all ranks, then each rank keeps its part of the squares."""
    everyone = cc.ReplicaGroup([[0, 1]])

    @nki.jit
    def kernel(a):
        partial, whole, share, out = result((32, 32)), result((32, 32)), result((16, 32)), result((16, 32))
        tile, sums = nl.load(a), nl.ndarray((32, 32), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=sums, stationary=tile, moving=tile)
        nl.store(partial, nl.copy(sums, dtype=nl.float32))
        cc.all_reduce([partial], [whole], everyone, nl.add)
        squares = result((32, 32))
        nl.store(squares, nl.square(nl.load(whole)))
        cc.reduce_scatter([squares], [share], everyone, 0, nl.maximum)
        nl.store(out, nl.load(share))
        return out

    x = [some(64, 32, seed=s) for s in range(2)]
    want = (x[0].T @ x[0] + x[1].T @ x[1]) ** 2
    for rank, got in enumerate(nki.simulate(kernel, ranks=2)(x)):
        np.testing.assert_array_equal(got, want[16 * rank : 16 * rank + 16])


# --- the same calls give the same program ---


@nki.jit
def everything(a):
    """Loops, registers, a matmul and more tiles than SBUF holds."""
    out, total = result((128, 512)), nl.zeros((128, 512), nl.float32)
    held = [nl.load(a[i]) for i in range(a.shape[0])]
    for tile in held + held:
        nisa.tensor_tensor(dst=total, data1=total, data2=tile[:, 0:512], op=nl.add)
    stop = nisa.register_alloc(3)
    nl.fori_loop(0, stop, lambda i: nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=0.5))
    nl.store(out, total)
    return out


def test_programs_are_the_same_bytes_every_time(trn2, tmp_path):
    cases = [(everything, (some(8, 128, 8192),)), (random_kernel(3, on_device), (some(5, 64, 64),)),
             (late_and_early, (some(128, 512), False))]  # fmt: skip
    for kernel, args in cases:
        first, second = (program_bytes(kernel, args, "trn2", tmp_path / f"p{i}") for i in range(2))
        assert first == second
    a = some(8, 128, 8192)
    np.testing.assert_array_equal(everything(a), 2 * a[:, :, :512].sum(0) / 8)
    assert any("loaded again" in m for m in everything.compiled("trn2", (a,), {})[0].messages)


def test_programs_do_not_depend_on_the_process(tmp_path):
    """Nor on the seed of Python's hashes."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import hashlib, test_control as t, trine.nki as nki\n"
        "p = t.everything.compiled('trn2', (nki.shape((8, 128, 8192)),), {})[0].program\n"
        "p.save(sys.argv[2]); print(hashlib.sha256(open(sys.argv[2], 'rb').read()).hexdigest())\n"
    )
    folder = os.path.dirname(__file__)
    digests = set()
    for seed in ("1", "2"):
        ran = subprocess.run([sys.executable, "-c", script, folder, str(tmp_path / "p")],
                             env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True)  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        digests.add(ran.stdout)
    assert len(digests) == 1 and len(next(iter(digests)).strip()) == hashlib.sha256().digest_size * 2


@pytest.mark.parametrize("own", [False, True])
def test_more_offsets_than_a_sequencer_has_registers(own):
    count = 80  # 64 registers

    @nki.jit(platform_target="trn2")
    def kernel(x, index):
        out = nl.ndarray((count, 512), x.dtype, buffer=nl.shared_hbm)
        i = nl.load(index)
        for k in range(count):
            offset = i[0:1, k : k + 1]
            if own:
                offset = nisa.register_alloc()
                nisa.register_load(offset, i[0:1, k : k + 1])
            row = nl.ndarray((1, 512), x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(row, x.ap([[512, 1], [1, 512]], scalar_offset=offset, indirect_dim=0))
            nl.store(out[k : k + 1, :], row)
        return out

    x = np.arange(128 * 512, dtype=np.float32).reshape(128, 512)
    index = np.random.default_rng(0).permutation(128)[:count].astype(np.int32)
    assert (kernel(x, index[None]) == x[index]).all()


def test_a_register_that_is_used_again_starts_at_zero():
    @nki.jit(platform_target="trn2")
    def kernel(x):
        out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
        nisa.register_alloc(7)
        t = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
        nisa.register_store(t, nisa.register_alloc())
        nl.store(out, t)
        return out

    assert kernel(np.zeros((1, 1), np.float32))[0, 0] == 0


# --- collectives whose sizes are data ---


def metadata(counts, displs, received=None):
    rows = [counts, displs, [0] * len(counts)] + ([received] if received else [])
    return np.array(rows, np.uint32)


@pytest.mark.parametrize("offsets", [False, True])
def test_every_rank_sends_each_as_many_as_it_says(trn2, offsets):
    @nki.jit
    def kernel(x, sizes):
        out = nl.ndarray((64,), x.dtype, buffer=nl.shared_hbm)
        nl.store(out.reshape((8, 8)), nl.zeros((8, 8), x.dtype))
        counts = nl.ndarray(sizes.shape, sizes.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(counts, sizes)
        cc.all_to_all_v([x], [out], cc.ReplicaGroup([[0, 1]]), counts, has_rdispls=offsets)
        return out, counts

    x = [np.arange(1, 49, dtype=F32), 100 + np.arange(48, dtype=F32)]
    sizes = [metadata([3, 5], [10, 0], [1, 20]), metadata([30, 0], [0, 7], [40, 2])]
    if not offsets:
        sizes = [s[:3] for s in sizes]
    (first, got0), (second, got1) = nki.simulate(kernel, ranks=2)(x, sizes)
    want = np.zeros((2, 64), F32)
    at = [(1, 20), (40, 2)] if offsets else [(0, 32), (0, 32)]
    want[0][at[0][0] :][:3], want[0][at[0][1] :][:30] = x[0][10:13], x[1][:30]
    want[1][at[1][0] :][:5] = x[0][:5]
    assert (first == want[0]).all() and (second == want[1]).all()
    assert list(got0[2]) == [3, 30] and list(got1[2]) == [5, 0]


def test_every_rank_sends_all_one_chunk_of_its_own_size(trn2):
    @nki.jit
    def kernel(x, sizes):
        out = nl.ndarray((32,), x.dtype, buffer=nl.shared_hbm)
        nl.store(out.reshape((1, 32)), nl.zeros((1, 32), x.dtype))
        counts = nl.load(sizes.reshape((1, 6)))
        cc.all_gather_v([x], [out], cc.ReplicaGroup([[0, 1]]), counts, recv_counts_known=True)
        return out

    x = [np.arange(1, 25, dtype=F32), 100 + np.arange(24, dtype=F32)]
    sizes = [metadata([4, 9], [2, 9]), metadata([16, 9], [8, 9])]
    for got in nki.simulate(kernel, ranks=2)(x, sizes):
        assert (got[:4] == x[0][2:6]).all() and (got[4:16] == 0).all() and (got[16:] == x[1][8:]).all()


def test_a_count_that_leaves_its_tensor(trn2):
    @nki.jit
    def kernel(x, sizes):
        out = nl.ndarray((32,), x.dtype, buffer=nl.shared_hbm)
        cc.all_gather_v([x], [out], cc.ReplicaGroup([[0, 1]]), sizes, recv_counts_known=True)
        return out

    with pytest.raises(nki.NkiError, match=r"NKI041[\s\S]*rank 0 sends elements 2 to 29 of 24"):
        nki.simulate(kernel, ranks=2)([np.ones(24, F32)] * 2, [metadata([27, 0], [2, 0])] * 2)
