"""Hyperbolic functions of complex numbers with an infinite or lost part: where C keeps what it knows of one part of the
result, XLA gives a NaN for both."""

from jax import lax
from jax._src.interpreters import mlir


def endless(x):
    return ~lax.is_finite(x)


LOST = {
    lax.cosh_p: lambda re, im: endless(im),
    lax.sinh_p: lambda re, im: endless(im),
    lax.tan_p: lambda re, im: endless(re) & (im == 0),
    lax.tanh_p: lambda re, im: endless(im) & (re == 0),
}


def _rule(known, is_lost):
    def fix(x, y):
        return lax.select(is_lost(lax.real(x), lax.imag(x)), lax.full_like(y, complex("nan+nanj")), y)

    def lower(ctx, x, **options):
        out = known(ctx, x, **options)
        if ctx.avals_in[0].dtype.kind != "c":
            return out
        both = ctx.replace(avals_in=[*ctx.avals_in, *ctx.avals_out])
        return mlir.lower_fun(fix, multiple_results=False)(both, x, *out)

    return lower


def register(platform: str) -> None:
    for primitive, is_lost in LOST.items():
        mlir.register_lowering(primitive, _rule(mlir._lowerings[primitive].rule, is_lost), platform=platform)
