"""What a model's parameters are before there are any: shape, first value, and how tensor parallelism cuts each.

From one tree of `Parameter` come the shapes, the random start, the loading of files and the sharding. No JAX at import.
"""

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Parameter:
    shape: tuple
    first: str = "normal"  # zeros, ones
    scale: float = 0.02
    split: int | None = None  # the axis that is cut over cores; None: every core has all of it
    parts: int = 0  # what that axis is made of and may not be cut inside (heads); 0: single elements
    groups: int = 0  # key heads, where several of the parts share one: each core has whole keys and parts of their groups
    trained: bool = True
    kernel: bool = False  # of a convolution over one axis, which files hold the other way round
    counted: bool = True  # among the model's parameters; running statistics and the like are not

    def slots(self, cores):
        """(slots, parts in one): a slot has one group's key, or a copy of it, and as many of the group's parts; past the
        last part there are zeros. Without groups a core is one slot."""
        parts = self.parts or self.shape[self.split]
        if not self.groups:
            return cores, math.ceil(parts / cores)
        slots = math.lcm(self.groups, cores)
        return slots, math.ceil(parts / slots)

    @property
    def repeated(self):
        """The keys themselves: slots have copies of one, rather than a share."""
        return self.groups > 0 and self.groups == self.parts

    def on_core(self, cores):
        """The shape one of `cores` holds."""
        if self.split is None or cores == 1:
            return self.shape
        slots, each = self.slots(cores)
        dim = self.shape[self.split]
        return (*self.shape[: self.split], slots // cores * each * (dim // (self.parts or dim)), *self.shape[self.split + 1 :])

    def over(self, cores):
        """The shape of all cores' pieces side by side."""
        local = self.on_core(cores)
        return tuple(d * cores if i == self.split and cores > 1 else d for i, d in enumerate(local))

    def spread(self, value, cores):
        """The value as `over` has it: keys repeated, the rest filled up with zeros. Works on NumPy and JAX arrays."""
        import numpy as np

        if self.split is None or cores == 1 or self.over(cores) == self.shape:
            return value
        xp = np
        if not isinstance(value, np.ndarray):
            import jax.numpy as xp
        slots, each = self.slots(cores)
        dim, groups = self.shape[self.split], self.groups or 1
        parts = self.parts or dim
        cut = value.reshape(*self.shape[: self.split], groups, parts // groups, dim // parts, *self.shape[self.split + 1 :])
        if self.repeated:
            return xp.repeat(cut, slots // groups, self.split).reshape(self.over(cores))
        missing = slots // groups * each - parts // groups
        widths = [(0, missing if i == self.split + 1 else 0) for i in range(cut.ndim)]
        return xp.pad(cut, widths).reshape(self.over(cores))

    def filled(self, cores):
        """Along the axis that is cut, of all cores: is it an element of the parameter, or of what was filled up?"""
        import numpy as np

        return replace(self, shape=(self.shape[self.split],), split=0).spread(np.ones(self.shape[self.split], bool), cores)


def dense(inputs, outputs, bias=True, split=None, parts=0, groups=0, count=None):
    """A dense layer cut by "columns" (outputs) or "rows" (inputs), or whole; `count` of them stacked."""
    lead = () if count is None else (count,)
    axis = {"columns": len(lead) + 1, "rows": len(lead)}.get(split)
    layer = {"w": Parameter((*lead, inputs, outputs), split=axis, parts=parts, groups=groups)}
    if bias:
        cut = len(lead) if split == "columns" else None
        layer["b"] = Parameter((*lead, outputs), "zeros", split=cut, parts=parts, groups=groups)
    return layer


def norm(width, kind, split=None, parts=0, groups=0):
    if kind == "plain":
        return {}
    scale = Parameter((width,), "zeros" if kind in ("rms1", "layer1") else "ones", split=split, parts=parts, groups=groups)
    biased = kind in ("layer", "layer1")
    return {"scale": scale} | ({"bias": Parameter((width,), "zeros", split=split, parts=parts, groups=groups)} if biased else {})


def table(rows, width, split=None):
    return {"table": Parameter((rows, width), split=split)}


def conv(size, inputs, outputs, bias=False):
    scale = (2 / (size * size * inputs)) ** 0.5
    layer = {"w": Parameter((size, size, inputs, outputs), scale=scale)}
    return layer | ({"b": Parameter((outputs,), "zeros")} if bias else {})


def conv1(size, inputs, outputs, bias=True, groups=1):
    """Over one axis, [size, inputs of a group, outputs]."""
    layer = {"w": Parameter((size, inputs // groups, outputs), scale=(2 / (size * inputs)) ** 0.5, kernel=True)}
    return layer | ({"b": Parameter((outputs,), "zeros")} if bias else {})


def batch_norm(width):
    still = {"mean": Parameter((width,), "zeros", trained=False, counted=False), "var": Parameter((width,), "ones", trained=False, counted=False)}
    return norm(width, "layer") | still


def leaves(tree, path=()):
    """(path, leaf) in the order JAX has them: dictionaries by sorted key."""
    if isinstance(tree, dict):
        for name in sorted(tree):
            yield from leaves(tree[name], (*path, name))
    elif isinstance(tree, list):
        for i, part in enumerate(tree):
            yield from leaves(part, (*path, i))
    else:
        yield path, tree


def mapped(tree, function, path=()):
    """The tree with function(path, leaf) at its leaves."""
    if isinstance(tree, dict):
        return {name: mapped(part, function, (*path, name)) for name, part in tree.items()}
    if isinstance(tree, list):
        return [mapped(part, function, (*path, i)) for i, part in enumerate(tree)]
    return function(path, tree)


def whole(tree):
    """The same parameters, none of them cut: for parts of a model that every core computes in full."""
    return mapped(tree, lambda _, leaf: replace(leaf, split=None))


def shapes(tree, dtype, cores=1, per_core=True):
    import jax

    def shape(_, leaf):
        return jax.ShapeDtypeStruct(leaf.on_core(cores) if per_core else leaf.over(cores), dtype)

    return mapped(tree, shape)


def specs(tree, axis="tp"):
    """A PartitionSpec for each parameter."""
    from jax.sharding import PartitionSpec

    def spec(_, leaf):
        return PartitionSpec(*(axis if i == leaf.split else None for i in range(len(leaf.shape))))

    return mapped(tree, spec)


def initial(tree, key, dtype):
    import jax
    import jax.numpy as jnp

    listed = dict(leaves(tree))
    keys = dict(zip(listed, jax.random.split(key, len(listed)), strict=True))

    def value(path, leaf):
        if leaf.first == "normal":
            return (jax.random.normal(keys[path], leaf.shape) * leaf.scale).astype(dtype)
        return (jnp.zeros if leaf.first == "zeros" else jnp.ones)(leaf.shape, dtype)

    return mapped(tree, value)
