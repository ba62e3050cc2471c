"""A JAX function and the shapes of its arguments as a StableHLO program, and which of its inputs are weights."""

import dataclasses


@dataclasses.dataclass
class Traced:
    """A program, and what is known of its arguments."""

    artifact: bytes
    ranges: dict  # name -> positions of the inputs that are weights, cache or the optimiser's
    given: list = dataclasses.field(default_factory=list)  # positions of inputs whose memory the results may take, likewise
    host_bytes: int = 0  # that cross from and to the host in a call


def stablehlo(function, *shapes, donated=(), lines=False, **named):
    """The program as text; inputs that nothing reads are among its inputs. `lines`: with the user's source lines."""
    import jax

    jitted = function if hasattr(function, "lower") else jax.jit(function, keep_unused=True, donate_argnums=donated)
    lowered = jitted.trace(*shapes, **named).lower(lowering_platforms=("neuron",))
    return lowered.compiler_ir("stablehlo").operation.get_asm(enable_debug_info=lines).encode()


def traced(function, shapes, resident, donated, host_bytes=0):
    """The Traced with the user's source lines. resident: name -> which argument. donated: arguments whose memory the results may
    take."""
    artifact = stablehlo(function, *shapes, donated=donated, lines=True)
    ranges = {name: leaf_range(shapes, i) for name, i in resident.items()}
    return Traced(artifact, ranges, [leaf_range(shapes, i) for i in donated], host_bytes)


def leaf_range(arguments, which):
    """The positions, among all leaves of the arguments, of the leaves of argument `which`."""
    import jax

    begin = sum(len(jax.tree.leaves(a)) for a in arguments[:which])
    return range(begin, begin + len(jax.tree.leaves(arguments[which])))


def bytes_of(tree):
    import jax
    import numpy as np

    return sum(int(np.prod(leaf.shape, dtype=np.int64)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
