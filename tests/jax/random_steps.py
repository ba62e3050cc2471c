"""Steps of random programs, one function each: a scope and a value in it, and the lines they add.

Elements, shapes and places here; sums, products and control flow in random_control.py. Each gives a bound of
what it makes, so that floats stay whole numbers.
"""

import numpy as np
from random_programs import COMMON, NARROW, WIDE

INF = np.inf


def number(s, x):
    """x, or as an integer where it is a truth."""
    return s.cast(x, "int32") if x.truth else x


def axis_of(s, x):
    return s.roll(x.ndim)  # of a scalar: an error, and the step is dropped


def binary(s, x):
    y = s.like(x)
    if x.truth:
        return s.add(f"{x.name} {s.pick('&|^')} {y.name}", 1)
    kind = s.roll(6 if not x.complex else 3)
    if kind == 2 and max(x.bound, y.bound) < 2**20:
        return s.add(f"{x.name} * {y.name}", x.bound * y.bound * (2 if x.complex else 1))
    if kind == 2 and x.whole:
        return s.add(f"{x.name} * {y.name}", INF)
    if kind < 3:
        return s.add(f"{x.name} {'+-'[s.roll(2)]} {y.name}", INF if x.whole else x.bound + y.bound)
    if kind == 3:
        return s.add(f"jnp.maximum({x.name}, {y.name})", max(x.bound, y.bound))
    if kind == 4:
        return s.add(f"jnp.minimum({x.name}, {y.name})", max(x.bound, y.bound))
    return s.add(f"lax.rem({x.name}, jnp.where({y.name} == 0, 1, {y.name}).astype({y.name}.dtype))", x.bound)


def scalar(s, x):
    """With a constant."""
    x, c = number(s, x), s.roll(4) + (not x.dtype.startswith("uint"))
    if x.dtype in NARROW:
        c = 1
    text = s.pick([f"{x.name} * {c}", f"{x.name} + {c}", f"{c} - {x.name}"])
    return s.add(f"({text}).astype(jnp.{x.dtype})", INF if x.whole else x.bound * 5 + 5)


def unary(s, x):
    if x.truth:
        return s.add(f"~{x.name}", 1)
    if x.complex:
        return s.add(s.pick(["jnp.conj({0})", "-{0}", "{0}.real", "{0}.imag"]).format(x.name), x.bound)
    if s.roll(3) == 0 and x.bound < 100:
        return s.add(s.pick(["jnp.square({0})", "lax.integer_pow({0}, 3)"]).format(x.name), x.bound**3)
    same = ["-{0}", "jnp.abs({0})", "jnp.sign({0})"] + (["jnp.floor({0})", "jnp.round({0})", "jnp.trunc({0})"] if x.real else [])
    return s.add(s.pick(same).format(x.name), INF if x.whole else max(1, x.bound))


def bits(s, x):
    x = s.cast(x, s.pick(["int32", "uint8", "int16"])) if not x.whole else x
    y = s.like(x)
    text = s.pick([
        "{0} & {1}", "{0} | {1}", "{0} ^ {1}", "~{0}", "lax.shift_left({0}, {1})", "lax.shift_right_logical({0}, {1})",
        "lax.shift_right_arithmetic({0}, {1})", "lax.population_count({0})", "lax.clz({0})", "lax.div({0}, {1})",
        "lax.rem({0}, {1})", "{0} // {1}", "{0} % {1}", "lax.mulhi({0}, {1})",
    ])  # fmt: skip
    return s.add(text.format(x.name, y.name), INF)


def compare(s, x):
    y = s.like(x)
    text = s.pick(["==", "!="] if x.complex else ["==", "!=", "<", "<=", ">", ">="])
    return s.add(f"{x.name} {text} {y.name}", 1)


def choose(s, x):
    y, z = s.like(x), s.shaped(x.shape, "bool")
    if s.roll(3) == 0 and not (x.complex or x.truth):
        return s.add(f"lax.clamp({y.name}, {x.name}, {s.like(x).name})", max(v.bound for v in s.values[-6:] + [x, y] if v.dtype == x.dtype))
    return s.add(f"jnp.where({z.name}, {x.name}, {y.name})", max(x.bound, y.bound))


def convert(s, x):
    kinds = COMMON + (NARROW if s.roll(3) == 0 else []) + (WIDE if s.maker.program.wide else [])
    return s.cast(x, s.pick(kinds))


def bitcast(s, x):
    if x.real and x.dtype in ("float32", "bfloat16", "float16"):
        return s.add(f"lax.bitcast_convert_type({x.name} + 1, jnp.{'uint32' if x.dtype == 'float32' else 'int16'})", INF)
    x = s.cast(x, s.pick(["int8", "uint16", "int32", "uint32"]))
    to = s.pick(["uint8", "int8", "uint16", "int32", "uint32"] + ["int64"] * s.maker.program.wide)
    return s.add(f"lax.bitcast_convert_type({x.name}, jnp.{to})", INF)


def transpose(s, x):
    return s.add(f"jnp.transpose({x.name}, {tuple(int(a) for a in s.g.permutation(x.ndim))})", x.bound)


def reshape(s, x):
    """Dims cut and merged at random."""
    rest, dims = x.size, []
    while rest > 1 and len(dims) < 4:
        dims.append(s.pick([d for d in range(1, min(rest, 70) + 1) if rest % d == 0]))
        rest //= dims[-1]
    text = s.pick([f"{x.name}.reshape({(*dims, rest)})", f"{x.name}.reshape(-1)", f"{x.name}.reshape({x.shape[::-1]})"])
    return s.add(text, x.bound)


def spread(s, x):
    text = s.pick([
        f"jnp.broadcast_to({x.name}[None], {(1 + s.roll(3), *x.shape)})", f"{x.name}[..., None] + jnp.zeros(({1 + s.roll(4)},), {x.name}.dtype)",
        f"jnp.tile({x.name}, {1 + s.roll(3)})", f"jnp.repeat({x.name}, {1 + s.roll(3)}, {s.roll(max(1, x.ndim))})", f"jnp.squeeze({x.name})",
        f"{x.name}[None]",
    ])  # fmt: skip
    return s.add(text, x.bound)


def slice_(s, x):
    parts = [":"] if not x.ndim else []  # of a scalar: an error
    for d in x.shape:
        step, low = s.pick([1, 1, 1, 2, 3, -1, -2]), s.roll(d + 1)
        parts.append(f"{low}::{step}" if step > 0 else f"{low}::{step}" if s.roll(2) else f"::{step}")
    return s.add(f"{x.name}[{', '.join(s.pick([p, ':', p]) for p in parts)}]", x.bound)


def reverse(s, x):
    axes = tuple(a for a in range(x.ndim) if s.roll(2)) or (axis_of(s, x),)
    return s.add(f"lax.rev({x.name}, {axes})", x.bound)


def roll(s, x):
    return s.add(f"jnp.roll({x.name}, {s.roll(9) - 4}, {axis_of(s, x)})", x.bound)


def pad(s, x):
    config = [(s.pick([-2, -1, 0, 0, 1, 3]), s.pick([-3, -1, 0, 0, 2]), s.pick([0, 0, 0, 1, 2])) for _ in x.shape]
    fill = f"jnp.asarray({s.roll(3)}, {x.name}.dtype)"
    if x.size and s.roll(3) == 0:
        fill = f"{x.name}.reshape(-1)[0]"
    return s.add(f"lax.pad({x.name}, {fill}, {config})", max(3, x.bound))


def concatenate(s, x):
    axis, parts = axis_of(s, x), [x.name]
    for _ in range(1 + s.roll(3)):
        y = s.like(x)
        low = s.roll(y.shape[axis] + 1)
        parts.append(y.name if s.roll(2) else f"lax.slice_in_dim({y.name}, {low}, {y.shape[axis]}, axis={axis})")
    return s.add(f"jnp.concatenate([{', '.join(parts)}], {axis})", max(v.bound for v in s.values if v.dtype == x.dtype))


def triangle(s, x):
    return s.add(f"jnp.{s.pick(['tril', 'triu'])}({x.name}, {s.roll(5) - 2})", x.bound)


def count(s, x):
    """Numbers of places."""
    kind = s.pick(["int32", "float32", "uint8"])
    x = s.cast(x, kind)
    return s.add(f"{x.name} + lax.broadcasted_iota(jnp.{kind}, {x.shape}, {axis_of(s, x)})", INF if x.whole else x.bound + 1000)


def indices(s, shape, most):
    """Integers around 0 .. most, computed in the program or constants; outside of it now and then."""
    # Not of 8 bits where there are more places: XLA's bounds overflow then.
    kind = s.pick(["int32", "int32"] + ["uint8", "int8", "int16"] * (most < 100) + ["int64"] * s.maker.program.wide)
    if s.roll(2):
        v = s.shaped(shape, kind, bound=100)
        return s.add(f"{v.name} % {min(100, max(1, most + s.pick([0, 0, 2])))} - {s.pick([0, 0, 1, 3])}", INF)
    low, high = s.pick([(0, most), (0, most), (-most - 2, most + 3)])
    low, high = (max(low, -128), min(high, 127)) if kind == "int8" else (max(0, low), min(high, 255)) if kind == "uint8" else (low, high)
    return s.add(f"jnp.asarray(np.random.default_rng({s.roll(99)}).integers({low}, {max(high, low + 1)}, {tuple(shape)}), jnp.{kind})", INF)


def start(s, d):
    """The place of a dynamic slice: a constant, odd ones too, or a number of the program."""
    if s.roll(3):
        return str(s.pick([0, 1, d // 2, d, d + 3, -1, -d - 2, d - 1]))
    v = s.pick([v for v in s.values if v.whole and v.size] or [s.cast(s.values[0], "int32")])
    return f"{v.name}.reshape(-1)[{s.roll(v.size)}].astype(jnp.int32)"


def dynamic_slice(s, x):
    part = tuple(s.roll(d + 1) for d in x.shape)
    if s.roll(2):
        at = [f"jnp.int32({s.roll(d - p + 1)})" for d, p in zip(x.shape, part)]
        return s.add(f"lax.dynamic_slice({x.name}, [{', '.join(at)}], {part})", x.bound)
    at = [start(s, d) for d in x.shape]
    # Behind a barrier: of two slices XLA's CPU makes one, and forgets that the first is moved to lie inside.
    return s.add(f"lax.optimization_barrier(lax.dynamic_slice({x.name}, [{', '.join(at)}], {part}))", x.bound)


def dynamic_update(s, x):
    part = tuple(s.pick([d, s.roll(d + 1)]) for d in x.shape)
    at = [start(s, d) for d in x.shape]
    if s.maker.program.places is not None:  # XLA's partitioner leaves out what would be moved to lie inside
        at = [f"jnp.int32({s.roll(d - p + 1)})" for d, p in zip(x.shape, part)]
    y = s.shaped(part, x.dtype)
    return s.add(f"lax.dynamic_update_slice({x.name}, {y.name}, [{', '.join(at)}])", max(x.bound, y.bound))


def take(s, x):
    axis = axis_of(s, x)
    i = indices(s, tuple(1 + s.roll(6) for _ in range(s.roll(3))), x.shape[axis])
    mode = s.pick(["clip", "wrap", "fill", "fill"])
    # Signed and in 32 bits: jnp.take of uint8 overflows where it makes negative numbers positive.
    fill = ", fill_value=1" if mode == "fill" else ""
    return s.add(f"jnp.take({x.name}, {i.name}.astype(jnp.int32), {axis}, mode='{mode}'{fill})", max(1, x.bound))


def take_along(s, x):
    axis = axis_of(s, x)
    i = indices(s, tuple(1 + s.roll(6) if a == axis else d for a, d in enumerate(x.shape)), x.shape[axis])
    return s.add(f"jnp.take_along_axis({x.name}, {i.name}.astype(jnp.int32), {axis}, mode='{s.pick(['clip', 'promise_in_bounds'][:1])}')", x.bound)


def window_gather(s, x):
    """lax.gather with windows: some dims indexed, some collapsed."""
    n, count = x.ndim, 1 + s.roll(3)
    dims = sorted(int(a) for a in s.g.permutation(n)[: 1 + s.roll(n)])
    sizes = [1 + s.roll(d) for d in x.shape]
    collapsed = tuple(d for d in range(n) if s.roll(2) and d in dims)
    sizes = tuple(1 if d in collapsed else z for d, z in enumerate(sizes))
    i = indices(s, (count, len(dims)), max(x.shape[d] for d in dims))
    offset = tuple(range(1, 1 + n - len(collapsed))) if s.roll(2) else tuple(range(n - len(collapsed)))
    numbers = f"lax.GatherDimensionNumbers({offset}, {collapsed}, {tuple(dims)})"
    mode = s.pick(["CLIP", "FILL_OR_DROP"])
    more = ", fill_value=0" if mode == "FILL_OR_DROP" else ""
    return s.add(f"lax.gather({x.name}, {i.name}, {numbers}, {sizes}, mode=lax.GatherScatterMode.{mode}{more})", x.bound)


def scatter(s, x):
    axis = axis_of(s, x)
    i = indices(s, (1 + s.roll(6),), x.shape[axis])
    y = s.shaped((*x.shape[:axis], i.size, *x.shape[axis + 1 :]), x.dtype)
    # With set, of an index that occurs twice any of the values may stay: XLA keeps the last, and so do we.
    ways = ["set"] if x.truth else ["set", "add"] if x.complex else ["set", "add", "add", "min", "max"] + ["multiply"] * x.whole
    way, before = s.pick(ways), ":, " * axis
    bound = x.bound + i.size * y.bound if way == "add" else max(x.bound, y.bound)
    index = s.pick([i.name, f"{i.name}.astype(jnp.int32)"])
    return s.add(f"{x.name}.at[{before}{index}].{way}({y.name}, mode='{s.pick(['drop', 'clip', 'fill'])}')", INF if x.whole else bound)


def window_scatter(s, x):
    """lax.scatter with windows, those that reach past the end dropped or moved."""
    n, count = x.ndim, 1 + s.roll(3)
    dims = sorted(int(a) for a in s.g.permutation(n)[: 1 + s.roll(n)])
    inserted = tuple(d for d in dims if s.roll(2))
    sizes = tuple(1 + s.roll(d) for a, d in enumerate(x.shape) if a not in inserted)
    i = indices(s, (count, len(dims)), max(x.shape[d] for d in dims))
    numbers = f"lax.ScatterDimensionNumbers({tuple(range(1, 1 + len(sizes)))}, {inserted}, {tuple(dims)})"
    y = s.shaped((count, *sizes), x.dtype)
    way = "scatter" if x.truth else s.pick(["scatter", "scatter_add", "scatter_max"][: 2 if x.complex else 3])
    mode = f"mode=lax.GatherScatterMode.{s.pick(['CLIP', 'FILL_OR_DROP'])}"
    return s.add(f"lax.{way}({x.name}, {i.name}, {y.name}, {numbers}, {mode})", INF if x.whole else x.bound + count * y.bound)


def element_index(s, x):
    """x[i, j] and x.at[i, j]."""
    if x.ndim < 2:
        raise ValueError("one dim")
    i, j = (indices(s, (1 + s.roll(5),) if k == 0 else (1 + s.roll(3), 1), x.shape[k]) for k in range(2))
    at = f"[{i.name}.astype(jnp.int32), {j.name}.astype(jnp.int32)]"
    if s.roll(2) or x.truth or x.complex:
        return s.add(f"{x.name}{at}", x.bound)
    return s.add(f"{x.name}.at{at}.{s.pick(['add', 'max', 'set'])}({x.name}.reshape(-1)[0])", INF if x.whole else x.bound * 20)


STEPS = [
    binary, binary, binary, binary, scalar, unary, bits, compare, choose, convert, convert, bitcast, transpose, transpose, reshape, reshape,
    spread, slice_, slice_, reverse, roll, pad, pad, concatenate, triangle, count, dynamic_slice, dynamic_update, take, take_along,
    window_gather, scatter, scatter, window_scatter, element_index,
]  # fmt: skip
