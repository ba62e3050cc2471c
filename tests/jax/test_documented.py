"""The examples in JAX's own documentation of jax.numpy, jax.lax and jax.nn: each prints here what it says there.

Numbers may differ in their last digits; examples without an output must run.
"""

import contextlib
import doctest
import functools
import inspect
import io
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytestmark = pytest.mark.slow

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|inf|nan)j?")
# Not unique; an edge between two bins at 15 in f32; output written as a comment; written for other numbers of devices.
OTHERWISE = {
    "numpy.linalg.eig", "numpy.linalg.eigh", "numpy.histogram", "numpy.save",
    "lax.all_gather", "lax.axis_index", "lax.axis_size", "lax.pmean", "lax.psum", "lax.psum_scatter",
}  # fmt: skip


def documented():
    seen, parser = set(), doctest.DocTestParser()
    for module in (jnp, jnp.linalg, jnp.fft, jax.lax, jax.nn):
        for name in sorted(vars(module)):
            doc = getattr(getattr(module, name), "__doc__", None)
            if name.startswith("_") or not isinstance(doc, str) or ">>>" not in doc or doc in seen:
                continue
            seen.add(doc)
            examples = [e for e in parser.get_examples(inspect.cleandoc(doc)) if doctest.SKIP not in e.options]
            full = f"{module.__name__.removeprefix('jax.')}.{name}"
            if full not in OTHERWISE:
                yield pytest.param(module, examples, id=full)


def same(got, want):
    got, want = (re.sub(r"<BLANKLINE>|\s+", "", t) for t in (got, want))
    if NUMBER.sub("#", got) != NUMBER.sub("#", want):
        return False
    pairs = zip(NUMBER.findall(got), NUMBER.findall(want), strict=True)
    return all(a == b or np.isclose(complex(a), complex(b), rtol=2e-3, atol=1e-4) for a, b in pairs)


@pytest.mark.parametrize("module, examples", list(documented()))
def test_prints_what_it_says(module, examples, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {**vars(jnp), **vars(module), "jax": jax, "jnp": jnp, "np": np, "lax": jax.lax, "partial": functools.partial}
    for e in examples:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            if e.exc_msg is None:
                exec(compile(e.source, "<example>", "single"), names)
            else:
                with pytest.raises(Exception):  # noqa: B017
                    exec(compile(e.source, "<example>", "single"), names)
        if e.want and e.exc_msg is None and "..." not in e.want:
            assert same(out.getvalue(), e.want), f"{e.source}gives {out.getvalue()}, documented {e.want}"
