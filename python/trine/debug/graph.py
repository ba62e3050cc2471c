"""A program as a list of ops with all values between them: what two programs are compared by.

A Graph comes from a JAX function (`of_jax`) or a torch module (`of_torch`). Any of its ops can be run alone, in its own
format or in f64, so that the same graph tells rounding from a defect. Nothing here runs a whole program.
"""

import dataclasses

import ml_dtypes
import numpy as np

NARROW = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53,
          "float8_e4m3fn": 2.0**-4, "float8_e5m2": 2.0**-3, "float8_e4m3": 2.0**-4}  # half a step at one  # fmt: skip


class Missing(ValueError):
    """Something that was asked for and is not there; the message says what is."""


@dataclasses.dataclass
class Leaf:
    """A value that the program is given: an input, a weight, or a constant of its text."""

    id: int
    name: str
    kind: str  # input, weight, constant
    value: object  # as the framework has it


@dataclasses.dataclass
class Node:
    """An op: which values it takes and gives, and where in the user's model it is."""

    op: str
    scope: str  # "layer 3/attention"
    line: str  # "model.py:88"
    ins: list
    outs: list
    dtypes: list  # of outs, as NumPy names them
    shapes: list
    what: object = None  # the framework's own
    settings: dict = dataclasses.field(default_factory=dict)  # what the op is told beside its values, as text

    @property
    def place(self):
        """Where it is, for people."""
        return f"{self.scope}/{self.op}" if self.scope else self.op


@dataclasses.dataclass
class Graph:
    """Leaves, then nodes in the order in which they run; `outputs` names ids of values."""

    framework: str
    leaves: list
    nodes: list
    outputs: list  # (name, id)
    replay: object  # (node, values, wide) -> values: one op on the host
    on_chip: object  # () -> ({id: array}, [outputs of the program as it is])

    def maker(self):
        """id -> the node that makes it."""
        return {i: node for node in self.nodes for i in node.outs}


def array_of(value):
    """A framework's value as a NumPy array in its own format; None for what holds no numbers (keys, tokens)."""
    if value is None or isinstance(value, (list, tuple)):
        return None
    if type(value).__module__.startswith("torch"):
        import torch

        value = value.detach().cpu()
        if value.dtype is torch.bfloat16:
            return value.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        if value.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
            return value.contiguous().view(torch.uint8).numpy().view(getattr(ml_dtypes, str(value.dtype)[6:]))
        return value.resolve_conj().numpy() if not value.is_sparse else None
    try:
        found = np.asarray(value)
    except TypeError:
        return None
    return None if found.dtype == object else found


def wide(array):
    """The same numbers in f64; whole numbers and booleans as they are."""
    return array.astype(np.float64) if is_float(array.dtype) and array.dtype != np.float64 else array


def is_float(dtype):
    dtype = np.dtype(dtype)
    return dtype.kind == "f" or (dtype.kind == "V" and dtype.name in NARROW)


def step_of(dtype):
    """Half the distance between two neighbours at one: the largest relative error of one rounding."""
    return NARROW.get(np.dtype(dtype).name, 0.0)


def wide_values(graph, leaves=None):
    """{id: array in f64} of the whole graph on the host. `leaves`: values in place of the graph's own, by id."""
    values = {leaf.id: (leaves or {}).get(leaf.id, leaf.value) for leaf in graph.leaves}
    for node in graph.nodes:
        values.update(zip(node.outs, graph.replay(node, [values[i] for i in node.ins], True), strict=True))
    arrays = {i: array_of(v) for i, v in values.items()}
    return {i: wide(a) for i, a in arrays.items() if a is not None}


def narrow_outputs(graph):
    """The outputs as the host computes them in the graph's own formats: the rounding that is to be expected."""
    values = {leaf.id: leaf.value for leaf in graph.leaves}
    for node in graph.nodes:
        values.update(zip(node.outs, graph.replay(node, [values[i] for i in node.ins], False), strict=True))
    return [wide(array_of(values[i])) for _, i in graph.outputs]
