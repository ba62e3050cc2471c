"""Linear algebra that JAX lowers for CPU and GPU alone: here custom calls, which the virtual device knows by name.

Matrices of these sizes are the host's business, as f64 and complex numbers are. The names stay what they are: programs
exported with them are read by later versions.
"""

from jax._src import core
from jax._src.export import _export
from jax._src.interpreters import mlir
from jax._src.lax import linalg
from jax.core import ShapedArray


def call(ctx, name, operands, avals, config=""):
    types = [mlir.aval_to_ir_type(ctx.module_context, a) for a in avals]
    is_known = all(core.is_constant_shape(a.shape) for a in avals)  # else jax.export's sizes left open
    shapes = None if is_known else [mlir.eval_dynamic_shape_as_tensor(ctx, a.shape) for a in avals]
    op = mlir.custom_call(name, result_types=types, operands=operands, result_shapes=shapes, backend_config=config,
                          api_version=1)  # fmt: skip
    return list(op.results)


def some(x, dims, subset, axis):
    """Of dim `axis`, counted from the last, those that are wanted."""
    if subset is None or tuple(subset) == (0, dims[axis]):
        return x
    begin, end = [0] * len(dims), list(dims)
    begin[axis], end[axis] = subset
    return mlir.hlo.slice(x, *(mlir.dense_int_array(v) for v in (begin, end, [1] * len(dims))))


def eigh(ctx, x, *, lower, sort_eigenvalues, subset_by_index, algorithm):
    del algorithm
    (aval,) = ctx.avals_in
    vectors, values = aval, aval.update(shape=aval.shape[:-1], dtype=ctx.avals_out[1].dtype)
    v, w = call(ctx, "Eigh", [x], [vectors, values], f"{int(lower)},{int(sort_eigenvalues)}")
    return [some(v, vectors.shape, subset_by_index, -1), some(w, values.shape, subset_by_index, -1)]


def eig(ctx, x, *, compute_left_eigenvectors, compute_right_eigenvectors, **_):
    values = ctx.avals_out[0]
    vectors = ShapedArray((*values.shape, values.shape[-1]), values.dtype)
    w, left, right = call(ctx, "Eig", [x], [values, vectors, vectors])
    return [w] + [left] * compute_left_eigenvectors + [right] * compute_right_eigenvectors


def svd(ctx, x, *, full_matrices, compute_uv, subset_by_index, algorithm=None):
    del algorithm
    (aval,) = ctx.avals_in
    *batch, m, n = aval.shape
    k = core.min_dim(m, n)
    is_full = full_matrices and compute_uv
    shapes = (*batch, m, m if is_full else k), (*batch, k), (*batch, n if is_full else k, n)
    types = [ShapedArray(s, d) for s, d in zip(shapes, (aval.dtype, ctx.avals_out[0].dtype, aval.dtype), strict=True)]
    wanted = None if is_full else subset_by_index  # JAX has both for no part alone
    u, s, vh = (some(v, shape, wanted, axis) for v, shape, axis in
                zip(call(ctx, "Svd", [x], types, str(int(is_full))), shapes, (-1, -1, -2), strict=True))  # fmt: skip
    return [s, u, vh] if compute_uv else [s]


def schur(ctx, x, *, compute_schur_vectors, sort_eig_vals, select_callable):
    if sort_eig_vals or select_callable is not None:
        raise NotImplementedError("schur: sorted eigenvalues are not known to the virtual NeuronCore")
    (aval,) = ctx.avals_in
    return call(ctx, "Schur", [x], [aval, aval])[: 1 + compute_schur_vectors]


def lu(ctx, x):
    return call(ctx, "LuDecomposition", [x], ctx.avals_out)


def hessenberg(ctx, x):
    return call(ctx, "Hessenberg", [x], ctx.avals_out)


def tridiagonal(ctx, x, *, lower):
    return call(ctx, "Tridiagonal", [x], ctx.avals_out, str(int(lower)))


def tridiagonal_solve(ctx, dl, d, du, b, *, perturb_singular):
    return call(ctx, "TridiagonalSolve", [dl, d, du, b], ctx.avals_out, str(int(perturb_singular)))


def pivoted_qr(ctx, x, order, **_):
    return call(ctx, "PivotedQr", [x, order], ctx.avals_out)


def triangular_solve(ctx, a, b, **options):
    # SciPy's flags may be 0 and 1.
    return linalg._triangular_solve_lowering(ctx, a, b, **{name: bool(flag) for name, flag in options.items()})


TARGETS = {"Eig", "Eigh", "Hessenberg", "LuDecomposition", "PivotedQr", "Schur", "Svd", "Tridiagonal",
           "TridiagonalSolve"}  # fmt: skip
RULES = {
    linalg.eigh_p: eigh,
    linalg.eig_p: eig,
    linalg.svd_p: svd,
    linalg.schur_p: schur,
    linalg.lu_p: lu,
    linalg.hessenberg_p: hessenberg,
    linalg.tridiagonal_p: tridiagonal,
    linalg.tridiagonal_solve_p: tridiagonal_solve,
    linalg.geqp3_p: pivoted_qr,
    linalg.triangular_solve_p: triangular_solve,
}


def register(platform):
    """After the platform: JAX takes rules for platforms it knows."""
    _export._CUSTOM_CALL_TARGETS_GUARANTEED_STABLE.update(TARGETS)
    for primitive, rule in RULES.items():
        mlir.register_lowering(primitive, rule, platform=platform)
