"""A row of the table: a function that makes a program and its arguments."""

import jax

KEY = jax.random.key(0)
ROWS, DOUBLE = {}, set()


def row(f):
    ROWS[f.__name__] = f
    return f


def double(f):
    """Makes and runs the program in 64 bits."""
    DOUBLE.add(f.__name__)
    return f


def normal(*shape, seed=1):
    return jax.random.normal(jax.random.key(seed), shape)


def whole(*shape, below, seed=2):
    return jax.random.randint(jax.random.key(seed), shape, 0, below)
