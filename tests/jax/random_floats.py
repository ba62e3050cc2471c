"""Random programs in floats: one function of numbers of all sizes, infinities, NaN and zeros of both signs, with moves
and choices around it that are exact. What it gives may differ from XLA's CPU by so many units in the last place.

Numbers below the least normal one are neither given nor compared: XLA's CPU takes them for zero.
"""

import re
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
import random_steps
from random_programs import Maker, Program, Value

SPECIALS = "[0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, 1e4, -1e4, 1e-4, 88, -88, 700, -745, 1e30, -1e30, 1e-30, np.inf, -np.inf, np.nan]"

# Units in the last place of f32 and f64. In narrower types one is enough, and four for functions made of several ops, from
# 16 on, as XLA rounds between those. gelu takes one from nearly one, so that eight units of its tanh are hundreds of
# what is left; sinc of more than one is the rounding of pi times it. XLA's cosh and sinh lose half of their argument in units,
# atanh of f64 twenty.
UNARY = {
    "lax.exp": 3, "lax.exp2": 4, "lax.expm1": 4, "lax.log": 3, "lax.log1p": 4, "lax.tanh": 8, "lax.logistic": 6, "lax.sin": 4,
    "lax.cos": 4, "lax.tan": 6, "lax.asin": 6, "lax.acos": 6, "lax.atan": 4, "lax.sinh": 500, "lax.cosh": 500, "lax.asinh": 40,
    "lax.acosh": 40, "lax.atanh": 40, "lax.sqrt": 0, "lax.rsqrt": 4, "lax.cbrt": 4, "lax.erf": 8, "lax.erfc": 16, "lax.erf_inv": 16,
    "lax.floor": 0, "lax.ceil": 0, "lax.round": 0, "jnp.rint": 0, "jnp.trunc": 0, "lax.sign": 0, "lax.abs": 0, "lax.neg": 0, "lax.square": 1,
    "lax.is_finite": 0, "jnp.isnan": 0, "jnp.isinf": 0, "jnp.signbit": 0, "jnp.nan_to_num": 0, "jnp.reciprocal": 1, "jax.nn.relu": 0,
    "jax.nn.softplus": 16, "jax.nn.silu": 16, "jax.nn.gelu": 300, "jax.nn.elu": 6, "jax.nn.relu6": 0, "jax.nn.hard_tanh": 0, "jax.nn.log_sigmoid": 16,
    "jnp.deg2rad": 2, "jnp.cbrt": 4, "jnp.log2": 4, "jnp.log10": 4, "jnp.i0": 40, "lax.bessel_i1e": 16,
    "jnp.frexp": 0, "jnp.modf": 0,
}  # fmt: skip
BINARY = {
    "lax.add": 0, "lax.sub": 0, "lax.mul": 0, "lax.div": 1, "lax.rem": 0, "lax.max": 0, "lax.min": 0, "lax.atan2": 6, "lax.pow": 40,
    "lax.nextafter": 0, "lax.eq": 0, "lax.ne": 0, "lax.lt": 0, "lax.le": 0, "lax.gt": 0, "lax.ge": 0, "jnp.mod": 2, "jnp.floor_divide": 1,
    "jnp.fmod": 0, "jnp.copysign": 0, "jnp.hypot": 16, "jnp.logaddexp": 16, "jnp.heaviside": 0, "jnp.fmax": 0, "jnp.fmin": 0,
    "jnp.divmod": 2,
}  # fmt: skip
# Without NaN in max and min over a dim: XLA's CPU loses it in larger ones.
TEXTS = {
    "lax.integer_pow({0}, 3)": 2, "lax.integer_pow({0}, -2)": 4, "lax.clamp({1}, {0}, {2})": 0, "jnp.clip({0}, -2, 2)": 0,
    "{0}.astype(jnp.bfloat16)": 0, "{0}.astype(jnp.float16)": 0, "{0}.astype(jnp.float32)": 0, "{0}.astype(jnp.float8_e4m3fn)": 0,
    "{0}.astype(jnp.float8_e5m2)": 0, "{0}.astype(jnp.bool)": 0, "lax.reduce_precision({0}, 5, 7)": 0, "lax.reduce_precision({0}, 8, 3)": 0,
    "jnp.clip({0}, -100, 100).astype(jnp.int32)": 0, "jnp.clip({0}, -100, 100).astype(jnp.int8)": 0, "jnp.clip({0}, 0, 100).astype(jnp.uint8)": 0,
    "jnp.sort({0}, -1)": 0, "jnp.argsort({0}, 0, stable=True)": 0, "jnp.argmax({0}, -1)": 0, "jnp.argmin({0}, 0)": 0, "jnp.max(jnp.nan_to_num({0}, nan=7), -1)": 0,
    "jnp.min(jnp.nan_to_num({0}, nan=7), 0)": 0, "lax.cummax({0}, 0)": 0, "lax.cummin({0}, 0, reverse=True)": 0, "jnp.nanmax({0}, 0, initial=-jnp.inf)": 0,
    "jnp.any({0} > 1, -1)": 0, "lax.top_k({0}, 1)": 0, "jnp.where({0} > {1}, {0}, {1})": 0,
    "lax.bitcast_convert_type(jnp.where(jnp.isnan({0}), 0, {0}), jnp.uint32)": 0, "jnp.unique({0}, size=5, fill_value=0)": 0,
    "jnp.searchsorted(jnp.sort({0}.reshape(-1)), {1}.reshape(-1))": 0, "jnp.nan_to_num({0} / {1})": 1, "{0} ** 2": 1, "{0} ** 0.5": 2,
    "jnp.sinc(jnp.clip({0}, -0.75, 0.75))": 40,
    "jax.nn.one_hot(jnp.argmax({0}, -1), 5)": 0, "lax.reduce_window({0}, -jnp.inf, lax.max, (2,) * {0}.ndim, (1,) * {0}.ndim, 'SAME')": 0,
    "{0}.at[0].max({1}[-1])": 0, "{0}.at[0].set({1}[0])": 0, "jnp.isclose({0}, {1})": 0, "jnp.array_equal({0}, {1})": 0,
}  # fmt: skip
STEPS = [
    random_steps.transpose, random_steps.reshape, random_steps.spread, random_steps.slice_, random_steps.reverse, random_steps.roll,
    random_steps.pad, random_steps.concatenate, random_steps.dynamic_slice, random_steps.dynamic_update, random_steps.take, random_steps.choose,
]  # fmt: skip


def function(s, x):
    """The one that may be inexact, and its tolerance."""
    x = x if x.real and x.size and x.ndim else s.values[0]
    y, z = s.like(x), s.like(x)
    kind = s.roll(3)
    name = s.pick(list([UNARY, BINARY, TEXTS][kind]))
    text = [f"{name}({x.name})", f"{name}({x.name}, {y.name})", name.format(x.name, y.name, z.name)][kind]
    s.maker.program.ulps = [UNARY, BINARY, TEXTS][kind][name]
    if name in ("jnp.frexp", "jnp.modf", "jnp.divmod", "lax.top_k"):
        text += f"[{s.roll(2)}]"
    return s.add(text, 0)


@dataclass
class FloatProgram(Program):
    ulps: float = 0

    def tolerates(self, got, want, dtype):
        if "float" not in dtype:
            return np.zeros(want.shape, bool)
        info, (a, b) = jnp.finfo(dtype), (np.asarray(v, np.float64) for v in (got, want))
        ulps = self.ulps if dtype in ("float32", "float64") else min(4 if self.ulps >= 16 else 1, self.ulps)
        least = 128 * float(info.tiny)  # of a product with what XLA has flushed
        with np.errstate(all="ignore"):
            near = np.abs(a - b) <= ulps * float(info.eps) * np.maximum(np.abs(b), least)
            return near | ((np.abs(a) <= least) & (np.abs(b) <= least))

    def exact(self):
        """XLA rounds narrow floats after each op, or does not; where ours rounds elsewhere, it may be the nearer one."""
        texts = " ".join(self.inputs.values())
        narrow, wide = ("b?float16", "float32") if "float16" in texts else ("float32", "float64")

        def widened(text):
            text = re.sub(rf"(\.astype\(jnp\.{narrow}\))", rf"\1.astype(jnp.{wide})", text)
            return re.sub(rf", jnp\.{narrow}\)", f", jnp.{wide})", text)  # of ones

        inputs, lines = {n: widened(t) for n, t in self.inputs.items()}, [replace(li, text=widened(li.text)) for li in self.lines]
        return replace(self, wide=self.wide or wide == "float64", inputs=inputs, lines=lines) if inputs != self.inputs else None


class FloatMaker(Maker):
    def __init__(self, seed, steps, length):
        super().__init__(seed, steps, length)
        self.program = FloatProgram(seed, self.program.wide)

    def inputs(self):
        dtype = ["float32", "float32", "float32", "bfloat16", "float16"][int(self.g.integers(5))]
        dtype = "float64" if self.program.wide and self.g.random() < 0.6 else dtype
        shape = next(d for d in iter(self.dims, None) if np.prod(d) and d)
        for i in range(2):
            value = Value(f"a{i}", shape, dtype, 0)
            seed, scale = int(self.g.integers(1000)), [1, 10, 1e4][int(self.g.integers(3))]
            draw = f"(lambda g: np.where(g.random({shape}) < 0.3, g.choice({SPECIALS}, {shape}), g.standard_normal({shape}) * {scale}))"
            self.program.inputs[value.name] = f"{draw}(np.random.default_rng({seed})).astype(jnp.{dtype})"
            yield value

    def fill(self, scope):
        for _ in range(int(self.g.integers(4))):
            self.step(scope)
        while not self.step(scope, function):
            continue
        for _ in range(int(self.g.integers(3))):
            self.step(scope)
