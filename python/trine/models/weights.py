"""Weights of a file into a model's tree: finds each parameter's tensor by the family's names and turns it as we have it.

Dense weights become [inputs, outputs], kernels [height, width, inputs, outputs]; tensors that hold several
parameters are taken apart.
"""

import numpy as np

from trine.models import parameters as p
from trine.models.safetensors import FileError

SUFFIXES = {"w": ".weight", "b": ".bias", "scale": ".weight", "bias": ".bias", "table": ".weight", "mean": ".running_mean",
            "var": ".running_var"}  # fmt: skip
OLD = {".weight": ".gamma", ".bias": ".beta"}  # norms of the first BERT files


def names_of(table, prefix, path):
    """[(name, part of it)] a parameter's tensor may have, best first. An empty table: the path is the name."""
    words = [part for part in path if isinstance(part, str)]
    numbers = [part for part in path if isinstance(part, int)]
    suffix = SUFFIXES[words[-1]]
    if not table:
        return [(".".join(str(part) for part in path[:-1]) + suffix, "")]
    given = table.get(".".join(words)) or table.get(".".join(words[:-1]))
    if given is None:
        raise FileError(f"files of this kind have no name for the parameter {'.'.join(words)}")
    found = []
    for one in given.split("|"):
        name, _, part = one.partition("#")
        exact = name.startswith("=")
        name = name.lstrip("=").format(*numbers, *["{}"] * (name.count("{}") - len(numbers)))
        endings = [""] if exact else [suffix, OLD[suffix]] if words[-1] in ("scale", "bias") else [suffix]
        found += [(start + ending, part) for ending in endings for start in (name, name.removeprefix(prefix))]
    return found


def part_of(value, part, c):
    """One of the projections that share a tensor, along its last axis: side by side, or head group by head group."""
    name, _, layout = part.partition("/")
    if name in ("gate", "up"):
        return np.split(value, 2, -1)[name == "up"]
    queries, keys = c.heads * c.head_dim, c.kv_heads * c.head_dim
    if not layout:
        first, last = {"q": (0, queries), "k": (queries, queries + keys), "v": (queries + keys, queries + 2 * keys)}[name]
        return value[..., first:last]
    each = c.heads // c.kv_heads
    grouped = value.reshape(*value.shape[:-1], c.kv_heads, each + 2, c.head_dim)
    cut = {"q": slice(0, each), "k": slice(each, each + 1), "v": slice(each + 1, each + 2)}[name]
    return grouped[..., cut, :].reshape(*value.shape[:-1], -1)


def as_stored(value, leaf, transposed):
    """As our layers have it: the file's dense weights are [outputs, inputs], its kernels outputs first."""
    if leaf != "w":
        return value
    if value.ndim == 4:
        return value.transpose(2, 3, 1, 0)
    return value.swapaxes(-1, -2) if transposed else value


def fits(value, shape):
    """The same but for dims of one."""
    return [d for d in value.shape if d > 1] == [d for d in shape if d > 1]


def load(model, source, table, transposed=True, fixed=None):
    """The model's tree of arrays, from `source[name]`; `fixed` undoes what a converter did to a value."""
    def value(path, parameter):
        names = names_of(table, model.family.prefix, path)
        name, part = next(((n, part) for n, part in names if (n.format(0) in source)), (None, ""))
        if name is None:
            tried = " or ".join(dict.fromkeys(n for n, _ in names))
            raise FileError(f"no tensor {tried} in the file, for {'.'.join(map(str, path))}")
        if "{}" in name:
            made = np.stack([source[name.format(i)] for i in range(parameter.shape[0])])
        else:
            made = source[name]
        made = as_stored(made, path[-1], transposed)
        made = part_of(made, part, model.settings) if part else made
        if not fits(made, parameter.shape):
            raise FileError(f"{name} gives {list(made.shape)}; this configuration of {model.family.name} needs {list(parameter.shape)}")
        made = made.reshape(parameter.shape)
        made = fixed(path, made, model.settings) if fixed else made
        return np.ascontiguousarray(made.astype(model.dtype))

    return p.mapped(model.tree, value)
