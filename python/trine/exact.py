"""trine.exact: a JAX function's values instruction by instruction, as a chip would compute them.

The function is compiled for one core and every instruction is run on simulated memory; `weights` names the arguments
that stay the same from call to call, which the program keeps cast and laid out.
"""

import numpy as np

from trine import _core


class Exact:
    """A function compiled for a chip. Calling it runs it; weights are prepared once, by identity."""

    def __init__(self, function, *shapes, chip="trn2", weights=(), auto_cast="none", auto_cast_type="bf16"):
        import jax

        from trine.estimate.lowering import leaf_range, stablehlo

        self.chip = chip
        self._results, self._tree = jax.tree.flatten(jax.eval_shape(function, *shapes))
        leaves = [i for which in weights for i in leaf_range(shapes, which)]
        artifact = stablehlo(function, *jax.tree.map(_shape, shapes))
        self.compiled = _core.compile_device(artifact, chip, auto_cast, auto_cast_type, leaves)
        self.host_placed = self.compiled.host_placed  # ops that the host runs between programs
        self._weights = () if self.host_placed else tuple(leaves)
        self._device_inputs, self.findings = {}, []
        if not self.host_placed:
            self.program = self.compiled.program

    def _prepared(self, i, array):
        """A weight as the program's tensor holds it."""
        entry = self._device_inputs.get(i)
        if entry is None or entry[0] is not array:
            entry = self._device_inputs[i] = (array, self.compiled.prepare(i, np.asarray(array)))
        return entry[1]

    def __call__(self, *args):
        import jax

        leaves = jax.tree.leaves(args)
        prepared = {i: self._prepared(i, leaves[i]) for i in self._weights}
        outputs, self.findings, _ = self.compiled.run([np.asarray(a) for a in leaves], self.chip, prepared)
        return jax.tree.unflatten(self._tree, outputs)


def _shape(leaf):
    import jax

    return jax.ShapeDtypeStruct(np.shape(leaf), leaf.dtype)
