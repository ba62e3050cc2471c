"""What the random instructions mean: the generators again, in NumPy."""

from __future__ import annotations

import numpy as np
from alu_meaning import bits_of, scalar_values, words
from harness import INTS, Case, Maker, Meaning, Step, f32

M32 = np.uint64(0xFFFFFFFF)


def philox(counter, key):
    c = [np.asarray(x, np.uint64) for x in counter]
    k = [np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32)]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(b >> np.uint64(32)) ^ c[1] ^ k[0], b & M32, (a >> np.uint64(32)) ^ c[3] ^ k[1], a & M32]
        k = [(k[0] + np.uint64(0x9E3779B9)) & M32, (k[1] + np.uint64(0xBB67AE85)) & M32]
    return c


def xorwow_draw(state, n: int):
    """n words of each generator; state [..., 6] is advanced in place."""
    out = np.empty((*state.shape[:-1], n), np.uint64)
    x, y, z, w, v, d = (state[..., i].astype(np.uint64) for i in range(6))
    for i in range(n):
        t = x ^ (x >> np.uint64(2))
        x, y, z, w = y, z, w, v
        v = (v ^ (v << np.uint64(4)) ^ t ^ (t << np.uint64(1))) & M32
        d = (d + np.uint64(362437)) & M32
        out[..., i] = (v + d) & M32
    state[...] = np.stack([x, y, z, w, v, d], axis=-1)
    return out


def draw(state, n: int):
    """n words a lane; state [lanes, 6·generators], each of which gives every (generators)-th word."""
    lanes, generators = len(state), state.shape[1] // 6
    states = state.astype(np.uint64).reshape(lanes, generators, 6)
    out = np.empty((lanes, n), np.uint64)
    for g in range(generators):
        mine = states[:, g].copy()
        out[:, g::generators] = xorwow_draw(mine, len(range(g, n, generators)))
        states[:, g] = mine
    return out, states.reshape(lanes, -1).astype(np.uint32)


def lfsr_draw(seed: int, lanes, n: int):
    """A Galois LFSR of x^32+x^22+x^2+x+1, 32 steps a word; lane states come from philox."""
    state = philox([lanes & 0xFFFFFFFF, 0 * lanes, 0 * lanes + 2, 0 * lanes + 1], seed)[0]
    state = np.where(state == 0, 1, state).astype(np.uint64)
    out = np.empty((len(lanes), n), np.uint64)
    for i in range(n):
        for _ in range(32):
            state = (state >> np.uint64(1)) ^ np.where(state & np.uint64(1), np.uint64(0x80200003), np.uint64(0))
        out[:, i] = state
    return out


def uniform(word):
    return f32((word >> np.uint64(8)).astype(np.float64) * 2.0**-24)


def seed_tile(make: Maker, p: int, count: int, **kw):
    values = make.rng.integers(1, 2**32, (p, count), dtype=np.uint32)
    return make.tile("u32", p, count, writes=True, values=values, **kw)


def with_state(make: Maker, p: int, engine: str, start: int | None = None) -> tuple[Step, int]:
    seeds = seed_tile(make, p, 6 if engine == "gpsimd" else 24, start=start)
    return Step("rand_set_state", {"src_seeds": seeds}), seeds.region.start


def make_rng(make: Maker) -> Case:
    p, n = make.shape(40)
    dtype = make.pick(*INTS)
    if make.chance(0.4):  # the LFSR of older Vector engines
        chip, engine, start = make.pick("trn1", "trn2"), "vector", None
        seed = make.tile("u32", 1, 1, space=make.space(), plain=True)
        first = Step("set_rng_seed", {"src_seeds": seed})
    else:
        chip, engine = make.pick(("trn2", "gpsimd"), ("trn3", "gpsimd"), ("trn3", "vector"))
        first, start = with_state(make, p, engine)
    dst = make.tile(dtype, p, n, space=make.space(engine), writes=True, start=start)
    return Case(chip, engine, [first, Step("rng", {"dst": dst})])


def random_words(case: Case, dst):
    seeds = case.steps[0].operands["src_seeds"]
    if case.steps[0].insn == "set_rng_seed":
        lanes = np.arange(dst.region.start, dst.region.start + dst.region.partitions)
        return lfsr_draw(int(seeds.values[0, 0]), lanes, dst.region.elements), None
    return draw(seeds.values, dst.region.elements)


def rng(case: Case):
    dst = case.steps[1].operands["dst"]
    return {dst.name: bits_of(random_words(case, dst)[0], dst.dtype)}


def make_rand2(make: Maker) -> Case:
    p, n = make.shape(40)
    first, start = with_state(make, p, "vector")
    dst = make.tile(make.dtype("trn3", "float", "int"), p, n, space=make.space(), writes=True, start=start)
    low = make.number()
    return Case("trn3", "vector", [first, Step("rand2", {"dst": dst, "min": low, "max": low + abs(make.number()) + 1})])


def rand2(case: Case):
    o = case.steps[1].operands
    low, high = np.float32(o["min"]), np.float32(o["max"])
    return {o["dst"].name: low + uniform(random_words(case, o["dst"])[0]) * (high - low)}


def make_rand_state(make: Maker) -> Case:
    """Set, draw, get: the state that comes back is the advanced one."""
    p, n = make.shape(30)
    chip, engine = make.pick(("trn2", "gpsimd"), ("trn3", "gpsimd"), ("trn3", "vector"))
    first, start = with_state(make, p, engine)
    drawn = make.tile("u32", p, n, space=make.space(engine), writes=True, start=start)
    state = make.tile("u32", p, 6 if engine == "gpsimd" else 24, space=make.space(engine), writes=True, start=start)
    return Case(chip, engine, [first, Step("rng", {"dst": drawn}), Step("rand_get_state", {"dst": state})])


def rand_state(case: Case):
    drawn, state = case.steps[1].operands["dst"], case.steps[2].operands["dst"]
    values, after = random_words(case, drawn)
    return {drawn.name: values.astype(np.uint32), state.name: after}


def make_set_rng_seed(make: Maker) -> Case:
    """Seeds XORWOW on NeuronCore-v4; the LFSR is in rng's cases."""
    seed = make.tile(make.pick("u32", "s32"), 1, 1, space=make.space(), plain=True)
    p, _ = make.shape()
    state = make.tile("u32", p, 24, space=make.space(), writes=True)
    return Case("trn3", "vector", [Step("set_rng_seed", {"src_seeds": seed}), Step("rand_get_state", {"dst": state})])


def set_rng_seed(case: Case):
    state = case.steps[1].operands["dst"]
    key = int(words(case["src_seeds"].values)[0, 0])
    lane = np.arange(state.region.start, state.region.start + state.region.partitions)[:, None] * 4 + np.arange(4)
    zero, one = 0 * lane, 0 * lane + 1
    a, b = philox([lane, zero, zero, one], key), philox([lane, zero, one, one], key)
    out = np.stack([a[0] | np.uint64(1), a[1], a[2], a[3], b[0], b[1]], axis=-1)
    return {state.name: out.reshape(len(out), 24).astype(np.uint32)}


def make_dropout(make: Maker) -> Case:
    p, n = make.shape(40)
    if make.chance(0.5):
        chip, start = make.pick("trn1", "trn2"), None
        first = Step("set_rng_seed", {"src_seeds": make.tile("u32", 1, 1, plain=True)})
    else:
        chip = "trn3"
        first, start = with_state(make, p, "vector")
    data = make.tile(make.dtype(chip, "float", "int"), p, n, space=make.space())
    dst = make.tile(data.dtype, p, n, space=make.space(), writes=True, start=start)
    prob = make.pick(0.0, 1.0, float(np.float32(make.rng.random())), None)
    if prob is None:
        prob = make.tile("f32", p, 1, space=make.space(), writes=True, values=f32(make.rng.random((p, 1))))
    return Case(chip, "vector", [first, Step("dropout", {"dst": dst, "data": data, "prob": prob})])


def dropout(case: Case):
    o = case.steps[1].operands
    u = uniform(random_words(case, o["dst"])[0])
    drop = u < scalar_values(o["prob"], len(u))
    return {o["dst"].name: bits_of(np.where(drop, 0, words(o["data"].values)), o["dst"].dtype)}


TABLE = {
    "rng": Meaning(make_rng, rng),
    "rand2": Meaning(make_rand2, rand2),
    "rand_set_state, rand_get_state": Meaning(make_rand_state, rand_state),
    "set_rng_seed": Meaning(make_set_rng_seed, set_rng_seed),
    "dropout": Meaning(make_dropout, dropout),
}
