"""Eager ops on `neuron`: what trine._torch asks when it meets a call for the first time.

The answer is a program for this op, these shapes, dtypes and strides, written by the same rows that compiled graphs
use; or None, and torch's CPU runs the call on the same memory, counted.
"""

import functools

import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from trine.torch import decompose, fused, lines
from trine.torch.build import Unsupported, Value
from trine.torch.emit import SEEDED, Emitter, finish, overload_name
from trine.torch.rows import ROWS
from trine.torch.rules import wide

REASONS = {}  # "aten::nonzero" -> why it runs on the CPU
# in-place names whose functional form torch names otherwise
_FUNCTIONAL = {"normal_.default": "normal_functional.default", "bernoulli_.float": "bernoulli.p"}


def prepare(name, overload, args, numbers):
    """The handler. `args` in the schema's order; `numbers`: those of them that a program takes as it runs."""
    full = f"{name}.{overload}" if overload else name
    try:
        return _prepare(overload_of(name, overload), args, numbers)
    except Exception as e:  # whatever a row or torch's inference cannot do, the CPU can
        REASONS[full] = f"{type(e).__name__}: {str(e)[:200]}"
        return None


def overload_of(name, overload):
    space, base = name.split("::")
    return getattr(getattr(getattr(torch.ops, space), base), overload or "default")


@functools.lru_cache(maxsize=None)
def functional_of(op):
    """The overload without out arguments and without writing: what rows are for."""
    arguments = op._schema.arguments
    written = [a for a in arguments if a.alias_info is not None and a.alias_info.is_write]
    if not written:
        return op
    name = overload_name(op)
    base = op._schema.name.split("::")[1]
    if name in _FUNCTIONAL:
        base, form = _FUNCTIONAL[name].split(".")
        return getattr(getattr(torch.ops.aten, base), form)
    wanted = [(a.name, str(a.type)) for a in arguments if not a.is_out]
    packet = getattr(torch.ops.aten, base[:-1] if base.endswith("_") else base)
    for form in packet.overloads():
        candidate = getattr(packet, form)
        if any(a.alias_info is not None and a.alias_info.is_write for a in candidate._schema.arguments):
            continue
        if [(a.name, str(a.type)) for a in candidate._schema.arguments][: len(wanted)] == wanted:
            return candidate
    raise Unsupported(f"{op} has no functional form")


def _prepare(op, args, numbers):
    target = functional_of(op)
    schema = op._schema.arguments
    tensors = [t for t in tree_flatten(list(args))[0] if isinstance(t, torch.Tensor)]
    index_of = {id(t): i for i, t in reversed(list(enumerate(tensors)))}
    inputs = [a for a, s in zip(args, schema) if not s.is_out]
    written = [a for a, s in zip(args, schema) if s.alias_info is not None and s.alias_info.is_write]
    if op._schema.returns and any(not isinstance(a, torch.Tensor) for a in written):
        raise Unsupported("lists that are written and returned")
    targets = tree_flatten(written)[0]  # lists too, as fused optimisers have them
    if "arange" in op._schema.name and targets and not targets[0].is_floating_point() and any(type(a) is float for a in inputs):
        raise Unsupported("whole numbers between fractions, of which torch's CPU and its shapes say different counts")
    val = as_written(infer(target, inputs), targets)
    e = Emitter()
    if lines.is_wanted():
        e.build.origin = lines.of_call(str(op))
    results = emitted(e, target, inputs, val, numbers, _taker(e), _number_of(e))
    writes = [index_of[id(t)] for t in targets] if targets else [-1] * len(results)
    params = e.signature.inputs
    donated = []
    for o, w in enumerate(writes):
        for p, i in enumerate(params):
            if w >= 0 and isinstance(i, int) and _same_memory(tensors[w], tensors[i]):
                donated.append((p, o))
                break
    text, signature = finish(e, op._schema.name.split("::")[1], results, donated, merge=False)
    over = {o: p for p, o in donated}
    return {
        "text": text,
        "params": [_param(i) for i in signature.inputs],
        "outputs": [(list(d), t, w, over.get(o, -1)) for o, ((d, t), w) in enumerate(zip(signature.outputs, writes))],
        "returns": returned(op, args, targets, val),
    }


def _param(i):
    return ("tensor", i) if isinstance(i, int) else ("seed", 0) if i == "seed" else i


def _same_memory(a, b):
    return a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.is_contiguous() and b.is_contiguous() and a.dtype is b.dtype


def returned(op, args, targets, val):
    out, at = [], 0
    position = {id(a): i for i, a in enumerate(args)}
    if targets:
        written = iter(targets)
        return [(position[id(next(written))], False, []) for _ in op._schema.returns]
    values = [val] if len(op._schema.returns) == 1 else list(val)
    for v in values:
        if isinstance(v, (list, tuple)):
            out.append((-1, True, list(range(at, at + len(v)))))
            at += len(v)
        elif v is None:
            out.append((-1, False, []))
        else:
            out.append((-1, False, [at]))
            at += 1
    return out


def as_written(val, targets):
    """Results with the dtypes of the tensors they are written to."""
    flat, spec = tree_flatten(val)
    return tree_unflatten([v.to(t.dtype) for v, t in zip(flat, targets)] + flat[len(targets):], spec)


def infer(target, inputs):
    """What torch says the results are, as tensors without memory."""
    if target is torch.ops.aten.convolution_overrideable.default:
        target = torch.ops.aten.convolution.default
    elif target is torch.ops.aten.convolution_backward_overrideable.default:
        target = torch.ops.aten.convolution_backward.default
        inputs = [*inputs[:3], [inputs[2].shape[1 if inputs[6] else 0] * (inputs[8] if inputs[6] else 1)], *inputs[3:]]

    if "_fused_sgd" in overload_name(target):  # torch has no shapes of it; the lists come back as they are
        return tree_map(lambda a: torch.empty_like(a, device="meta"), list(inputs[:3]))

    def bare(a):
        if isinstance(a, torch.Tensor):
            if a.dim() == 0 and a.device.type == "cpu" and a.dtype in (torch.float64, torch.int64, torch.bool):
                return a.item()  # most likely a Python number, which promotes as one
            return torch.empty_strided(a.shape, a.stride(), dtype=a.dtype, device="meta")
        return torch.device("meta") if isinstance(a, torch.device) else a

    positional, keywords = _split(target, tree_map(bare, list(inputs)))
    with torch.no_grad():
        try:
            return fused.TABLE.get(target, target)(*positional, **keywords)
        except RuntimeError:
            if not any(type(a) in (bool, int, float) for a in positional):
                raise
            return target.overloadpacket(*positional, **keywords)  # torch takes a number for a tensor in some overloads alone


def _split(target, arguments):
    names = target._schema.arguments
    positional = [a for a, s in zip(arguments, names) if not s.kwarg_only]
    return positional, {s.name: a for a, s in zip(arguments, names) if s.kwarg_only}


def _taker(e):
    """Tensors of a call as parameters; one that comes twice is one parameter."""
    count, values = 0, {}

    def take(a):
        nonlocal count
        if id(a) not in values:
            e.input(count, a, count)
            values[id(a)] = e.values[count]
        count += 1
        return values[id(a)]

    return take


def _number_of(e):
    """Numbers of a call as parameters."""
    count = 0

    def number(dtype):
        nonlocal count
        e.signature.inputs.append(("number", count))
        e.signature.orders.append(None)
        count += 1
        return e.build.parameter((), dtype)

    return number


def emitted(e, target, inputs, val, numbers, take, number):
    """The op's results, written into e. `take(tensor)` and `number(dtype)` give the Values of what it is given."""
    name = overload_name(target)
    if name not in ROWS:
        if numbers:
            raise Unsupported(f"{target} takes numbers that change and has no row")
        return _traced(e, target, inputs, take)
    arguments = [tree_map(lambda a: take(a) if isinstance(a, torch.Tensor) else a, a) for a in inputs]
    left = list(numbers)
    for i, a in enumerate(arguments):
        if left and type(a) is float and a == left[0]:
            left.pop(0)
            dtype = tree_flatten(val)[0][0].dtype
            arguments[i] = e.build.convert(number(torch.float64), wide(dtype))
    if left:
        raise Unsupported(f"{target}: numbers that are no arguments of its row")
    if name in SEEDED:
        e.need_seed()
    out = e.call(name, arguments, val)
    return [v for v in tree_flatten(out, is_leaf=lambda v: isinstance(v, Value))[0] if v is not None]


def _traced(e, target, inputs, take):
    """An op without a row, taken apart by torch's decompositions."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    flat, spec = tree_flatten(list(inputs))
    at = [i for i, a in enumerate(flat) if isinstance(a, torch.Tensor)]

    def call(*tensors):
        whole = [torch.device("cpu") if isinstance(a, torch.device) else a for a in flat]
        for i, t in zip(at, tensors):
            whole[i] = t
        positional, keywords = _split(target, tree_unflatten(whole, spec))
        return target(*positional, **keywords)

    with FakeTensorMode():
        fakes = [torch.empty_strided(flat[i].shape, flat[i].stride(), dtype=flat[i].dtype) for i in at]
        traced = make_fx(call, decomposition_table=decompose.table())(*fakes)
    placeholders = [n for n in traced.graph.nodes if n.op == "placeholder"]
    for node, i in zip(placeholders, at):
        e.values[node] = take(flat[i])
    results = None
    for node in traced.graph.nodes:
        if node.op == "call_function":
            if node.target is target:
                raise Unsupported(f"{target} has neither a row nor a decomposition")
            e.node(node)
        elif node.op == "output":
            results = e.argument(node.args[0])
    flat_results = tree_flatten(results, is_leaf=lambda v: isinstance(v, Value))[0]
    return [v for v in flat_results if v is not None]
