"""The foreach family: lists of tensors, one op each. Made from the rows of the single ops."""

import torch

from trine.torch.rules import ROWS, Value, row, wide

# foreach overload -> the single op's row, by how the second operand comes
UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round "
    "rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
).split()
BINARY = {"add": "add.Tensor", "sub": "sub.Tensor", "mul": "mul.Tensor", "div": "div.Tensor", "pow": "pow.Tensor_Tensor",
          "maximum": "maximum.default", "minimum": "minimum.default", "clamp_max": "minimum.default",
          "clamp_min": "maximum.default"}


def each(b, function, lists):
    """`function` on the i-th of every list, each under its own result type."""
    outs, results = b.outs, []
    for i, (out, arguments) in enumerate(zip(outs, zip(*lists))):
        b.outs = [out]
        results.append(function(b, *arguments))
    b.outs = outs
    return results


def spread(x, count):
    return list(x) if isinstance(x, (list, tuple)) else [x] * count


def _unary(name):
    return lambda b, xs: each(b, ROWS[f"{name}.default"], [xs])


def _binary(target):
    def emit(b, xs, ys, alpha=1):
        n = len(xs)
        if target in ("add.Tensor", "sub.Tensor"):
            return each(b, ROWS[target], [xs, spread(ys, n), spread(alpha, n)])
        return each(b, ROWS[target], [xs, spread(ys, n)])

    return emit


for _name in UNARY:
    row(f"_foreach_{_name}")(_unary(_name))
for _name, _target in BINARY.items():
    for _form in ("Scalar", "List", "ScalarList", "Tensor"):
        if hasattr(getattr(torch.ops.aten, f"_foreach_{_name}"), _form):
            row(f"_foreach_{_name}.{_form}")(_binary(_target))


@row("_foreach_pow.ScalarAndTensor")
def pow_scalar(b, x, ys):
    return each(b, ROWS["pow.Scalar"], [spread(x, len(ys)), ys])


def _addc(target):
    def emit(b, xs, ys, zs, value):
        if isinstance(value, Value):
            raise NotImplementedError(f"_foreach_{target} with its factors in a tensor")
        return each(b, ROWS[f"{target}.default"], [xs, ys, zs, spread(value, len(xs))])

    return emit


for _name in ("addcmul", "addcdiv"):
    row(f"_foreach_{_name}.Scalar", f"_foreach_{_name}.ScalarList")(_addc(_name))


@row("_foreach_lerp.Scalar", "_foreach_lerp.List", "_foreach_lerp.ScalarList")
def lerp(b, xs, ys, weight):
    return each(b, ROWS["lerp.Scalar"], [xs, ys, spread(weight, len(xs))])


@row("_foreach_zero")
def zero(b, xs):
    return each(b, lambda b, x: b.like(x, 0), [xs])


@row("_foreach_copy")
def copy(b, xs, ys, *_):
    return each(b, lambda b, x, y: b.value(y, b.dtype, b.dims), [xs, ys])


@row("_foreach_norm.Scalar")
def norm(b, xs, order, dtype):
    return each(b, lambda b, x: ROWS["linalg_vector_norm.default"](b, x, order, None, False, dtype), [xs])


@row("_foreach_max")
def max_(b, xs):
    return each(b, ROWS["max.default"], [xs])


# fused optimisers, in their functional form: every list comes back, changed


def _adam(decoupled):
    def emit(b, params, grads, means, squares, maxima, steps, lr, beta1, beta2, decay, eps, amsgrad, maximize, scale, found):
        groups = [list(params), list(grads), list(means), list(squares), list(maxima)]
        for i in range(len(params)):
            _adam_step(b, groups, i, steps[i], (lr, beta1, beta2, decay, eps), (decoupled, amsgrad, maximize), scale)
        return groups

    return emit


def _adam_step(b, groups, i, step, numbers, flags, scale):
    lr, beta1, beta2, decay, eps = numbers
    decoupled, amsgrad, maximize = flags
    p0, g0, m0, v0 = (groups[k][i] for k in range(4))
    dtype = wide(p0.dtype)
    p, g, m, v = (b.convert(x, dtype) for x in (p0, g0, m0, v0))
    step = b.convert(step, dtype)
    lr = b.convert(lr, dtype) if isinstance(lr, Value) else lr
    if scale is not None:
        g = b.div(g, b.broadcast(b.convert(scale, dtype), g.dims))
    groups[1][i] = b.convert(g, g0.dtype)
    g = b.negate(g) if maximize else g
    if decay and decoupled:
        p = b.sub(p, b.mul(p, b.mul(lr, decay) if isinstance(lr, Value) else lr * decay))
    elif decay:
        g = b.add(g, b.mul(p, decay))
    m = b.add(m, b.mul(b.sub(g, m), 1 - beta1))
    v = b.add(b.mul(v, beta2), b.mul(b.mul(g, g), 1 - beta2))
    groups[2][i], groups[3][i] = b.convert(m, m0.dtype), b.convert(v, v0.dtype)
    if amsgrad:
        v = b.maximum(b.convert(groups[4][i], dtype), v)
        groups[4][i] = b.convert(v, groups[4][i].dtype)
    first = b.sub(1.0, b.binary("power", b.like(step, beta1), step))
    second = b.unary("sqrt", b.sub(1.0, b.binary("power", b.like(step, beta2), step)))
    size = b.div(b.value(lr, dtype, step.dims), first)
    below = b.add(b.div(b.unary("sqrt", v), b.broadcast(second, v.dims)), eps)
    p = b.sub(p, b.div(b.mul(m, b.broadcast(size, m.dims)), below))
    groups[0][i] = b.convert(p, p0.dtype)


row("_fused_adam", "_fused_adam.tensor_lr")(_adam(False))
row("_fused_adamw", "_fused_adamw.tensor_lr")(_adam(True))


@row("_fused_sgd", "_fused_sgd.tensor_lr")
def sgd(b, params, grads, buffers, decay, momentum, lr, dampening, nesterov, maximize, first, scale, found):
    outs = [list(params), list(grads), list(buffers)]
    for i, (p0, g0) in enumerate(zip(params, grads)):
        dtype = wide(p0.dtype)
        p, g = b.convert(p0, dtype), b.convert(g0, dtype)
        if scale is not None:
            g = b.div(g, b.broadcast(b.convert(scale, dtype), g.dims))
        outs[1][i] = b.convert(g, g0.dtype)
        g = b.negate(g) if maximize else g
        g = b.add(g, b.mul(p, decay)) if decay else g
        if momentum:
            held = b.convert(buffers[i], dtype)
            held = g if first else b.add(b.mul(held, momentum), b.mul(g, 1 - dampening))
            outs[2][i] = b.convert(held, buffers[i].dtype)
            g = b.add(g, b.mul(held, momentum)) if nesterov else held
        outs[0][i] = b.convert(b.sub(p, b.mul(g, b.value(lr, dtype, ()) if isinstance(lr, Value) else lr)), p0.dtype)
    return outs


# GradScaler


@row("_amp_foreach_non_finite_check_and_unscale")
def unscale(b, xs, found, scale):
    """Each times the scale; `found` becomes one where any element is not finite."""
    outs, is_bad = [], b.test("NE", found, 0.0)
    for x in xs:
        finite = b.reduce("and", b.op("is_finite", [x], x.dims, torch.bool), range(x.rank), True)
        is_bad = b.binary("or", is_bad, b.broadcast(b.not_(finite), found.dims))
        factor = b.broadcast(b.convert(b.reshape(scale, ()), wide(x.dtype)), x.dims)
        outs.append(b.convert(b.mul(b.convert(x, wide(x.dtype)), factor), x.dtype))
    return outs, b.convert(is_bad, found.dtype)


@row("_amp_update_scale")
def update_scale(b, scale, tracker, found, growth, backoff, interval):
    is_bad = b.test("NE", b.reshape(found, scale.dims), 0.0)
    good = b.add(tracker, 1)
    is_due = b.test("EQ", good, interval)
    larger = b.mul(scale, growth)
    grows = b.binary("and", b.reshape(is_due, scale.dims), b.op("is_finite", [larger], scale.dims, torch.bool))
    scale = b.where(is_bad, b.mul(scale, backoff), b.where(grows, larger, scale))
    restarts = b.binary("or", is_due, b.reshape(is_bad, tracker.dims))
    return scale, b.where(restarts, b.like(tracker, 0), good)
