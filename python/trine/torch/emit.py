"""The one emitter: an FX graph of ATen ops to StableHLO text, row by row.

Types come from the graph's own metadata (`node.meta["val"]`), so a row never infers. Inputs whose memory is dense in
another order than row-major are taken as they lie and transposed in the program: nothing is copied to call it.
"""

import functools

import torch

from trine.torch import lines
from trine.torch.build import Unsupported, Value
from trine.torch.rows import ROWS
from trine.torch.rules import Build
from trine.torch.rows.shape import dense

SKIPPED = {"sym_size.int", "sym_numel.default", "sym_stride.int", "sym_storage_offset.default"}


class Signature:
    """What a compiled program takes and gives, beside the text itself."""

    def __init__(self):
        self.inputs = []  # per parameter: index of the caller's argument, or "seed"
        self.orders = []  # per parameter: the order of dims its memory has, or None where row-major
        self.outputs = []  # per result: (dims, dtype)
        self.layout = []  # the caller's results: index of a result, or ("value", x)
        self.donated = {}  # result -> the parameter that it may be written over

    def as_data(self):
        """What JSON can hold."""
        outputs = [(dims, str(dtype).removeprefix("torch.")) for dims, dtype in self.outputs]
        return [self.inputs, self.orders, outputs, self.layout, sorted(self.donated.items())]

    @classmethod
    def of_data(cls, data):
        out = cls()
        out.inputs, out.orders, outputs, out.layout, donated = data
        out.outputs = [(tuple(dims), getattr(torch, dtype)) for dims, dtype in outputs]
        out.donated = dict(map(tuple, donated))
        return out


def overload_name(target):
    """"add.Tensor" of torch.ops.aten.add.Tensor; None for what is no ATen op."""
    if not isinstance(target, torch._ops.OpOverload):
        return None
    space, name = target._schema.name.split("::")
    overload = target._schema.overload_name or "default"
    return f"{name}.{overload}" if space == "aten" else f"_{space}.{name}" if space in ("prims", "nki", "trine_spmd") else None


def supports(node):
    if node.op != "call_function":
        return True
    name = overload_name(node.target)
    return name in ROWS or name in SKIPPED or node.target.__module__ == "_operator"


@functools.lru_cache(maxsize=None)
def _arguments(target):
    return [(a.name, a.default_value if a.has_default_value() else None) for a in target._schema.arguments]


def full_arguments(target, args, kwargs):
    """In the schema's order, defaults filled in."""
    names = _arguments(target)
    out = list(args)
    for name, default in names[len(args) :]:
        out.append(kwargs.get(name, default))
    return out


def types_of(val):
    """(dims, dtype) of each tensor result; None for results that are no tensors; lists flattened."""
    if isinstance(val, torch.Tensor):
        return [(tuple(int(d) for d in val.shape), val.dtype)]
    if isinstance(val, (list, tuple)):
        return [t for v in val for t in types_of(v)]
    return [None]


def memory_order(tensor):
    """The order of dims in which a tensor's memory is dense: None if row-major, False if there is none."""
    if tensor.is_contiguous():
        return None
    strides, dims = tensor.stride(), tensor.shape
    order = sorted(range(tensor.dim()), key=lambda i: (-strides[i], dims[i] != 1, i))
    wanted = dense([dims[i] for i in order])
    if all(strides[i] == w or dims[i] == 1 for i, w in zip(order, wanted)):
        return tuple(order)
    return False


class Emitter:
    """One graph, or a run of its nodes: `values` maps nodes to Values, lists of them, or plain numbers."""

    def __init__(self):
        self.build = Build()
        self.values = {}
        self.signature = Signature()

    def input(self, key, tensor, caller_index):
        """A parameter for a tensor the caller passes."""
        order = memory_order(tensor)
        dims = tuple(tensor.shape)
        order = order or None  # gaps: the caller makes it row-major first
        if order:
            stored = self.build.parameter([dims[i] for i in order], tensor.dtype)
            back = [order.index(i) for i in range(len(dims))]
            value = self.build.transpose(stored, back)
        else:
            value = self.build.parameter(dims, tensor.dtype)
        self._remember(value, tensor)
        self.signature.inputs.append(caller_index)
        self.signature.orders.append(order)
        self.values[key] = value

    def need_seed(self):
        if self.build.seed is None:
            self.build.seed = self.build.parameter((2,), torch.uint32)  # the words of 64 bits
            self.signature.inputs.append("seed")
            self.signature.orders.append(None)

    def _remember(self, value, tensor):
        if tensor.is_contiguous() and not tensor.storage_offset():
            return
        self.build.strides[value.name] = tuple(int(s) for s in tensor.stride()), int(tensor.storage_offset())

    def argument(self, a):
        if isinstance(a, torch.fx.Node):
            return self.values[a]
        if isinstance(a, (list, tuple)):
            return [self.argument(v) for v in a]
        return a

    def node(self, node):
        if node.target.__module__ == "_operator":
            args = [self.argument(a) for a in node.args]
            self.values[node] = node.target(*args)
            return
        name = overload_name(node.target)
        if name in SKIPPED:
            self.values[node] = int(node.meta["val"])
            return
        if name not in ROWS:
            raise Unsupported(f"{node.target} has no row")
        val = node.meta["val"]
        if name in SEEDED:
            self.need_seed()
        arguments = full_arguments(node.target, node.args, node.kwargs)
        if lines.is_wanted():
            self.build.origin = lines.of_node(node, str(node.target))
        try:
            self.values[node] = self.call(name, [self.argument(a) for a in arguments], val)
        except Unsupported as e:
            e.node = node  # who asks may leave this one to torch
            raise

    def call(self, name, arguments, val):
        """One op on Values; `val` is torch's own idea of the result."""
        b = self.build
        b.outs = types_of(val)
        out = ROWS[name](b, *arguments)
        _check(name, out, val, b)
        if isinstance(val, torch.Tensor):
            self._remember(out, val)
        return out


SEEDED = {
    name
    for name in ROWS
    if getattr(ROWS[name], "__module__", "") == "trine.torch.rows.random"
}


def _check(name, out, val, b):
    """A row's result against torch's: a mistake in a row is found here, not in the numbers."""
    if isinstance(val, torch.Tensor):
        wanted = (tuple(val.shape), val.dtype)
        if not isinstance(out, Value) or (out.dims, out.dtype) != wanted:
            found = (out.dims, out.dtype) if isinstance(out, Value) else out
            raise Unsupported(f"the row of {name} gave {found}; torch gives {wanted}")
    elif isinstance(val, (list, tuple)):
        for o, v in zip(out, val):
            _check(name, o, v, b)


def finish(e, name, results, donated=(), merge=True):
    """Text and signature of what was emitted, with `results` (Values or plain things) as what it gives.

    `merge`: results that are the same Value are given once.
    """
    sig, returned, where = e.signature, [], {}
    for r in results:
        if not isinstance(r, Value):
            sig.layout.append(("value", r))
            continue
        if r.name not in where or not merge:
            where[r.name] = len(returned)
            returned.append(r)
        sig.layout.append(where[r.name])
    sig.outputs = [(r.dims, r.dtype) for r in returned]
    sig.donated = dict((o, i) for i, o in donated)
    text = e.build.finish(name, returned, donated)
    if e.build.origins:
        lines.save(text, e.build.lines, e.build.origins)
    return text, sig
