"""What random programs were shrunk to when they found a fault."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax


def later(a, b):
    """The larger of pairs (value, place); of equal values the later place."""
    keep = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] > b[1]))
    return jnp.where(keep, a[0], b[0]), jnp.where(keep, a[1], b[1])


def pairs(x, i):
    found = lax.reduce((x, i), (jnp.int64(-(2**63)), jnp.int32(-1)), later, (0,))
    return found[0] * 2 + found[1].astype(x.dtype), jnp.sort(x, 0, descending=True)


def rows(x, c):
    return lax.scan(lambda c, row: (jnp.ones_like(c), x.T.astype(jnp.int32).reshape(-1)[:3]), c, x, reverse=True)[1]


def halve(z):
    def turn(t):
        z, _, n = t
        return z / 2, jnp.conj(z), n + 1

    return lax.while_loop(lambda t: (jnp.abs(t[1]).sum() > 1e-2) & (t[2] < 99), turn, (z, z * 2, 0))


def turned(z):
    z = jnp.flip(z, 0)
    return z, z.reshape(2, 5).T


def flags(x, limit):
    def turn(t):
        return limit, False, t[2] * 2

    return lax.while_loop(lambda t: (t[0] < limit) | t[1], turn, (limit - 1, True, x))


# Results of a few lanes lay over what the next lanes read (pairs, rows); the end of a turn read complex numbers that
# the same loop wrote (halve), and what it wrote it read under other dims (turned). A loop did not end where a turn sets
# what the condition reads to a constant, or to a number from outside (flags): nothing computed the condition.
FOUND = {
    "pairs": (pairs, [np.array([0, 0, 1], np.int64), np.array([0, 0, 1], np.int32)]),
    "halve": (halve, [np.array([1 - 1j, 1j], np.complex64)]),
    "turned": (turned, [np.arange(10).reshape(5, 2).astype(np.complex64)]),
    "flags": (flags, [np.arange(3.0, dtype=np.float32), np.int32(4)]),
    "rows": (rows, [np.array([[0, 0], [1, 2]], np.int16), np.array([0, 0, 1], np.int32)]),
}


@pytest.mark.parametrize("name", FOUND)
def test_as_on_the_cpu(name):
    f, arguments = FOUND[name]
    with jax.enable_x64(True):
        got, want = (jax.jit(f)(*jax.device_put(arguments, jax.devices(d)[0])) for d in ("neuron", "cpu"))
    jax.tree.map(np.testing.assert_array_equal, got, want)


def test_complex_numbers_are_clamped_by_their_real_parts():
    a = np.array([1 + 2j, complex(np.nan, 1), 0, 0, 2], np.complex64)
    x = np.array([1 + 1j, 1, complex(np.nan, 0), 3, 1j], np.complex64)
    b = np.array([1, 2, 2, complex(np.nan, 2), -1], np.complex64)
    got, want = (jax.jit(lax.clamp)(*jax.device_put((a, x, b), jax.devices(d)[0])) for d in ("neuron", "cpu"))
    np.testing.assert_array_equal(got, want)
