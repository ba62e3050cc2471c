"""Weights of a file into a model's tree: finds each parameter's tensor by the family's names and turns it as we have it.

Dense weights become [inputs, outputs], kernels [height, width, inputs, outputs]; tensors that hold several
parameters are taken apart.
"""

import numpy as np

from trine.models import parameters as p
from trine.models.safetensors import FileError
from trine.models.settings import Transformer

SUFFIXES = {"w": ".weight", "b": ".bias", "scale": ".weight", "bias": ".bias", "table": ".weight", "mean": ".running_mean",
            "var": ".running_var", "taps": ".weight", "value": ""}  # fmt: skip
OLD = {".weight": ".gamma", ".bias": ".beta"}  # norms of the first BERT files


def names_of(table, prefix, path):
    """[(name, part of it)] a parameter's tensor may have, best first. An empty table, or one with "*" that does not name
    it: the path is the name."""
    words = [part for part in path if isinstance(part, str)]
    numbers = [part for part in path if isinstance(part, int)]
    suffix = SUFFIXES[words[-1]]
    given = table.get(".".join(words)) or table.get(".".join(words[:-1]))
    if not table or (given is None and "*" in table):
        name = ".".join(str(part) for part in path[:-1]) + suffix
        return [(name, ""), (name.removeprefix(prefix), "")]
    if given is None:
        raise FileError(f"files of this kind have no name for the parameter {'.'.join(words)}")
    found = []
    for one in given.split("|"):
        name, _, part = one.partition("#")
        exact, rotated = name.startswith("="), "~" in name[:2]
        part = part + "~" if rotated else part
        name = name.lstrip("=~").format(*numbers, *["{}"] * (name.count("{}") - len(numbers)))
        endings = [""] if exact else [suffix, OLD[suffix]] if words[-1] in ("scale", "bias") else [suffix]
        found += [(start + ending, part) for ending in endings for start in (name, name.removeprefix(prefix))]
    return found


def part_of(value, part, c):
    """One of the projections that share a tensor, along its last axis: side by side, or head group by head group."""
    name, _, layout = part.partition("/")
    if layout == "odd":
        return value[..., name == "up" :: 2]
    if layout == "gated" and not c.gated:
        return value
    if name in ("gate", "up"):
        return np.split(value, 2, -1)[name == "up"]
    if name in ("first", "rest"):
        return value[..., : c.width, :] if name == "first" else value[..., c.width :, :]
    if layout == "third":
        return np.split(value, 3, -1)[int(name)]
    if layout == "quarters":  # q, v and k of each of four parts of the heads
        each = value.reshape(*value.shape[:-1], 4, 3, -1)[..., "qvk".index(name), :]
        return each.reshape(*value.shape[:-1], -1)
    if layout == "heads":  # of latent keys or values, head by head
        return np.ascontiguousarray(value.transpose(1, 0, 2)).reshape(value.shape[1], -1)
    if layout == "latent":
        each = value.reshape(*value.shape[:-1], c.heads, c.latent.still + c.latent.values)
        cut = each[..., : c.latent.still] if name == "k" else each[..., c.latent.still :]
        return cut.reshape(*value.shape[:-1], -1)
    if layout in ("state", "taps"):
        s = c.space
        sizes = {"z": s.inner, "x": s.inner, "into": s.groups * s.state, "out": s.groups * s.state, "steps": s.heads}
        names = list(sizes) if layout == "state" else ["x", "into", "out"]
        first = sum(sizes[n] for n in names[: names.index(name)])
        return value[..., first : first + sizes[name]]
    queries, keys = c.heads * c.head_dim, c.kv_heads * c.head_dim
    if not layout:
        first, last = {"q": (0, queries), "k": (queries, queries + keys), "v": (queries + keys, queries + 2 * keys)}[name]
        return value[..., first:last]
    each = c.heads // c.kv_heads
    grouped = value.reshape(*value.shape[:-1], c.kv_heads, each + 2, c.head_dim)
    cut = {"q": slice(0, each), "k": slice(each, each + 1), "v": slice(each + 1, each + 2)}[name]
    return grouped[..., cut, :].reshape(*value.shape[:-1], -1)


def as_stored(value, leaf, transposed, kernel=False):
    """As our layers have it: the file's dense weights are [outputs, inputs], its kernels outputs first. kernel: three dims
    are those of a convolution over one axis."""
    if leaf == "taps":
        return value.reshape(value.shape[0], value.shape[-1]).T
    if leaf != "w":
        return value
    if value.ndim == 5:  # of a moving image's patches: one dense layer of all their numbers
        return value.reshape(value.shape[0], -1).T
    if value.ndim == 4:
        return value.transpose(2, 3, 1, 0)
    if value.ndim == 3 and kernel:
        return value.transpose(2, 1, 0)
    return value.swapaxes(-1, -2) if transposed else value


def settings_of(settings, path):
    """Of the stack and the layer that a parameter is in."""
    stack = getattr(settings, path[0], None) if isinstance(path[0], str) else None
    own = stack if isinstance(stack, Transformer) else settings
    return own.layer(path[path.index("layers") + 1]) if isinstance(own, Transformer) and own.forms and "layers" in path else own


def sorted_pairs(value, path, c):
    """q and k whose rotary dims lie in pairs, as we have them: all first ones, then all second ones."""
    name = path[-2]
    if not isinstance(c, Transformer) or not c.rope.paired or c.mixer in ("convolution", "state", "recurrence") or path[-1] == "taps":
        return value
    if c.latent:
        dim, rotated = {"q": (c.latent.still + c.latent.rotated, c.latent.rotated), "kv_down": (value.shape[-1], c.latent.rotated)}.get(name,
            (0, 0))
        first = dim - rotated
    else:
        dim, first, rotated = c.head_dim, 0, int(c.head_dim * c.rope.share) if name in ("q", "k", "q_norm", "k_norm") else 0
    if not rotated:
        return value
    each = value.reshape(*value.shape[:-1], -1, dim)
    cut = each[..., first : first + rotated]
    parts = [each[..., :first], cut[..., ::2], cut[..., 1::2], each[..., first + rotated :]]
    return np.concatenate(parts, -1).reshape(value.shape)


def fits(value, shape):
    """The same but for dims of one, and for those that lie in one."""
    return value.shape[:1] != shape and len(shape) == 1 and value.size == shape[0] or [d for d in value.shape if d > 1] == [d for d in shape if d > 1]


def load(model, source, table, transposed=True, fixed=None):
    """The model's tree of arrays, from `source[name]`; `fixed` undoes what a converter did to a value."""
    def value(path, parameter):
        words = ".".join(part for part in path if isinstance(part, str))
        if callable(table.get(words)):
            return np.ascontiguousarray(table[words](source).reshape(parameter.shape).astype(model.dtype))
        names = names_of(table, model.family.prefix, path)
        name, part = next(((n, part) for n, part in names if (n.format(0) in source)), (None, ""))
        if name is None:
            tried = " or ".join(dict.fromkeys(n for n, _ in names))
            raise FileError(f"no tensor {tried} in the file, for {'.'.join(map(str, path))}")
        if "{}" in name:
            made = np.stack([source[name.format(i)] for i in range(parameter.shape[0])])
        else:
            made = source[name]
        c = settings_of(model.settings, path)
        made = as_stored(made, path[-1], transposed and not part.endswith("~"), parameter.kernel)
        part = part.removesuffix("~")
        made = part_of(made, part, c) if part else made
        if not fits(made, parameter.shape):
            raise FileError(f"{name} gives {list(made.shape)}; this configuration of {model.family.name} needs {list(parameter.shape)}")
        made = sorted_pairs(made.reshape(parameter.shape), path, c)
        made = fixed(path, made, model.settings) if fixed else made
        return np.ascontiguousarray(made.astype(model.dtype))

    return p.mapped(model.tree, value)
