"""Which values of two graphs are the same, and where they part. Both were computed in f64, so rounding plays no part.

A value is found by its numbers, under any name, shape or order of dims. An op is where two graphs part when all it takes
is found on the other side, what it gives is not, and an output that differs depends on it through nothing that is found.
So a stretch written otherwise, whose result is the same, is not a difference.
"""

import dataclasses
import itertools

import numpy as np

SHUT = 1e6
FEW = 8  # elements below which equal numbers prove little


class Values:
    """Those of one graph by what does not depend on their order."""

    def __init__(self, graph, values):
        self.values, self.node = values, graph.maker()
        self.by_size = {}
        for i, v in values.items():
            if v.dtype.kind in "fiub":
                self.by_size.setdefault(v.size, []).append((norm(v), i))

    def like(self, value, tolerance):
        """Ids of values whose norm is the same."""
        n = norm(value)
        return [i for other, i in self.by_size.get(value.size, ()) if abs(other - n) <= 4 * tolerance * max(abs(n), abs(other)) or other == n]


def norm(v):
    f = np.nan_to_num(v.astype(np.float64), nan=3.0, posinf=5.0, neginf=7.0)
    return float(np.sqrt((f * f).sum()))


def is_plain(v):
    """Few or whole numbers, or all the same: others have them too."""
    return v.size < FEW or v.dtype.kind != "f" or bool((v == v.ravel()[0]).all())


def close(a, b, tolerance):
    """Each element by itself or by the largest, but numbers that only shut others out (a mask's -1e9) measure nothing."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):
        size = np.abs(b)
        plain = size[size < SHUT]
        most = plain.max(initial=0.0)
        same = (np.abs(a - b) <= tolerance * np.where(size < SHUT, most, size)) | (a == b) | (np.isnan(a) & np.isnan(b))
    return bool(same.all())


def equal(a, b, tolerance):
    """Whether two values are the same but for shape and order of dims."""
    if a.size != b.size:
        return False
    if close(a.reshape(-1), b.reshape(-1), tolerance):
        return True
    squeezed = [tuple(d for d in x.shape if d != 1) for x in (a, b)]
    if sorted(squeezed[0]) != sorted(squeezed[1]) or not 2 <= len(squeezed[0]) <= 4:
        return False
    x, y = a.reshape(squeezed[0]), b.reshape(squeezed[1])
    orders = itertools.permutations(range(x.ndim))
    return any(tuple(x.shape[i] for i in o) == y.shape and close(x.transpose(o), y, tolerance) for o in orders)


def matched(mine, theirs, tolerance, strict):
    """{my id: their id}, with the other's op of the same place where several are the same. strict: values that say
    little are the same only where op and place are too."""
    found = {}
    for i, v in mine.values.items():
        if v.dtype.kind not in "fiub":
            continue
        node, best = mine.node.get(i), None
        little = is_plain(v)
        for j in theirs.like(v, tolerance):
            other = theirs.node.get(j)
            if (node is None) != (other is None):
                continue
            rank = alike(node, other)
            if best is not None and rank <= best[0] or (strict and little and node is not None and rank < 2):
                continue
            if equal(v, theirs.values[j], tolerance):
                best = (rank, j)
                if rank == 3:
                    break
        if best is not None:
            found[i] = best[1]
    return found


def alike(a, b):
    """How much two ops look the same: op and place 3, place or shape beside the op 2 …"""
    if a is None or b is None:
        return 0
    same_op, same_scope = a.op == b.op, a.scope == b.scope
    return 3 if same_op and same_scope and a.shapes == b.shapes else 2 if same_op and same_scope else 1 if same_op or same_scope else 0


@dataclasses.dataclass
class Parted:
    """Ops at which one side leaves the other, the first first, and the outputs that differ. `nodes` take something that
    the inputs decide; `fixed` are made of weights and constants alone."""

    nodes: list
    fixed: list
    outputs: list


def parted(graph, values, found):
    """Backwards from the outputs that are not found, through what is not found."""
    makers, order = graph.maker(), {id(node): n for n, node in enumerate(graph.nodes)}
    still = fixed_ids(graph)
    away = [(name, i) for name, i in graph.outputs if i not in found and i in values]
    seen, todo, first, fixed = set(), [i for _, i in away], {}, {}
    while todo:
        i = todo.pop()
        if i in seen or i in found or i not in makers:
            continue
        seen.add(i)
        node = makers[i]
        before = [k for k in node.ins if not is_found(k, makers, found, values)]
        todo += before
        if not before:
            (fixed if i in still else first)[id(node)] = node
        elif i not in still and all(k in still for k in before):
            first[id(node)] = node
    return Parted(*(sorted(found.values(), key=lambda n: order[id(n)]) for found in (first, fixed)), [name for name, _ in away])


def is_found(i, makers, found, values):
    """A leaf is; a list of values is where all it is made of are."""
    if i in found or i not in makers:
        return True
    return i not in values and all(is_found(k, makers, found, values) for k in makers[i].ins)


def fixed_ids(graph):
    """Values that no input decides."""
    still = {leaf.id for leaf in graph.leaves if leaf.kind != "input"}
    for node in graph.nodes:
        if all(i in still for i in node.ins):
            still.update(node.outs)
    return still
