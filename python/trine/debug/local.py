"""Each op of the chip's run judged alone: what it gave, against the same op in f64 on the very values it was given.

So the error that an op makes is told from the errors that it was handed. Tolerances are those of rounding once, of sums
in f32, and of operands that were cast where the compiler was told to.
"""

import dataclasses
import math

import numpy as np

from trine.debug.graph import array_of, is_float, step_of, wide
from trine.debug.measures import relative

PRODUCTS = {"dot_general", "conv_general_dilated", "mm", "bmm", "addmm", "convolution", "baddbmm", "matmul", "linear", "_scaled_dot_product_attention"}
LONG = 3.0  # roundings of the result's format that are allowed
SLACK = 256  # of f32's, times the root of the numbers that are summed


@dataclasses.dataclass
class Own:
    """An op's own error on the chip."""

    node: object
    error: float  # relative
    allowed: float
    not_finite: bool  # gives infinity or no number where f64 gives one


def own_errors(graph, values, cast=""):
    """An Own for each node whose values are numbers; `cast`: the format that operands of products are cast to."""
    out, leaves = [], {leaf.id: leaf.value for leaf in graph.leaves}
    for node in graph.nodes:
        known = [values.get(i, leaves.get(i)) for i in node.ins]
        if any(v is None for v in known) or node.outs[0] not in values:
            continue
        try:
            wanted = graph.replay(node, [handed(graph, v) for v in known], True)
        except Exception:
            continue
        for n, (i, want) in enumerate(zip(node.outs, wanted)):
            got, want = values.get(i), array_of(want)
            if got is None or want is None or got.shape != want.shape or got.dtype.kind not in "fVi":
                continue
            error = relative(got, want) if is_float(got.dtype) else float(not np.array_equal(got, want))
            born = is_float(got.dtype) and not np.isfinite(wide(got)).all() and np.isfinite(want).all() and all_finite(known)
            room = allowed(node, known, got, cast)
            if error > room and is_float(got.dtype):
                room += LONG * moved(graph, node, known, n, want)
            out.append(Own(node, error, room, bool(born)))
    return out


def handed(graph, value):
    if graph.framework == "torch" and isinstance(value, np.ndarray):
        import torch

        return torch.from_numpy(np.ascontiguousarray(wide(value)))
    return value


def moved(graph, node, known, n, want):
    """How far the result moves when narrow operands move by one rounding: fused, they are handed on unrounded."""
    rng, shifted = np.random.default_rng(0), []
    for v in known:
        a = array_of(v)
        step = step_of(a.dtype) if a is not None and is_float(a.dtype) else 0.0
        shifted.append(wide(a) * (1 + 2 * step * rng.choice([-1.0, 1.0], a.shape)) if step > step_of("float32") else v)
    found = array_of(graph.replay(node, [handed(graph, v) for v in shifted], True)[n])
    return relative(found, want)


def all_finite(values):
    arrays = [array_of(v) for v in values]
    return all(np.isfinite(wide(a)).all() for a in arrays if a is not None and is_float(a.dtype))


def allowed(node, known, got, cast):
    """The largest relative error that rounding explains."""
    if not is_float(got.dtype):
        return 0.5 if got.dtype.kind in "iu" else 0.0
    most = max([np.size(v) for v in known if np.ndim(v)] or [1])
    summed = max(1.0, most / max(1, got.size))
    products = LONG * step_of(cast) * math.sqrt(summed) if cast and node.op in PRODUCTS else 0.0
    return LONG * step_of(got.dtype) + SLACK * step_of("float32") * math.sqrt(summed) + products
