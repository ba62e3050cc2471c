"""Random programs over a mesh of eight devices: arguments cut along its axes, constraints, and shard_map with collectives.

Eight devices of both kinds must be there: TRINE_INSTANCE=trn1.32xlarge, XLA_FLAGS=--xla_force_host_platform_device_count=8.
"""

import jax
import random_control
from jax.sharding import PartitionSpec as P
from random_programs import BASE, SIZES, Maker, Scope
from random_steps import INF

AXES = {"x": 4, "y": 2}

def spec_of(s, shape, free=("x", "y")):
    """How a tensor may lie: each axis of the mesh cuts one dim or none."""
    spec, left = [()] * len(shape), list(shape)
    for axis in free:
        fits = [d for d, n in enumerate(left) if n and n % AXES[axis] == 0]
        if fits and s.roll(3):
            d = s.pick(fits)
            spec[d], left[d] = (*spec[d], axis), left[d] // AXES[axis]
    return spec, tuple(left)


def written(spec):
    return f"P({', '.join(str(s or None) for s in spec)})"


def constrain(s, x):
    spec, _ = spec_of(s, x.shape)
    return s.add(f"lax.with_sharding_constraint({x.name}, NamedSharding(mesh, {written(spec)}))", x.bound)


COLLECTIVES = [
    ("lax.psum({0}, {1})", 8), ("lax.pmax({0}, {1})", 1), ("lax.pmin({0}, {1})", 1), ("lax.all_gather({0}, {1}, axis={2}, tiled=True)", 1),
    ("lax.ppermute({0}, {1}, [(0, 1), (1, 0)])", 1), ("lax.psum_scatter({0}, {1}, scatter_dimension={2}, tiled=True)", 8),
    ("lax.all_to_all({0}, {1}, {2}, 0, tiled=True)", 1), ("{0} + lax.axis_index({1}).astype({0}.dtype)", 2), ("lax.all_gather({0}, {1})", 1),
]  # fmt: skip


def collective(s, x):
    """One among the devices of an axis, or of both."""
    if x.truth or x.complex:
        raise ValueError("not a number")
    text, terms = s.pick(COLLECTIVES)
    axis = s.pick(["'x'", "'y'"] + ["('x', 'y')"] * ("permute" not in text))
    return s.add(text.format(x.name, axis, s.roll(max(1, x.ndim))), INF if x.whole else x.bound * terms)


@random_control.nested
def sharded(s, x):
    """shard_map: a program of each device's part."""
    if s.depth:
        raise ValueError("one mesh at a time")
    x = random_control.carried(s, x if not (x.truth or x.complex) else s.cast(x, "int32"))
    spec, local = spec_of(s, x.shape)
    part = type(x)(x.name, local, x.dtype, x.bound)

    def fill(scope, values):
        scope.values = list(values)  # what lies outside is whole
        for _ in range(1 + s.roll(3)):
            scope.maker.step(scope)
            collective(scope, scope.pick(scope.values[-2:]))
        whole = tuple(axis for axis in AXES if all(axis not in dim for dim in spec))
        given = random_control.back(scope, part)
        return f"lax.pmax({given}, {whole})" if whole else given  # else which device's counts would be left open

    where = f"mesh=mesh, in_specs={written(spec)}, out_specs={written(spec)}, check_vma=False"
    how = {"mesh": BASE["mesh"], "in_specs": P(*spec), "out_specs": P(), "check_vma": False}
    function = s.function([part], fill, around=lambda f: jax.shard_map(f, **how), outside=[x])
    return s.add(f"jax.shard_map({function}, {where})({x.name})", INF if x.whole else 9)


# Without gradients of pools: XLA's partitioner gives others than XLA on one device.
STEPS = [step for step in random_control.STEPS if step is not random_control.pool_gradient] + [constrain] * 5 + [sharded] * 4


class MeshMaker(Maker):
    sizes = SIZES + [4, 8, 8, 16, 16, 32, 64]

    def inputs(self):
        self.program.places = {}
        for value in super().inputs():
            self.program.places[value.name] = written(spec_of(Scope(self, {}, 0, []), value.shape)[0])
            yield value
