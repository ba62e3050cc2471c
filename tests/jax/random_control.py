"""Steps of random programs: reductions, orders, windows, products, and control flow with programs inside."""

import numpy as np
from random_programs import COMMON, whole_most
from random_steps import INF, axis_of, indices, number
from random_steps import STEPS as PLAIN


def axes_of(s, x):
    axes = tuple(a for a in range(x.ndim) if s.roll(2))
    return axes or (axis_of(s, x),)


def reduce_(s, x):
    axes = axes_of(s, x)
    terms = int(np.prod([x.shape[a] for a in axes]))
    if x.truth:
        return s.add(f"jnp.{s.pick(['any', 'all', 'sum'])}({x.name}, {axes})", terms)
    if s.roll(2):
        if x.bound * terms > whole_most("float32") and x.real:
            x = s.small(x, 9)
        kind = "float32" if x.real and x.dtype != "float64" else x.dtype
        return s.add(f"jnp.sum({x.name}, {axes}, dtype=jnp.{kind}, keepdims={bool(s.roll(2))})", INF if x.whole else x.bound * terms)
    if x.whole and s.roll(2):
        return s.add(f"lax.{s.pick(['reduce_and', 'reduce_or', 'reduce_xor', 'reduce_max'])}({x.name}, {axes})", INF)
    if x.complex or not terms:
        raise ValueError("no order")
    return s.add(f"jnp.{s.pick(['max', 'min'])}({x.name}, {axes}, keepdims={bool(s.roll(2))})", x.bound)


def own_reduce(s, x):
    """Pairs reduced by a function of the program: the largest and where it is, with a rule for ties."""
    x, axis = number(s, x), axis_of(s, x)
    if x.complex or not x.size or "float8" in x.dtype:
        raise ValueError("no least number")
    i = s.add(f"lax.broadcasted_iota(jnp.int32, {x.shape}, {axis})", x.shape[axis])
    tie = s.pick(["<", ">"])
    pick = f"lambda a, b: (lambda k: (jnp.where(k, a[0], b[0]), jnp.where(k, a[1], b[1])))((a[0] > b[0]) | ((a[0] == b[0]) & (a[1] {tie} b[1])))"
    least = f"jnp.iinfo(jnp.{x.dtype}).min" if x.whole else "-jnp.inf"
    # An identity of the function: XLA leaves out what it starts from where one element is reduced.
    first = f"jnp.asarray({least}, {x.name}.dtype), jnp.int32({-1 if tie == '>' else 2**31 - 1})"
    # Both results are needed: jaxlib 0.10.2 reads freed memory where it drops one of them.
    both = f"(lambda r: r[0] * 2 + r[1].astype({x.name}.dtype))"
    return s.add(f"{both}(lax.reduce(({x.name}, {i.name}), ({first}), {pick}, ({axis},)))", INF if x.whole else x.bound * 2 + i.bound)


def normed(s, x):
    """What softmax and layer norms look like, in whole numbers."""
    x = s.small(s.cast(x, "float32"), 100)
    axis = axis_of(s, x)
    m = s.add(f"{x.name} - jnp.max({x.name}, {axis}, keepdims=True)", 200)
    return s.add(f"{m.name} + jnp.sum({m.name}, {axis}, keepdims=True)", 200 * (1 + x.shape[axis]))


def running(s, x):
    axis, back = axis_of(s, x), bool(s.roll(2))
    x = number(s, x)
    if x.complex or s.roll(3) == 0:
        x = s.small(x, 1000)
        kind = "" if x.whole or x.complex else ".astype(jnp.float32)" if x.dtype != "float64" else ""
        return s.add(f"lax.cumsum({x.name}{kind}, {axis}, reverse={back})", INF if x.whole else x.bound * x.shape[axis])
    if x.whole and s.roll(3) == 0:
        return s.add(f"lax.cumprod({x.name}, {axis}, reverse={back})", INF)
    if s.roll(4) == 0:
        return s.add(f"lax.associative_scan(jnp.{s.pick(['maximum', 'minimum'])}, {x.name}, axis={axis}, reverse={back})", x.bound)
    return s.add(f"lax.{s.pick(['cummax', 'cummin'])}({x.name}, {axis}, reverse={back})", x.bound)


def largest(s, x):
    return s.add(f"jnp.{s.pick(['argmax', 'argmin'])}({number(s, x).name}, {axis_of(s, x)})", 1000)


def sort(s, x):
    axis = axis_of(s, x)
    if x.complex:
        raise ValueError("no order")
    kind = s.roll(5)
    if kind == 0:
        return s.add(f"jnp.sort({x.name}, {axis}, descending={bool(s.roll(2))})", x.bound)
    if kind == 1:
        return s.add(f"jnp.argsort({x.name}, {axis}, stable=True, descending={bool(s.roll(2))})", 1000)
    if kind == 2 and x.dtype in ("float32", "int32", "bfloat16"):
        return s.add(f"lax.top_k({x.name}, {1 + s.roll(x.shape[-1])})[{s.roll(2)}]", max(1000, x.bound))
    others = [s.shaped(x.shape, s.pick(COMMON)) for _ in range(1 + s.roll(2))]
    keys, operands = 1 + s.roll(1 + len(others)), [x, *others]
    at = s.roll(len(operands))
    listed = ", ".join(v.name for v in operands)
    return s.add(f"lax.sort(({listed}), dimension={axis}, num_keys={keys})[{at}]", operands[at].bound)


def windowed(s, x):
    window = tuple(1 + s.roll(min(3, d)) for d in x.shape)
    strides, base, dilation = (tuple(s.pick([1, 1, most]) for _ in x.shape) for most in (2, 2, 2))
    padding = s.pick(["'SAME'", "'VALID'", str([(s.roll(3), s.roll(2)) for _ in x.shape])])
    return f"{window}, {strides}, {padding}, {base}, {dilation}", int(np.prod(window))


def reduce_window(s, x):
    x = number(s, x)
    text, terms = windowed(s, x)
    if x.complex or s.roll(2):
        x = s.small(s.cast(x, "float32") if x.real else x, 1000)
        return s.add(f"lax.reduce_window({x.name}, jnp.zeros((), {x.name}.dtype), lax.add, {text})", INF if x.whole else x.bound * terms)
    low = f"jnp.asarray({'jnp.iinfo' if x.whole else 'jnp.finfo'}({x.name}.dtype).{{}}, {x.name}.dtype)"
    name, first = s.pick([("max", "min"), ("min", "max")])
    found = s.add(f"jnp.clip(lax.reduce_window({x.name}, {low.format(first)}, lax.{name}, {text}), -9, 9).astype({x.name}.dtype)", INF if x.whole else 9)
    return found


def pool_gradient(s, x):
    """select_and_scatter, ties too. Not of scalars: XLA aborts."""
    axis_of(s, x)
    x = s.small(s.cast(x, "float32"), 3)
    window, strides = (tuple(1 + s.roll(min(3, d)) for d in x.shape) for _ in range(2))
    name, first = s.pick([("max", "-jnp.inf"), ("min", "jnp.inf")])
    pool = f"lambda a: lax.reduce_window(a, {first}, lax.{name}, {window}, {strides}, '{s.pick(['SAME', 'VALID'])}')"
    return s.add(f"jax.vjp({pool}, {x.name})[1](jnp.ones_like(({pool})({x.name})) * 2)[0]", 2 * 9**x.ndim)


def product(s, x):
    """dot_general with dims of any order."""
    x = s.small(number(s, x), 9 if s.roll(2) else 3) if not x.whole else x
    order = [int(a) for a in s.g.permutation(x.ndim)]
    batch, contract = s.roll(min(3, x.ndim + 1)), s.roll(3)
    batch, contract = order[:batch], order[batch : batch + contract]
    dims = [x.shape[a] for a in batch + contract] + [s.pick([1, 2, 3, 8, 17, 33]) for _ in range(s.roll(3))]
    terms = int(np.prod([x.shape[a] for a in contract], dtype=np.int64))
    out = int(np.prod([d for a, d in enumerate(x.shape) if a not in contract] + dims[len(batch) + len(contract) :], dtype=np.int64))
    if np.prod(dims) > s.maker.elements or out * terms > 300 * s.maker.elements:
        raise ValueError("too large")
    turn = [int(a) for a in s.g.permutation(len(dims))]
    y = s.shaped(tuple(dims[a] for a in turn), x.dtype, 9 if not x.whole else INF)
    where = {a: turn.index(a) for a in range(len(dims))}
    right = [where[a] for a in range(len(batch))], [where[len(batch) + a] for a in range(len(contract))]
    numbers = f"(({contract}, {right[1]}), ({batch}, {right[0]}))"
    wider = {"bfloat16": "float32", "float16": "float32", "int8": "int32", "uint8": "int32", "int4": "int32"}.get(x.dtype)
    if x.dtype in ("bfloat16", "float16") or (wider and s.roll(2)):
        return s.add(f"lax.dot_general({x.name}, {y.name}, {numbers}, preferred_element_type=jnp.{wider})", x.bound * y.bound * terms)
    return s.add(f"lax.dot_general({x.name}, {y.name}, {numbers})", INF if x.whole else 2 * x.bound * y.bound * terms)


def convolution(s, x):
    groups, rank = 1 + s.roll(2), 1 + s.roll(2)
    inside, outside = groups * (1 + s.roll(4)), groups * (1 + s.roll(9))
    space, kernel = [s.pick([3, 5, 8, 17]) for _ in range(rank)], [1 + s.roll(3) for _ in range(rank)]
    kind = s.pick(["float32", "float32", "int32", "bfloat16"])
    batch_groups = s.roll(8) == 0
    a = s.shaped((2, inside, *space), kind, 4)
    b = s.shaped((outside * 2, inside, *kernel) if batch_groups else (outside, inside // groups, *kernel), kind, 4)
    padding = s.pick(["'SAME'", "'VALID'", str([(s.roll(3) - (d > 4), s.roll(3)) for d in space])])
    more = "batch_group_count=2" if batch_groups else f"feature_group_count={groups}"
    strides, left, right = ([1 + s.roll(2) for _ in space] for _ in range(3))
    left = left if padding[0] == "[" else None
    wide = ", preferred_element_type=jnp.float32" if kind == "bfloat16" else ""
    text = f"lax.conv_general_dilated({a.name}, {b.name}, {strides}, {padding}, {left}, {right}, {more}{wide})"
    return s.add(text, 16 * inside * int(np.prod(kernel)))


def library(s, x):
    """Functions of jax.numpy and jax.random that are programs themselves."""
    v = s.shaped((s.pick([1, 5, 16, 33]),), "int32", 20)
    return s.add(s.pick([
        f"jnp.bincount(jnp.abs({v.name}), length=7)", f"jnp.searchsorted(jnp.sort({v.name}), {v.name}[::2])",
        f"jnp.nonzero({v.name} > 0, size=6, fill_value=-1)[0]", f"jnp.unique({v.name}, size=5, fill_value=-2)",
        f"jax.nn.one_hot({v.name}, 6)", f"jax.ops.segment_sum({v.name}, jnp.abs({v.name}) % 5, 4)",
        f"jnp.convolve({v.name}, jnp.arange(3), mode='same')", f"jnp.interp({v.name}.astype(jnp.float32), jnp.arange(4.0), jnp.arange(4.0))",
        f"jax.random.randint(jax.random.key({v.name}[0]), {v.shape}, -5, 9)", f"jax.random.bits(jax.random.key({s.roll(99)}), (5,))",
        f"jax.random.permutation(jax.random.key(3), {v.name})", f"jnp.cross(jnp.stack([{v.name}] * 3, -1), jnp.arange(3))",
        f"jnp.diff({v.name})", f"jnp.outer({v.name}, {v.name})", f"jnp.kron({v.name}, jnp.arange(3))", f"jnp.trace(jnp.outer({v.name}, {v.name}))",
        f"jnp.select([{v.name} > 3, {v.name} < 0], [{v.name}, -{v.name}], 7)", f"jnp.packbits({v.name} > 0)", f"jnp.gcd({v.name}, 12)",
        f"jnp.median({v.name}[: 2 * ({v.size} // 2) + 1 if {v.size} % 2 else {v.size} - 1])", f"jnp.rot90(jnp.outer({v.name}, {v.name}))",
    ]), 20**4)  # fmt: skip


def back(s, t, bound=9):
    """The name of a value of the type of t, for a function to give back."""
    source = s.pick([v for v in s.values[-3:] if v.size or not t.size] or s.values)
    return s.small(s.shaped(t.shape, t.dtype, source=source), INF if t.whole or t.truth else bound).name


def carried(s, x):
    """x within what carries are kept to."""
    return x if x.whole or x.truth else s.small(x, 9)


def nested(step):
    """Not more than two functions deep."""

    def guarded(s, x):
        if s.depth > 1 or x.size > 3000:
            raise ValueError("deep enough")
        return step(s, x)

    return guarded


@nested
def conditional(s, x):
    x, out = carried(s, x), carried(s, s.like(x))
    ways = 1 + s.roll(3)
    functions = [s.function([x], lambda t, v: made(t, v, out)) for _ in range(ways)]
    if ways == 2:
        return s.add(f"lax.cond({flag(s)}, {functions[0]}, {functions[1]}, {x.name})", 9 if not x.whole else INF)
    v = indices(s, (), ways)
    return s.add(f"lax.switch({v.name}.astype(jnp.int32), [{', '.join(functions)}], {x.name})", 9 if not x.whole else INF)


def made(scope, values, *types):
    for _ in range(1 + scope.roll(4)):
        scope.maker.step(scope)
    names = [back(scope, t) for t in types]
    return names if len(names) > 1 else names[0]


def flag(s):
    v = s.pick([v for v in s.values if v.size and not v.complex] or s.values)
    return f"{v.name}.reshape(-1)[{s.roll(v.size)}] > 0"


@nested
def fori(s, x):
    x = carried(s, x)

    def fill(scope, values):
        return made(scope, values, x)

    i = s.add("jnp.int32(0)", 5)
    function = s.function([i, x], fill)
    trips = s.pick(["0", "1", "3", "5"] + [f"{v.name}.reshape(-1)[0].astype(jnp.int32) % 4" for v in s.values if v.whole and v.size][:3])
    return s.add(f"lax.fori_loop({s.roll(2)}, {trips}, {function}, {x.name})", INF if x.whole else 9)


@nested
def while_(s, x):
    """Ends by a count and by what it carries."""
    x, y = carried(s, x), carried(s, s.pick(s.values))

    def test(scope, values):
        return f"({values[0].name} < {s.roll(6)}) & ({flag_of(scope, values[1])})"

    def fill(scope, values):
        names = made(scope, values, x, y)
        if s.roll(4) == 0:  # what the condition reads is set once and for all
            names[0] = s.pick([x.name, f"jnp.zeros_like({x.name})"])
        return f"{values[0].name} + 1, {', '.join(names)}"

    i = s.add("jnp.int32(0)", 5)
    condition, function = s.function([i, x, y], test, "c"), s.function([i, x, y], fill)
    loop = f"lax.while_loop(lambda t: {condition}(*t), lambda t: tuple({function}(*t)), ({i.name}, {x.name}, {y.name}))"
    at = s.roll(3)
    return s.add(f"{loop}[{at}]", [6, x.bound, y.bound][at] if not [i, x, y][at].real else 9)


def flag_of(scope, v):
    return f"jnp.all({v.name}.reshape(-1)[:1] <= {scope.roll(9)})" if not v.complex else "True"


@nested
def scan(s, x):
    if not x.ndim:
        raise ValueError("nothing to go along")
    c, row = carried(s, s.pick([v for v in s.values if v.size <= 300] or s.values)), carried(s, x)
    if row.shape[0] > 40:
        row = s.add(f"{row.name}[:{s.roll(9)}]", row.bound)
    step = type(row)(row.name, row.shape[1:], row.dtype, row.bound)
    out = s.pick([c, step])

    def fill(scope, values):
        return made(scope, values, c, out)

    function = s.function([c, step], fill)
    at = s.roll(2)
    options = s.pick(["", ", reverse=True", ", unroll=2"])
    return s.add(f"lax.scan({function}, {c.name}, {row.name}{options})[{at}]", INF if [c, out][at].whole else 9)


@nested
def mapped(s, x):
    """vmap over any axis, and lax.map."""
    axis = axis_of(s, x)
    x = carried(s, x)
    lane = type(x)(x.name, x.shape[:axis] + x.shape[axis + 1 :], x.dtype, x.bound)
    function = s.function([lane], lambda t, v: made(t, v, s.pick([lane, lane])))
    if x.shape[axis] < 9 and s.roll(4) == 0:
        return s.add(f"lax.map({function}, jnp.moveaxis({x.name}, {axis}, 0))", INF if x.whole else 9)
    return s.add(f"jax.vmap({function}, {axis}, {s.roll(max(1, x.ndim))})({x.name})", INF if x.whole else 9)


@nested
def called(s, x):
    x = carried(s, x)
    function = s.function([x], lambda t, v: made(t, v, x))
    return s.add(f"{s.pick(['jax.jit', 'jax.checkpoint'])}({function})({x.name})", INF if x.whole else 9)


POLYNOMIALS = [
    "{0} * {0}", "{0} + {1}", "{0} * {1}", "{0} * 2 - {1}", "jnp.flip({0})", "jnp.sum({0}, keepdims=True)", "jnp.cumsum({0}, -1)",
    "{0}.T", "{0} @ {0}.T", "jnp.concatenate([{0}, {1}])[1:]", "jnp.roll({0}, 1)", "jnp.maximum({0}, {1})", "jnp.where({0} > {1}, {0}, {1} * 2)",
    "jnp.pad({0}, 1)", "{0}[::-1]", "{0}.reshape(-1)", "jnp.take({0}, np.array([0, 0, 1]), 0, mode='clip')", "{0}[..., :3] * 3",
    "lax.fori_loop(0, 2, lambda i, c: c + {1}, {0})", "lax.scan(lambda c, r: (c + r, c * r), {0}[0], {0})[1]", "jnp.max({0}, 0, keepdims=True)",
    "jnp.sort({0}, 0)", "jnp.prod({0}[:2], 0)", "{0}.at[0].set({1}[0])", "{0}.at[jnp.array([0, 1, 0])].add(1)",
]  # fmt: skip


@nested
def gradient(s, x):
    """Of polynomials, forwards or backwards: whole numbers stay whole."""
    shape = s.pick([(2,), (3, 2), (5,), (4, 4), (1, 7), (3, 17)])
    x = s.shaped(shape, "float32", 2)

    def fill(scope, values):
        names = [values[0].name]
        for _ in range(1 + s.roll(4)):
            try:
                text = s.pick(POLYNOMIALS).format(s.pick(names[-2:]), s.pick(names))
                names.append(scope.add(text, 0).name)
            except (TypeError, ValueError):
                continue
        return f"jnp.sum({names[-1]})"

    function = s.function([x], fill)
    way = s.pick(["jax.grad({0})({1})", "jax.jvp({0}, ({1},), (jnp.ones_like({1}),))[1]", "jax.jacfwd({0})({1})", "jax.hessian({0})({1})", "jax.value_and_grad({0})({1})[0]"])
    return s.add(way.format(function, x.name), 2**23)


STEPS = PLAIN + [
    reduce_, reduce_, reduce_, own_reduce, normed, running, running, largest, sort, sort, reduce_window, reduce_window, pool_gradient,
    product, product, product, convolution, library, library, conditional, fori, while_, scan, mapped, called, gradient,
]  # fmt: skip
