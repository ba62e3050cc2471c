"""Every pass from graph to graph leaves what computes the same: each graph of the replay corpus, before a pass and after it,
by the ops' reference meanings.

Graphs that the reference evaluator would take long for, and those with loops, which may not end for arguments of chance, are
left out and counted; those of the zoo are all too large, and no group here. What a pass is meant to change is said in
MEANT: a comparison then begins anew after it.
"""

import collections
import functools
import re

import numpy as np
import pytest
from ops.handler import DTYPES, INTS, from_bytes, to_bytes

from trine import _core

COST_MAX = 3e5  # steps of the reference evaluator, roughly
# Shapes or the number of devices change: nothing before can be compared with what is after.
MEANT = {"partition", "layout"}
EPS = {"f64": 2.0**-52, "f32": 2.0**-23, "c64": 2.0**-23, "c128": 2.0**-52, "f16": 2.0**-10, "bf16": 2.0**-7, "tf32": 2.0**-10}
ULPS = 64  # roundings that add up on the way
TYPE = re.compile(r"\b(" + "|".join(DTYPES) + r")\[([0-9,]*)\]")


def head(text):
    """The parameters' types."""
    return [(d, tuple(int(n) for n in s.split(",") if n)) for d, s in TYPE.findall(text[: text.index("{\n")].split(") {")[0].split(") donate")[0])]


def random(dtype, shape, rng):
    count = int(np.prod(shape, dtype=np.int64))
    if dtype == "bool":
        return rng.integers(0, 2, count).astype(np.bool_).reshape(shape)
    if dtype in INTS:
        return rng.integers(0, 2 if INTS[dtype][0] < 4 else 6, count).astype(DTYPES[dtype]).reshape(shape)
    values = rng.uniform(-2, 2, count)
    if dtype in ("c64", "c128"):
        values = values + 1j * rng.uniform(-2, 2, count)
    return values.astype(DTYPES[dtype]).reshape(shape)


def arguments(params):
    rng = np.random.default_rng(7)
    return [random(dtype, shape, rng) for dtype, shape in params]


def values(text, given):
    """Results for the arguments, each as the parameter's type has it."""
    params = head(text)
    raw = [to_bytes(np.asarray(g).astype(DTYPES[d]), d) for (d, _), g in zip(params, given)]
    return [from_bytes(*result) for result in _core.evaluate(text, raw)]


def eps_of(texts):
    """Of the coarsest float that occurs in one of them."""
    found = {d for text in texts for d, _ in TYPE.findall(text)}
    return max((EPS.get(d, 0.25) for d in found if d not in INTS and d != "bool"), default=0.0)


def apart(a, b):
    """The largest difference, against the larger of 1 and the largest value."""
    if a.shape != b.shape:
        return np.inf
    wide = np.complex128 if np.iscomplexobj(a) or np.iscomplexobj(b) else np.float64
    a, b = a.astype(wide), b.astype(wide)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    finite = np.abs(a[np.isfinite(a)])
    with np.errstate(invalid="ignore"):
        gap = np.abs(a - b)[~same]
    return float(np.nan_to_num(gap, nan=np.inf, posinf=np.inf).max() / max(1.0, finite.max(initial=0.0)))


class NoMeaning(Exception):
    """The reference refuses the graph as it came, or these arguments: there is nothing to compare with."""


def compare(graphs):
    """The first pass after which results differ by more than rounding, or nothing."""
    before = want = given = None
    eps = eps_of(text for _, text in graphs)
    for name, text in graphs:
        if text == before:
            continue
        before = text
        if want is None or name in MEANT:
            given = arguments(head(text))
            try:
                want = values(text, given)
            except (ValueError, IndexError, RuntimeError, NotImplementedError) as e:
                raise NoMeaning(str(e)) from None
            continue
        try:
            got = values(text, given)
        except (ValueError, IndexError, RuntimeError, NotImplementedError) as e:
            return f"after {name}: {e}"
        for i, (a, b) in enumerate(zip(want, got, strict=True)):
            error = apart(a, b)
            if error > ULPS * eps:
                return f"result {i} after {name}: {error:.3g} apart, {error / eps if eps else np.inf:.0f} eps"
    return None


def artifacts(group):
    """{name: artifact} of a group of the corpus: what its programs hand to the reader."""
    from replay import corpus, listings

    found = {}

    def keep(artifact, form, options):
        if form == "graph":
            found[f"{case.name} {len(found)}"] = artifact
        return "", ""

    old, listings.form_of = listings.form_of, keep
    try:
        for case in corpus.GROUPS[group]():
            case.make()
    finally:
        listings.form_of = old
    return found


@functools.cache
def outcome(group, on_host):
    """What differs, and how many graphs were compared and left out."""
    counts, differing = collections.Counter(), []
    for name, artifact in artifacts(group).items():
        try:
            cost, graphs = _core.pass_graphs(artifact, "trn2", on_host)
        except (ValueError, NotImplementedError, RuntimeError) as e:
            assert "after pass" not in str(e), f"{name}: {e}"
            counts["refused"] += 1
            continue
        if cost > COST_MAX:
            counts["too large"] += 1
            continue
        if " = while " in graphs[0][1]:  # for arguments of chance it may never end
            counts["loops"] += 1
            continue
        try:
            problem = compare(graphs)
        except NoMeaning:
            counts["not evaluated"] += 1
            continue
        counts["compared"] += 1
        if problem:
            differing.append(f"{name}: {problem}")
    return differing, counts


@pytest.mark.parametrize("on_host", [False, True], ids=["device", "host"])
@pytest.mark.parametrize("group", ["ops", "jax", "onnx", "stablehlo", pytest.param("torch", marks=pytest.mark.slow), "mesh"])
def test_passes_keep_values(group, on_host):
    differing, counts = outcome(group, on_host)
    print(group, dict(counts))
    assert not differing, "\n".join(differing)
    assert counts["compared"] > 0
