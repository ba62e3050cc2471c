"""What to say about the place where two graphs part: which op, what it has that the other has not.

From the two first ops, one of each graph, and what feeds them. Words, no numbers are computed here.
"""

import numpy as np

from trine.debug.graph import array_of, step_of, wide
from trine.debug.match import close

MOVES = {"broadcast_in_dim", "reshape", "convert_element_type", "squeeze", "expand_dims", "transpose", "view", "unsqueeze", "expand", "_to_copy", "permute"}


def explained(cand, base, parted_cand, parted_base, found):
    """{op, baseline_op, kind, text, node, baseline_node} of a defect."""
    pair = chosen(cand, base, parted_cand, parted_base, found)
    mine, theirs = pair
    if mine is None:
        return answer("missing", theirs, None, theirs, f"{theirs.place} of the baseline has no counterpart{leaf_text(base, theirs)}")
    if theirs is None:
        return answer("extra", mine, mine, None, f"{mine.place} gives what the baseline has nowhere{leaf_text(cand, mine)}")
    if mine.op == theirs.op:
        return same_op(cand, base, mine, theirs, found)
    if follows(base, theirs, mine.op) and shares(mine, theirs, found):
        return answer("missing", theirs, mine, theirs, f"{theirs.place} of the baseline is not there: {mine.op} takes what it takes{leaf_text(base, theirs)}")
    if follows(cand, mine, theirs.op) and shares(mine, theirs, found):
        return answer("extra", mine, mine, theirs, f"{mine.place} stands before {theirs.op}; the baseline has no such op")
    return answer("other op", mine, mine, theirs, f"{mine.place} where the baseline has {theirs.op}{leaf_text(base, theirs)}")


def answer(kind, named, mine, theirs, text):
    return {"kind": kind, "op": named.op, "scope": named.scope, "line": (mine or theirs).line, "text": text,
            "baseline_op": theirs.op if theirs else "", "baseline_line": theirs.line if theirs else "", "found_op": mine.op if mine else ""}  # fmt: skip


def chosen(cand, base, parted_cand, parted_base, found):
    """The pair to talk about: the first op of each side, of one place and op where there are."""
    def same_op(mine, theirs):
        pairs = ((one, other) for one in mine[:4] if one.scope == mine[0].scope for other in theirs[:8])
        return next((p for p in pairs if p[0].op == p[1].op and p[0].scope == p[1].scope and shares(*p, found)), None)

    def same_value(mine, theirs):  # positions, masks: both sides go on from one value, by other ops
        pairs = ((one, other) for one in mine[:4] for other in theirs[:8] if one.scope == other.scope)
        return next((p for p in pairs if made_by(found[i] for i in p[0].ins if i in found) & made_by(p[1].ins)), None)

    makers, leaves = base.maker(), {leaf.id: array_of(leaf.value) for leaf in base.leaves}

    def origin(i):
        while i in makers and makers[i].op in MOVES:
            i = makers[i].ins[0]
        return i

    def made_by(ids):
        ids = [origin(i) for i in ids]
        return {(makers[i].op, makers[i].scope) if i in makers else leaves[i].tobytes() for i in ids if i in makers or leaves[i] is not None}


    fixed = parted_cand.fixed, parted_base.fixed
    pair = same_op(*fixed) or same_value(*fixed) or same_op(parted_cand.nodes, parted_base.nodes)
    if pair:
        return pair
    mine, theirs = parted_cand.nodes or parted_cand.fixed, parted_base.nodes or parted_base.fixed
    if not mine or not theirs:
        return (mine[0] if mine else None), (theirs[0] if theirs else None)
    near = [t for t in theirs if shares(mine[0], t, found)] or [t for t in theirs if t.scope == mine[0].scope] or theirs
    return mine[0], near[0]


def shares(mine, theirs, found):
    """Whether both take a value that is the same, or neither takes any."""
    takes = {found[i] for i in mine.ins if i in found}
    return bool(takes & set(theirs.ins)) or not takes


def follows(graph, node, op):
    """Whether what a node gives is taken by such an op, casts aside."""
    users = [n for n in graph.nodes if set(n.ins) & set(node.outs)]
    return any(n.op == op or (n.op in MOVES and follows(graph, n, op)) for n in users)


def same_op(cand, base, mine, theirs, found):
    leaves = {leaf.id: leaf for leaf in cand.leaves}, {leaf.id: leaf for leaf in base.leaves}
    for a, b in zip(mine.ins, theirs.ins):
        one, other = leaves[0].get(a), leaves[1].get(b)
        if one is None or other is None:
            continue
        x, y = array_of(one.value), array_of(other.value)
        if x is None or y is None or (x.shape == y.shape and close(wide(x), wide(y), 2 * step_of(x.dtype))):
            continue
        if x.size == 1 and y.size == 1:
            return answer("constant", mine, mine, theirs, f"{mine.place}: {number(x)} here, {number(y)} in the baseline")
        return answer("weight", mine, mine, theirs, f"{mine.place}: {one.name} {differs(x, y)}")
    differing = [k for k in {**mine.settings, **theirs.settings} if mine.settings.get(k) != theirs.settings.get(k) and not about_types(k)]
    if differing:
        text = ", ".join(f"{k} {mine.settings.get(k, 'none')} here, {theirs.settings.get(k, 'none')} in the baseline" for k in differing[:3])
        return answer("settings", mine, mine, theirs, f"{mine.place}: {text}")
    swapped = [found.get(i) for i in mine.ins]
    if None not in swapped and swapped != theirs.ins and set(swapped) == set(theirs.ins):
        return answer("operands", mine, mine, theirs, f"{mine.place}: its operands stand the other way round")
    return answer("operands", mine, mine, theirs, f"{mine.place} takes other values than the baseline's{leaf_text(base, theirs)}")


def about_types(key):
    return "dtype" in key or "element_type" in key


def number(x):
    return f"{float(wide(np.asarray(x)).ravel()[0]):.6g}"


def differs(x, y):
    x, y = wide(x), wide(y)
    if x.ndim >= 2 and x.T.shape == y.shape and np.allclose(x.T, y, rtol=0.02, atol=1e-6):
        return "is the baseline's transposed"
    if x.shape != y.shape:
        return f"is {list(x.shape)}, the baseline's {list(y.shape)}"
    apart = x != y
    return f"differs from the baseline's in {int(apart.sum()):,} of {x.size:,} elements, first at {[int(i) for i in np.argwhere(apart)[0]]}"


def leaf_text(graph, node):
    """The weights that feed a node, through casts and the like."""
    leaves, makers = {leaf.id: leaf for leaf in graph.leaves}, graph.maker()
    names, todo = [], list(node.ins)
    while todo:
        i = todo.pop()
        if i in leaves:
            if leaves[i].kind == "weight":
                names.append(leaves[i].name)
        elif makers[i].op in MOVES:
            todo += makers[i].ins
    return f" ({', '.join(names)})" if names else ""
