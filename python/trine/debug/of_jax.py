"""The graph of a JAX function: its jaxpr with calls opened and short loops written out.

Ops run alone by their primitives on JAX's CPU. In f64 every floating type of the jaxpr is f64; an op that cannot be
(bits seen as numbers) runs in its own types.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import core, source_info_util

from trine.debug import jax_numpy
from trine.debug.graph import Graph, Leaf, Node, array_of, wide

BODIES = ("jaxpr", "call_jaxpr", "fun_jaxpr")
LOOPS = {"scan", "while", "cond"}
WHOLE = {"shard_map", "pallas_call", "custom_call", "xla_pmap"}
LONGEST = 64  # steps of a scan that are written out
NATIVE = {"bitcast_convert_type", "random_bits", "random_seed", "random_wrap", "random_unwrap", "threefry2x32", "random_split", "random_fold_in"}


def graph(function, args, names=None, chip=None):
    """Of function(*args). `names`: for each leaf of the arguments (name, kind)."""
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
    flat, _ = jax.tree.flatten(args)
    names = names or named(args)
    made = Writer()
    for (name, kind), value in zip(names, flat, strict=True):
        made.leaf(name, kind, value)
    ids = list(range(len(flat)))
    outs = made.inline(closed.jaxpr, closed.consts, ids, "")
    paths = [path_text(path) or "output" for path, _ in jax.tree_util.tree_flatten_with_path(shape)[0]]
    outputs = list(zip(paths, outs, strict=True))
    return Graph("jax", made.leaves, made.nodes, outputs, replay, functools.partial(on_chip, made, outputs, function, args, chip))


def path_text(path):
    return jax.tree_util.keystr(path, simple=True, separator=".")


def named(args):
    """Names by the place in the arguments: weights are the floats of a tree."""
    found = jax.tree_util.tree_flatten_with_path(args)[0]
    return [(path_text(path[1:]) or f"input {path[0].idx}", "weight" if len(path) > 1 and is_floating(value) else "input") for path, value in found]


class Writer:
    """Jaxprs into one list of nodes."""

    def __init__(self):
        self.leaves, self.nodes, self.count = [], [], 0

    def new(self):
        self.count += 1
        return self.count - 1

    def leaf(self, name, kind, value):
        self.leaves.append(Leaf(self.new(), name, kind, value))
        return self.leaves[-1].id

    def inline(self, jaxpr, consts, ids, scope):
        at = dict(zip(jaxpr.invars, ids, strict=True))
        for var, value in zip(jaxpr.constvars, consts, strict=True):
            at[var] = self.leaf("constant", "constant", value)

        def read(v):
            return self.leaf("literal", "constant", literal_of(v)) if isinstance(v, core.Literal) else at[v]

        for eqn in jaxpr.eqns:
            ins = [read(v) for v in eqn.invars]
            outs = self.equation(eqn, ins, joined(scope, str(eqn.source_info.name_stack)))
            at.update(zip(eqn.outvars, outs, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def equation(self, eqn, ins, scope):
        name = eqn.primitive.name
        body = next((eqn.params[k] for k in BODIES if k in eqn.params), None)
        if body is not None and name not in LOOPS | WHOLE:
            inner, consts = (body.jaxpr, body.consts) if isinstance(body, core.ClosedJaxpr) else (body, ())
            return self.inline(inner, consts, ins, scope)
        if name == "scan" and eqn.params["length"] <= LONGEST and eqn.params["length"] * len(eqn.params["jaxpr"].eqns) <= 20000:
            return self.written_out(eqn, ins, scope)
        return self.node(name, scope, line_of(eqn), ins, [v.aval for v in eqn.outvars], eqn, settings_of(eqn))

    def node(self, op, scope, line, ins, avals, what, settings=None):
        outs = [self.new() for _ in avals]
        dtypes = [getattr(getattr(a, "dtype", None), "name", "") for a in avals]
        shapes = [tuple(getattr(a, "shape", ())) for a in avals]
        self.nodes.append(Node(op, scope, line, ins, outs, dtypes, shapes, what, settings or {}))
        return outs

    def written_out(self, eqn, ins, scope):
        """A scan as its steps, one after the other; slices and the stack at the end are ops of ours."""
        p = eqn.params
        nc, nk, body, line = p["num_consts"], p["num_carry"], p["jaxpr"], line_of(eqn)
        consts, carry, xs = ins[:nc], ins[nc : nc + nk], ins[nc + nk :]
        steps = range(p["length"])
        stacked = [[None] * p["length"] for _ in eqn.outvars[nk:]]
        for i in reversed(steps) if p["reverse"] else steps:
            inside = joined(scope, f"step {i}")
            parts = [self.node("step", inside, line, [x], [v.aval], ("row", i))[0] for x, v in zip(xs, body.jaxpr.invars[nc + nk :], strict=True)]
            outs = self.inline(body.jaxpr, body.consts, [*consts, *carry, *parts], inside)
            carry = outs[:nk]
            for at, y in zip(stacked, outs[nk:], strict=True):
                at[i] = y
        ys = [self.node("stack", scope, line, rows, [v.aval], ("stack",))[0] for rows, v in zip(stacked, eqn.outvars[nk:], strict=True)]
        return [*carry, *ys]




def joined(outer, inner):
    return "/".join(part for part in (outer, inner) if part)


def literal_of(v):
    dtype = getattr(v.aval, "dtype", None)
    return v.val if dtype is None or jax.dtypes.issubdtype(dtype, jax.dtypes.extended) else np.asarray(v.val, dtype)


def line_of(eqn):
    frame = source_info_util.user_frame(eqn.source_info.traceback)
    return f"{frame.file_name.rsplit('/', 1)[-1]}:{frame.start_line}" if frame else ""


def settings_of(eqn):
    skipped = {"sharding", "out_sharding", "jaxpr", "branches", "cond_jaxpr", "body_jaxpr", "mode", "weak_type"}
    return {k: str(v) for k, v in eqn.params.items() if k not in skipped and v is not None and len(str(v)) < 200}


# one op


@functools.cache
def cpu():
    return jax.devices("cpu")[0]


def replay(node, values, is_wide):
    """One op on the host. In f64 values of floats come and go as f64."""
    if is_wide and not isinstance(node.what, tuple) and not uses_native(node):
        arrays = [wide_array(v) for v in values]
        found = jax_numpy.run(node.what.primitive.name, arrays, node.what.params)
        if found is not None:
            return found
    with jax.default_device(cpu()), jax.enable_x64(is_wide):
        if not is_wide:
            return run(node, [on_host(v) for v in values])
        values = [on_host(v if (a := wide_array(v)) is None else a) for v in values]
        if uses_native(node):
            return native(node, values)
        try:
            return [widened(v) for v in run(node, values, True)]
        except Exception:
            return native(node, values)


def wide_array(value):
    """In f64, as NumPy has it; None for keys and the like."""
    if hasattr(value, "dtype") and jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):
        return None
    found = array_of(value)
    return None if found is None else wide(found)


def uses_native(node):
    return getattr(getattr(node.what, "primitive", None), "name", "") in NATIVE


def native(node, values):
    """In the types the jaxpr has, and widened after."""
    avals = [v.aval for v in node.what.invars]
    with jax.enable_x64(False):
        given = [v.astype(a.dtype) if hasattr(v, "astype") and is_floating(v) else v for v, a in zip(values, avals, strict=True)]
        found = run(node, given)
    return [widened(v) for v in found]


def on_host(value):
    if hasattr(value, "devices") and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        return jax.device_put(value, cpu())
    return jnp.asarray(np.asarray(value)) if not isinstance(value, jax.core.Tracer) else value


def is_floating(v):
    return hasattr(v, "dtype") and jnp.issubdtype(v.dtype, jnp.floating)


def as_jax(value):
    return jnp.asarray(value) if isinstance(value, (np.ndarray, np.generic)) else value


def widened(v):
    return v.astype(jnp.float64) if is_floating(v) else v


def run(node, values, is_wide=False):
    what = node.what
    if isinstance(what, tuple):
        return [values[0][what[1]]] if what[0] == "row" else [jnp.stack(values)]
    return bound(what, values, is_wide)


def bound(eqn, values, is_wide):
    """An equation on values; where wide, its types are f64."""
    name, params = eqn.primitive.name, eqn.params
    if is_wide and name in LOOPS:
        return loop(eqn, values)
    if is_wide and name == "reduce_precision":
        return [values[0]]
    if is_wide:
        params = {k: wide_type(v) for k, v in params.items()}
        if name == "convert_element_type" and is_floating(values[0]) and jnp.issubdtype(params["new_dtype"], jnp.floating):
            return [values[0]]
    out = eqn.primitive.bind(*values, **eqn.primitive.get_bind_params(params))
    return list(out) if eqn.primitive.multiple_results else [out]




def wide_type(v):
    try:
        is_type = isinstance(v, (np.dtype, type)) and jnp.issubdtype(v, jnp.floating)
    except TypeError:
        return v
    return np.dtype(np.float64) if is_type else v


def inner(closed):
    """A body as a function in f64."""
    def call(*values):
        env = dict(zip(closed.jaxpr.invars, map(widened, values), strict=True))
        env.update(zip(closed.jaxpr.constvars, map(widened, map(jnp.asarray, closed.consts)), strict=True))

        def read(v):
            return widened(jnp.asarray(literal_of(v))) if isinstance(v, core.Literal) else env[v]

        for eqn in closed.jaxpr.eqns:
            args = [read(v) for v in eqn.invars]
            body = next((eqn.params[k] for k in BODIES if k in eqn.params), None)
            if body is not None and eqn.primitive.name not in LOOPS | WHOLE:
                closed_body = body if isinstance(body, core.ClosedJaxpr) else core.ClosedJaxpr(body, ())
                outs = inner(closed_body)(*args)
            else:
                outs = [widened(v) for v in bound(eqn, args, True)]
            env.update(zip(eqn.outvars, outs, strict=True))
        return [read(v) for v in closed.jaxpr.outvars]

    return call


def loop(eqn, values):
    p, name = eqn.params, eqn.primitive.name
    if name == "cond":
        which = values[0].astype(jnp.int32)
        return jax.lax.switch(which, [lambda *a, b=b: tuple(inner(b)(*a)) for b in p["branches"]], *values[1:])
    if name == "while":
        nc, nb = p["cond_nconsts"], p["body_nconsts"]
        for_cond, for_body, start = values[:nc], values[nc : nc + nb], values[nc + nb :]
        return jax.lax.while_loop(lambda c: inner(p["cond_jaxpr"])(*for_cond, *c)[0], lambda c: tuple(inner(p["body_jaxpr"])(*for_body, *c)), tuple(start))
    nc, nk = p["num_consts"], p["num_carry"]

    def step(carry, xs):
        outs = inner(p["jaxpr"])(*values[:nc], *carry, *xs)
        return tuple(outs[:nk]), tuple(outs[nk:])

    carry, ys = jax.lax.scan(step, tuple(values[nc : nc + nk]), tuple(values[nc + nk :]), length=p["length"], reverse=p["reverse"])
    return [*carry, *ys]


# the chip


def on_chip(made, outputs, function, args, chip):
    """({id: array} of every value, outputs of the function as it is), both from virtual NeuronCores."""
    shown = [i for node in made.nodes for i, dtype in zip(node.outs, node.dtypes) if dtype and not dtype.startswith("key")]
    fixed = {leaf.id: leaf.value for leaf in made.leaves if leaf.kind == "constant"}
    leaves = [leaf for leaf in made.leaves if leaf.kind != "constant"]

    def every(given):
        values = fixed | dict(zip((leaf.id for leaf in leaves), given, strict=True))
        for node in made.nodes:
            values.update(zip(node.outs, run(node, [as_jax(values[i]) for i in node.ins]), strict=True))
        return [values[i] for i in shown]

    given = [leaf.value for leaf in leaves]
    if chip:  # instruction by instruction
        from trine.exact import Exact

        arrays = [np.asarray(v) for v in given]
        found = Exact(every, arrays, chip=chip)(arrays)
        plain = jax.tree.leaves(Exact(function, *args, chip=chip)(*args))
    else:
        device = jax.devices("neuron")[0]
        given = jax.device_put(given, device)
        with jax.default_device(device):
            found = jax.jit(every)(given)
            plain = jax.tree.leaves(jax.jit(lambda *a: function(*a))(*jax.device_put(args, device)))  # anew: flags may differ
    values = dict(zip(shown, map(array_of, found), strict=True))
    for leaf in made.leaves:
        value = array_of(leaf.value)
        if value is not None:
            values[leaf.id] = value
    return values, [array_of(v) for v in plain]
