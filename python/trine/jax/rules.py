"""What JAX does for the platforms it knows by name alone, and the host can do for this one as well.

Sparse solves and checks that nobody functionalized are functions of the host, as on JAX's CPU; what a lowered program
costs is counted by XLA's own rules.
"""

import functools
import sys

from jax._src import checkify
from jax._src.interpreters import mlir, pxla
from jax._src.lax import special
from jax._src.lib import _jax, xla_client
from jax.interpreters import mlir as public_mlir

SPARSE = "jax.experimental.sparse.linalg"  # takes SciPy with it: nobody waits for it who does not use it


def _register_sparse(platform: str) -> None:
    def register(primitive, rule):
        mlir.register_lowering(primitive, rule, platform=platform, cacheable=False)

    if SPARSE in sys.modules:
        register(sys.modules[SPARSE].spsolve_p, sys.modules[SPARSE]._spsolve_cpu_lowering)
        return
    known = public_mlir.register_lowering

    def register_lowering(prim, rule, *args, **options):
        if prim.name == "spsolve" and options.get("platform") == "cpu":
            register(prim, rule)
        return known(prim, rule, *args, **options)

    public_mlir.register_lowering = register_lowering


@functools.cache
def _counting_client():
    return xla_client.make_cpu_client()


def _cost_analysis(platform: str):
    known = pxla.MeshComputation.cost_analysis

    def cost_analysis(self):
        if self.compile_args["backend"].platform != platform:
            return known(self)
        return _jax.hlo_module_cost_analysis(_counting_client(), self.hlo().as_hlo_module())

    return cost_analysis


def _register_erf(platform: str) -> None:
    """Of f8 by way of f32: CHLO has no erf of its own for it, and programs for plugins are without CHLO's."""
    known = mlir._lowerings[special.erf_p].rule
    wide = mlir.lower_fun(lambda x: special.erf(x.astype("float32")).astype(x.dtype), multiple_results=False)

    def erf(ctx, x, **options):
        return (wide if ctx.avals_in[0].dtype.itemsize == 1 else known)(ctx, x, **options)

    mlir.register_lowering(special.erf_p, erf, platform=platform)


def register(platform: str) -> None:
    _register_sparse(platform)
    _register_erf(platform)
    mlir.register_lowering(checkify.check_p, checkify.check_lowering_rule, platform=platform, cacheable=False)
    pxla.MeshComputation.cost_analysis = _cost_analysis(platform)
