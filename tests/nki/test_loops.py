"""Loops that run on the device: counted, with bounds in registers, and while loops."""

import numpy as np
import pytest

import trine.nki as nki
import trine.nki.isa as nisa
import trine.nki.language as nl
from trine import _core


def rows(shape=(512, 256)):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def doubled(dst, src, i, width):
    tile = nl.ndarray((128, width), src.dtype)
    nisa.dma_copy(dst=tile, src=src.ap([[width, 128], [1, width]], scalar_offset=i))
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=dst.ap([[width, 128], [1, width]], scalar_offset=i), src=tile)


def test_fori_loop_over_static_bounds_stays_a_loop():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        nl.fori_loop(0, a.shape[0], lambda i: doubled(out, a, i, a.shape[1]), step=128)
        return out

    x = rows()
    assert (kernel(x) == 2 * x).all()
    program = kernel.compiled("trn1", (x,), {})[0].program
    assert "loop 2" in program.disassemble()  # of two iterations each, so that one loads while the other works


def test_loops_inside_loops():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        for i in nl.dynamic_range(a.shape[0]):
            for j in nl.dynamic_range(2):
                half = a.shape[2] // 2
                tile = nl.ndarray((128, half), a.dtype)
                picked, place = a.select(0, i), out.select(0, i)
                nisa.dma_copy(dst=tile, src=picked[:, 0:half])
                nisa.dma_copy(dst=place[:, 0:half], src=tile)
                nisa.dma_copy(dst=tile, src=picked[:, half : 2 * half])
                nisa.dma_copy(dst=place[:, half : 2 * half], src=tile)
        return out

    x = rows((3, 128, 64))
    assert (kernel(x) == x).all()


def test_bounds_in_registers():
    @nki.jit
    def kernel(a, count):
        out = nl.zeros(a.shape, a.dtype, buffer=nl.shared_hbm)
        stop = nisa.register_alloc()
        nisa.register_load(stop, nl.load(count))
        nl.fori_loop(nisa.register_alloc(128), stop, lambda i: doubled(out, a, i, a.shape[1]), step=128)
        return out

    x = rows()
    for stop in (128, 200, 512):
        want = np.zeros_like(x)
        end = 128 + -(-(stop - 128) // 128) * 128
        want[128:end] = 2 * x[128:end]
        assert (kernel(x, np.array([[stop]], np.int32)) == want).all()


def test_the_index_as_a_value():
    @nki.jit
    def kernel(a):
        out = nl.ndarray((1, 8), nl.int32, buffer=nl.shared_hbm)
        for i in nl.dynamic_range(3, 19, 2):
            one, at = nl.ndarray((1, 1), nl.int32), nl.ndarray((1, 1), nl.int32)
            nisa.register_store(one, i)
            nisa.tensor_scalar(dst=at, data=one, op0=nl.subtract, operand0=3.0, op1=nl.multiply, operand1=0.5)
            nisa.dma_copy(dst=out.ap([[8, 1], [1, 1]], scalar_offset=at, indirect_dim=1), src=one)
        return out

    assert (kernel(np.zeros((1, 1), np.float32)) == np.arange(3, 19, 2)).all()


def test_registers_move_load_and_store():
    @nki.jit
    def kernel(a):
        out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
        x, y = nisa.register_alloc(7), nisa.register_alloc()
        nisa.register_move(y, x)
        tile = nl.ndarray((1, 1), nl.int32)
        nisa.register_store(tile, y)
        nl.store(out, tile)
        return out

    assert kernel(np.zeros((1, 1), np.float32))[0, 0] == 7


@pytest.mark.skipif("while_nonzero" not in _core.Trace.loop.__doc__, reason="the scheduler has counted loops only")
def test_while_loop():
    @nki.jit
    def kernel(value, count):
        out = nl.ndarray((1, 1), nl.float32, buffer=nl.shared_hbm)
        step, left, one = nl.load(value), nl.load(count), nl.full((1, 1), 1, nl.int32)
        total = nl.zeros((1, 1), nl.float32)
        go = nisa.register_alloc()
        nisa.register_load(go, left)

        def body(r):
            nisa.tensor_tensor(dst=total, data1=total, data2=step, op=nl.add)
            nisa.tensor_tensor(dst=left, data1=left, data2=one, op=nl.subtract)
            nisa.register_load(r, left)
            return r

        nl.while_loop(go, body)
        nl.store(out, total)
        return out

    for n in (0, 1, 5):
        got = kernel(np.full((1, 1), 2.5, np.float32), np.array([[n]], np.int32))
        assert got[0, 0] == 2.5 * n
