"""Rows of the emitter against torch's CPU: a seeded part of the OpInfo sweep (`make test-torch` runs it whole)."""

import pathlib
import random
import sys
import warnings

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(pathlib.Path(__file__).parent))
pytest.importorskip("expecttest")

import differ  # noqa: E402
import sweep  # noqa: E402

from trine.torch import page  # noqa: E402
from trine.torch.emit import SEEDED, SKIPPED  # noqa: E402
from trine.torch.rows import ROWS  # noqa: E402

SHARDS = 3


@pytest.mark.parametrize("shard", range(SHARDS))
def test_samples_of_opinfo(shard):
    warnings.simplefilter("ignore")
    names = sorted({info.name for info in sweep.infos()[0]})
    chosen = set(random.Random(11 + shard).sample(names, 40))
    found, _ = sweep.sweep([torch.float32, torch.int64], chosen, 1)
    assert not found.failed, "\n".join(f"{n}: {w[0]}" for n, w in sorted(found.failed.items()))
    assert sum(found.passed.values()) > 100


def test_every_row_is_an_op_of_torch():
    for name in ROWS:
        if name in ("_nki.call", "_trine_spmd.constrain"):  # our own
            continue
        space, base, form = "aten", *name.split(".")
        if base == "_prims":
            space, base, form = "prims", form, "default"
        packet = getattr(getattr(torch.ops, space), base, None)
        assert packet is not None and form in packet.overloads(), f"{name} is no op of torch"


# What core ATen has and we leave to torch: results without a static shape, or Python numbers.
CORE_LEFT = {
    "_embedding_bag.default", "_local_scalar_dense.default", "nonzero.default", "masked_scatter.default", "atan2.out",
    "_fft_c2r.default", "_fft_r2c.default", "grid_sampler_2d.default", "col2im.default", "native_batch_norm.default",
    "_native_batch_norm_legit.default", "resize_.default",
    "sym_is_contiguous.default",
}  # fmt: skip


def test_core_aten_has_rows():
    lacking = {name for name in page.core() if name not in ROWS and name not in SKIPPED}
    assert lacking <= CORE_LEFT, sorted(lacking - CORE_LEFT)


def drawn(name, *args, seed=7, **kwargs):
    base, form = name.split(".")
    target = getattr(getattr(torch.ops.aten, base), form)
    return differ.run_row(name, target, args, kwargs, target(*args, **kwargs), seed)


def test_random_rows_draw_what_they_say():
    uniform = drawn("rand.default", [40000])[0]
    assert 0 <= uniform.min() and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.01
    normal = drawn("randn.default", [40000])[0]
    assert abs(normal.mean()) < 0.02 and abs(normal.std() - 1) < 0.02
    whole = drawn("randint.low", -3, 5, [40000])[0]
    assert set(whole.tolist()) == set(range(-3, 5))
    out, keep = drawn("native_dropout.default", torch.ones(40000), 0.25, True)
    assert abs(keep.float().mean() - 0.75) < 0.01 and torch.equal(out, keep.float() / 0.75)
    order = drawn("randperm.default", 1000)[0]
    assert torch.equal(order.sort().values, torch.arange(1000)) and not torch.equal(order, torch.arange(1000))


def test_the_seed_decides():
    first, again, other = (drawn("rand.default", [64], seed=s)[0] for s in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert SEEDED
