"""Number formats of products and rounding, as NEURON_CC_FLAGS, the runtime's variables and compiler options say."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

RNG = np.random.default_rng(0)
A, B = (RNG.standard_normal((32, 64)).astype(np.float32) for _ in range(2))


def product(precision=None, **options):
    f = jax.jit(lambda a, b: jnp.einsum("ik,jk->ij", a, b, precision=precision), compiler_options=options or None)
    return np.asarray(f(A, B), np.float64)


def in_format(dtype):
    return A.astype(dtype).astype(np.float64) @ B.astype(dtype).astype(np.float64).T


def tf32(x):
    bits = x.view(np.uint32).astype(np.uint64)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~np.uint64(0x1FFF)).astype(np.uint32).view(np.float32).astype(np.float64)


def test_products_are_f32_unless_told_otherwise():
    np.testing.assert_allclose(product(), in_format(np.float64), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name,dtype", [("bf16", ml_dtypes.bfloat16), ("fp16", np.float16), ("fp8_e4m3", ml_dtypes.float8_e4m3)])
def test_operands_in_a_narrower_format(name, dtype):
    got = product(**{"auto-cast": "matmult", "auto-cast-type": name})
    np.testing.assert_allclose(got, in_format(dtype), rtol=1e-4, atol=1e-5)
    assert np.abs(got - in_format(np.float64)).max() > 1e-3


def test_precision_overrules():
    options = {"auto-cast": "matmult"}
    np.testing.assert_allclose(product("highest", **options), in_format(np.float64), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(product("high", **options), tf32(A) @ tf32(B).T, rtol=1e-4, atol=1e-5)


def test_all():
    f = jax.jit(lambda x: x + 1, compiler_options={"auto_cast": "all"})
    assert f(jnp.float32(1 / 3)) == np.float32(ml_dtypes.bfloat16(ml_dtypes.bfloat16(1 / 3) + ml_dtypes.bfloat16(1)))


def test_wrong_options_name_themselves():
    for options, said in [({"auto-cast": "most"}, "none, matmult, all"), ({"no-such": "1"}, "auto-cast-type")]:
        with pytest.raises(Exception, match=said):
            product(**options)


@pytest.mark.parametrize("name", "exp expm1 log log1p logistic tanh erf erf_inv sin cos tan sqrt".split())
def test_a_constant_gives_the_bits_of_an_argument(name):
    f, x = getattr(jax.lax, name), RNG.uniform(0.01, 0.99, 500).astype(np.float32)
    np.testing.assert_array_equal(jax.jit(lambda: f(x))(), jax.jit(f)(x))


@pytest.mark.parametrize("make", [jax.nn.initializers.lecun_normal(), jax.nn.initializers.glorot_uniform()])
def test_random_weights_are_the_same_within_a_jit(make):
    key = jax.random.key(0)
    np.testing.assert_array_equal(jax.jit(lambda k: make(k, (8, 9)))(key), make(key, (8, 9)))


def test_rounding_by_chance():
    x = jnp.full(20000, 1 + 2**-9, jnp.float32)  # a quarter of the way to the next bf16
    f = jax.jit(lambda x: x.astype(jnp.bfloat16).astype(jnp.float32).mean(), compiler_options={"stochastic-rounding": "1"})
    assert abs(f(x) - (1 + 2**-9)) < 2e-4
    # Small steps are not lost: 256 + 1000 * 0.1 in bf16, where nearest rounding stays at 256.
    step = jax.jit(lambda w: w + jnp.bfloat16(0.1), compiler_options={"stochastic-rounding": "1"})
    w = jnp.full(200, 256, jnp.bfloat16)
    for _ in range(300):
        w = step(w)
    assert abs(float(w.astype(jnp.float32).mean()) - 286) < 3


ENVIRONMENT = """
import jax, jax.numpy as jnp, numpy as np
a = np.full((1, 1), 1 + 2**-10, np.float32)
print(float(jax.jit(jnp.matmul)(a, a)[0, 0]), jax.devices()[0].client.platform_version)
"""


@pytest.mark.parametrize("env,want,said", [
    ({"NEURON_CC_FLAGS": "--model-type transformer --auto-cast=matmult"}, "1.0 ", "--auto-cast matmult --auto-cast-type bf16"),
    ({"NEURON_CC_FLAGS": "--auto-cast matmult --auto-cast-type tf32"}, "1.0019540786743164 ", "tf32"),
    ({"NEURON_RT_STOCHASTIC_ROUNDING_EN": "1"}, "1.0019540786743164 ", "--stochastic-rounding 1"),
])  # fmt: skip
def test_environment(env, want, said):
    done = subprocess.run([sys.executable, "-c", ENVIRONMENT], env=os.environ | env, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith(want) and said in done.stdout, done.stdout + done.stderr
