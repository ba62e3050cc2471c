"""trine.timed(): what ran inside, how often, what it takes on the chip."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import trine
from trine import _core


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 64))


def test_a_compiled_loop():
    m, x = model(), torch.randn(32, 64)
    compiled = torch.compile(m, backend="neuron")
    with trine.timed("trn1.2xlarge") as t:
        for _ in range(3):
            compiled(x).pow(2).mean().backward()
    by_name = {r.name: r for r in t.programs}
    assert {n: r.runs for n, r in by_name.items()} == {"forward": 3, "backward": 3}
    assert by_name["backward"].flops > by_name["forward"].flops > 0
    assert t.time_ns == pytest.approx(sum(r.total_ns for r in t.programs))
    assert t.time_ns == pytest.approx(t.device_ns + t.launch_ns) and t.launch_ns > 0
    # what the same time costs by itself
    assert t.cost_usd == pytest.approx(_core.cost_of("trn1.2xlarge", t.time_ns, 1)["rents"][0]["usd"])
    d = json.loads(t.to_json())
    assert d["version"] == 1 and d["time_ns"] == t.time_ns and len(d["programs"]) == 2 and d["cpu_ops"] == {}
    assert "6 runs of 2 programs on trn1.2xlarge, one core" in str(t)


def test_the_same_time_as_a_report():
    m, x = model(), torch.randn(32, 64)
    with torch.no_grad(), trine.timed("trn1.2xlarge") as t:
        torch.compile(m, backend="neuron")(x)
    assert t.time_ns == pytest.approx(trine.report(m, x, instance="trn1.2xlarge").time_ns, rel=0.02)


def test_eager_ops_and_those_of_the_cpu():
    m, x = model().to("neuron"), torch.randn(32, 64).to("neuron")
    with trine.timed("trn2.3xlarge") as t:
        torch.nn.functional.dropout(m(x), 0.5)
        torch.nonzero(x)
    names = [r.name for r in t.programs]
    assert names.count("addmm") == 2 and "gelu" in names and "native_dropout" in names
    assert all(r.device_ns > 0 for r in t.programs)
    assert t.cpu_ops == {"aten::nonzero": 1}
    assert "on the CPU, not timed: aten::nonzero ×1" in str(t)


def test_jax_and_a_stretch_inside_another():
    import jax
    import jax.numpy as jnp

    f, x = jax.jit(lambda x: jnp.tanh(x @ x)), jnp.ones((64, 64))
    with trine.timed() as outer:
        f(x)
        with trine.timed() as inner:
            f(x)
            f(x).block_until_ready()
    runs = {r.name: r.runs for r in outer.programs}, {r.name: r.runs for r in inner.programs}
    assert list(runs[0].values()) == [3] and list(runs[1].values()) == [2]
    assert outer.time_ns == pytest.approx(1.5 * inner.time_ns)


def test_nothing_ran():
    with trine.timed() as t:
        pass
    assert "no program ran" in str(t) and t.time_ns == 0 and t.as_dict()["programs"] == []


def test_a_program_that_no_engine_computes_has_a_reason():
    x = torch.randn(8, dtype=torch.float64).to("neuron")
    with trine.timed() as t:
        x + x
    assert t.programs[0].why_not and "not on the device" in str(t)


def test_what_is_asked_wrongly():
    with pytest.raises(ValueError, match="trn9"):
        trine.timed("trn9.large")
    with pytest.raises(ValueError, match="auto_cast"):
        trine.timed(auto_cast="some")


def test_collectives_of_many_ranks():
    """By the schedule's time; whoever computes less waits for the rank that computes longest."""
    script = Path(__file__).parent / "timed_ranks.py"
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29741", str(script)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=300, env=os.environ | {"TRINE_INSTANCE": "trn1.32xlarge"})
    assert ran.returncode == 0, ran.stderr[-2000:]
    d = json.loads(next(line for line in ran.stdout.splitlines() if line.startswith("{")))
    rows = {e["kind"]: e for e in d["exchanges"]}
    assert {kind: (e["bytes"], e["ranks"], e["count"]) for kind, e in rows.items()} == {
        "all_reduce": (1 << 20, 2, 2), "all_gather": (2 << 20, 2, 1)}  # fmt: skip
    for kind, e in rows.items():
        assert e["each_ns"] == pytest.approx(_core.time_collective("trn1.32xlarge", kind, e["bytes"], 2)["ns"])
    assert d["time"] == pytest.approx(d["parts"]) and "all-reduce of 2 ranks, 1.05 MB" in d["text"]
    assert [row[0] for row in d["heard"]] == ["allreduce_"]  # the host's own: heard, and not counted
    assert [r["waits_for"] for r in d["ranks"]] == [1, None] and d["ranks"][0]["waits_ns"] > 0
