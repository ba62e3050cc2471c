"""Writes the program of a recorded step: the rows' text for each call, over storages whose values change as it goes.

Reading a storage through a view is reshape, slice, transpose and broadcast where its strides form a grid, a gather
otherwise; writing through a view is the update of that region.
"""

import math

import torch
from torch.utils._pytree import tree_flatten, tree_map

from trine.torch import eager
from trine.torch.build import Unsupported
from trine.torch.emit import Emitter, finish
from trine.torch.lazy import Spec
from trine.torch.rows.shape import dense


class Emission:
    """A call made ready to be written: the functional op, its arguments and what torch says it gives."""

    def __init__(self, call):
        self.op = eager.overload_of(call.name, call.overload)
        self.target = eager.functional_of(self.op)
        schema = self.op._schema.arguments
        index_of = {id(s): i for i, s in enumerate(call.specs)}
        self.specs = {}  # of the tensors that stand for them
        self.inputs = tree_map(self._bare, [a for a, s in zip(call.args, schema) if not s.is_out])
        self.written = [a for a, s in zip(call.args, schema) if s.alias_info is not None and s.alias_info.is_write]
        if any(not isinstance(t, Spec) for t in tree_flatten(self.written)[0]):
            raise Unsupported("a write to what is no tensor")
        self.targets = tree_flatten(self.written)[0]
        self.writes = [index_of[id(t)] for t in self.targets]
        self.val = eager.as_written(eager.infer(self.target, self.inputs), self.targets)

    def _bare(self, a):
        if not isinstance(a, Spec):
            return a
        tensor = a.tensor()
        self.specs[id(tensor)] = a
        return tensor

    def results(self, e, call, read, number):
        """The Values the op gives; `read(spec)` gives a tensor's, `number(dtype)` the next number's."""

        def take(t):
            value, spec = read(self.specs[id(t)]), self.specs[id(t)]
            e.build.strides[value.name] = (spec.strides, 0)  # torch's decompositions may ask
            return value

        return eager.emitted(e, self.target, self.inputs, self.val, call.numbers, take, number)


class StepEmitter(Emitter):
    """The seed of each call that draws is a number of its own: values are those of the same call run eagerly."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def number(self, dtype):
        value = self.build.parameter((), dtype)
        self.signature.inputs.append(("number", self.numbers))
        self.signature.orders.append(None)
        self.numbers += 1
        return value

    def need_seed(self):
        if self.build.seed is None:
            super().need_seed()
            self.signature.inputs[-1] = ("number", self.numbers)
            self.numbers += 1

    def begin(self):
        self.build.seed, self.build.seed_uses = None, 0


def described(call):
    """Types and places of a call's results, and whether it draws; None, with the reason kept, where no row can."""
    full = f"{call.name}.{call.overload}" if call.overload else call.name
    try:
        emission = Emission(call)
        e = StepEmitter()
        results = emission.results(e, call, lambda s: e.build.parameter(s.dims, s.dtype), e.number)
    except Exception as error:  # whatever a row or torch's inference cannot do, the CPU can
        eager.REASONS[full] = f"{type(error).__name__}: {str(error)[:200]}"
        return None
    writes = emission.writes or [-1] * len(results)
    return {
        "outputs": [(list(r.dims), r.dtype, w) for r, w in zip(results, writes)],
        "returns": eager.returned(emission.op, call.args, emission.written, emission.val),
        "seeded": e.build.seed is not None,
        "params": [],
    }


class State:
    """A storage's value: logical dims, and the dense strides they lie with in memory."""

    __slots__ = ("value", "strides")

    def __init__(self, value, strides=None):
        self.value, self.strides = value, tuple(strides if strides is not None else dense(value.dims))


class Storages:
    """The storages of a trace while its program is written."""

    def __init__(self, e, slots):
        self.e, self.b, self.slots = e, e.build, slots
        self.states, self.params = {}, {}

    def _first(self, slot, dims, strides):
        """The value a storage has before the step, in the form it is first read in where that covers all of it."""
        dtype, elements, layout = self.slots[slot].dtype, self.slots[slot].elements, self.slots[slot].layout
        if not self.slots[slot].has_memory:
            return State(self.b.constant(0, dtype, (elements,)))
        order = memory_order(dims, strides) if math.prod(dims) == elements else None
        stored = (elements,) if order is None else tuple(dims[i] for i in order)
        if layout and tuple(layout[0]) != stored:
            order, stored = None, tuple(layout[0])
        self.params[slot] = len(self.e.signature.inputs)
        self.e.signature.inputs.append(("slot", slot))
        self.e.signature.orders.append(None)
        value = self.b.parameter(stored, dtype, layout[1] if layout else "")
        if order is None:
            return State(value)
        return State(self.b.transpose(value, inverse(order)), strides)

    def read(self, slot, offset, dims, strides):
        if 0 in dims:
            return self.b.constant(0, self.slots[slot].dtype, dims)
        if slot not in self.states:
            self.states[slot] = self._first(slot, dims, strides)
        state = self.states[slot]
        if offset == 0 and same_layout(state, dims, strides):
            return state.value
        return view(self.b, self.in_memory(state), dims, strides, offset)

    def in_memory(self, state):
        """The value with its dims in the order of memory."""
        return self.b.transpose(state.value, memory_order(state.value.dims, state.strides))

    def write(self, slot, offset, dims, strides, value):
        if 0 in dims:
            return
        elements = self.slots[slot].elements
        if offset == 0 and math.prod(dims) == elements and memory_order(dims, strides) is not None:
            self.states[slot] = State(value, strides)
            return
        if slot not in self.states:
            self.states[slot] = self._first(slot, (elements,), (1,))
        old = self.in_memory(self.states[slot])
        self.states[slot] = State(put(self.b, old, value, dims, strides, offset))


def same_layout(state, dims, strides):
    if state.value.dims != tuple(dims):
        return False
    return all(a == b or d == 1 for a, b, d in zip(state.strides, strides, dims))


def inverse(order):
    return [order.index(i) for i in range(len(order))]


def memory_order(dims, strides):
    """Dims from the widest stride to the narrowest, where the memory is dense; else None."""
    order = sorted(range(len(dims)), key=lambda i: (-strides[i], dims[i] != 1, i))
    wanted = dense([dims[i] for i in order])
    return order if all(strides[i] == w or dims[i] == 1 for i, w in zip(order, wanted)) else None


class Grid:
    """A strided view as a box in the storage, seen with other dims: extents, where the box starts, how large it is."""

    def __init__(self, elements, dims, strides, offset):
        self.strided = sorted((i for i, d in enumerate(dims) if d != 1 and strides[i] != 0), key=lambda i: -strides[i])
        steps = [strides[i] for i in self.strided] + [1]
        self.starts, self.sizes, self.extents, rest, outer = [], [dims[i] for i in self.strided] + [1], [], offset, None
        self.is_right = True
        for k, step in enumerate(steps):
            extent = -(-elements // step) if outer is None else outer // step
            self.is_right = self.is_right and (outer is None or outer % step == 0)
            self.extents.append(extent)
            self.starts.append(rest // step)
            rest, outer = rest % step, step
            self.is_right = self.is_right and self.starts[k] + self.sizes[k] <= extent
        self.padded = math.prod(self.extents)
        self.elements = elements

    def of(self, b, x):
        """The whole storage with the grid's dims."""
        if self.padded != self.elements:
            x = b.pad(b.reshape(x, (self.elements,)), [0], [self.padded - self.elements])
        return b.reshape(x, self.extents)


def view(b, x, dims, strides, offset):
    """Elements of x, whose dims are in the order of memory, through a view."""
    grid = Grid(x.size, dims, strides, offset)
    if not grid.is_right:
        return b.gather(b.reshape(x, (x.size,)), positions(b, dims, strides, offset), [1], [], [0], [0], len(dims))
    box = b.slice(grid.of(b, x), grid.starts, [s + n for s, n in zip(grid.starts, grid.sizes)])
    box = b.reshape(box, grid.sizes[:-1])
    ordered = sorted(grid.strided)
    box = b.transpose(box, [grid.strided.index(i) for i in ordered])
    box = b.reshape(box, [d if i in ordered else 1 for i, d in enumerate(dims)])
    return b.broadcast(box, dims)


def put(b, x, value, dims, strides, offset):
    """x, dims in the order of memory, with the elements of a view replaced."""
    grid = Grid(x.size, dims, strides, offset)
    if not grid.is_right or any(strides[i] == 0 and d != 1 for i, d in enumerate(dims)):
        flat, at = b.reshape(x, (x.size,)), positions(b, dims, strides, offset)
        flat = b.scatter(flat, at, value, [], [0], [0], len(dims), lambda old, new: new)
        return b.reshape(flat, x.dims)
    value = b.reshape(value, [dims[i] for i in sorted(grid.strided)])
    value = b.transpose(value, [sorted(grid.strided).index(i) for i in grid.strided])
    value = b.reshape(value, grid.sizes)
    whole = grid.of(b, x)
    starts = [b.constant(s, torch.int64) for s in grid.starts]
    whole = b.op("dynamic_update_slice", [whole, value, *starts], whole.dims, whole.dtype)
    if grid.padded != grid.elements:
        whole = b.slice(b.reshape(whole, (grid.padded,)), [0], [grid.elements])
    return b.reshape(whole, x.dims)


def positions(b, dims, strides, offset):
    at = b.constant(offset, torch.int64, dims)
    for i, step in enumerate(strides):
        at = b.add(at, b.mul(b.iota(dims, i), step))
    return b.reshape(at, (*dims, 1))


def step(calls, nodes, slots, mesh=None):
    """Text, parameters and outputs of a trace: `nodes` begin with the place of their call in `calls`."""
    e = StepEmitter()
    e.build.mesh = mesh
    storages = Storages(e, slots)
    for node in nodes:
        _node(e, storages, calls[node[0]], iter(node[1:]))
    given = [s for s, slot in enumerate(slots) if slot.is_given]
    results = [storages.in_memory(storages.states[s]) if s in storages.states else _empty(e, slots[s]) for s in given]
    donated = [(storages.params[s], o) for o, s in enumerate(given) if s in storages.params]
    if mesh:  # what is written over lies as it did
        e.build.result_shardings = [_lies_as(slots[s], r) if s in storages.params else "" for s, r in zip(given, results)]
    text, signature = finish(e, "step", results, donated, merge=False)
    over = {o: p for p, o in donated}
    return {"text": text, "params": signature.inputs, "outputs": [(s, over.get(o, -1)) for o, s in enumerate(given)]}


def _lies_as(slot, value):
    """How a storage's result is dealt: as it came, where it has the same dims; whole where it came whole."""
    layout = slot.layout
    if layout is None:
        return "[" + ", ".join(["{}"] * value.rank) + "]"
    return layout[1] if tuple(layout[0]) == value.dims else ""


def _empty(e, slot):
    return e.build.constant(0, slot.dtype, (slot.elements,))


def _node(e, storages, call, words):
    """Writes one call of the trace."""
    if call.emission is None:
        call.emission = Emission(call)
    where = [(slot, next(words) if slot >= 0 else 0) for slot in (next(words) for _ in call.specs)]
    given = {id(s): e.number(s.dtype) for s, (slot, _) in zip(call.specs, where) if slot < 0}
    index_of = {id(s): w for s, w in zip(call.specs, where)}

    def read(spec):
        if id(spec) in given:
            return given[id(spec)]
        slot, offset = index_of[id(spec)]
        return storages.read(slot, offset, spec.dims, spec.strides)

    e.begin()
    e.build.origin = getattr(call, "origin", None)
    results = call.emission.results(e, call, read, e.number)
    for value, (dims, dtype, write, *_) in zip(results, call.outputs):
        if write >= 0:
            slot, offset = where[write]
            spec = call.specs[write]
            same = tuple(spec.dims) == tuple(dims)
            storages.write(slot, offset, dims, spec.strides if same else dense(dims), e.build.convert(value, spec.dtype))
        else:
            storages.write(next(words), 0, dims, dense(dims), value)

