"""A training step over many ranks: layouts, what they cost in time and memory, and that all of it adds up."""

import json

import pytest

from trine.estimate import estimate, plan, stages
from trine.models.families import ConfigError

LLAMA = {"model_type": "llama", "vocab_size": 1000, "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8,
         "intermediate_size": 1024, "max_position_embeddings": 4096}  # fmt: skip
MIXTRAL = LLAMA | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}


def step(config=LLAMA, **how):
    return estimate(config, **{"phase": "train", "seq": 256, "instance": "trn1.32xlarge", "dtype": "bfloat16", "tp": 2} | how)


LAYOUTS = {
    "copies": dict(dp=8, accumulate=4, zero=0),
    "zero 1": dict(dp=8, accumulate=4, zero=1),
    "zero 2": dict(dp=8, accumulate=4, zero=2),
    "zero 3": dict(dp=8, accumulate=4, zero=3),
    "overlap": dict(dp=8, accumulate=4, zero=1, overlap=True),
    "stages": dict(pp=4, dp=4, accumulate=8),
    "interleaved": dict(pp=2, chunks=2, dp=8, accumulate=8),
    "context": dict(cp=2, dp=8, accumulate=4),
    "recompute": dict(dp=8, accumulate=4, recompute="full"),
}


@pytest.fixture(scope="module")
def found():
    return {name: step(**how) for name, how in LAYOUTS.items()}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_stage_adds_up(found, name):
    for time in (found[name].step.ours, found[name].step.likely):
        for i in range(len(time.found)):
            parts = time.parts(i)
            assert sum(ms for key, ms in parts.items() if key != "hidden") == pytest.approx(time.ms)
    a = found[name]
    assert a.achievable_ms == pytest.approx(a.step.ours.ms)
    assert a.likely_ms == pytest.approx(a.step.likely.ms + a.host_ms)
    assert sum(row["ms"] for row in a.layers()) == pytest.approx(a.device_ms + a.collectives_ms)
    json.dumps(a.as_dict())


def test_what_is_shared_out_takes_less_memory(found):
    held = [found[n].memory for n in ("copies", "zero 1", "zero 2", "zero 3")]
    assert held[0]["optimiser"] > held[1]["optimiser"] > held[2]["optimiser"] == held[3]["optimiser"]
    assert held[2]["weights"] > held[3]["weights"]
    assert found["recompute"].memory["scratch"] < found["zero 1"].memory["scratch"]


def test_what_runs_beside_the_layers_is_hidden(found):
    assert found["zero 1"].step.likely.parts()["hidden"] == 0
    for name in ("zero 2", "zero 3", "overlap"):
        assert found[name].step.likely.parts()["hidden"] > 0, name
    assert found["overlap"].likely_ms < found["zero 1"].likely_ms


def test_stages_wait_for_each_other_and_keep_batches_in_flight(found):
    s = found["stages"].step.likely.as_dict()["stages"]
    assert [row["in_flight"] for row in s] == [4, 3, 2, 1]
    assert all(row["bubbles_ms"] > 0 for row in s) and s[0]["waits"][0]["for_stage"] == 1
    for name, layout in (("stages", found["stages"]), ("interleaved", found["interleaved"])):
        assert stages.in_flight(layout.plan) == layout.step.likely.found[0]["in_flight"], name


def test_flops_are_those_of_the_model(found):
    """However it is cut, a sequence has the same operations: the rate goes with the throughput of all cores."""
    cores = {name: a.plan.copies * a.plan.pp * a.plan.cp * 2 for name, a in found.items()}
    work = {name: a.mfu * cores[name] / a.throughput for name, a in found.items() if name not in ("context", "recompute")}
    for name, each in work.items():
        assert each == pytest.approx(work["zero 1"], rel=0.25), name


def test_any_number_of_batches(found):
    """Each further batch adds the same, whatever their number."""
    few, more, many = (step(pp=2, dp=8, accumulate=n).step.likely.ms for n in (64, 65, 100_000))
    assert many == pytest.approx(few + (100_000 - 64) * (more - few), rel=1e-6)


def test_sixty_five_thousand_cores_cost_what_their_stages_do():
    a = step(tp=8, pp=4, dp=2048, accumulate=1000)
    assert a.plan.nodes == 2048 and a.plan.copies * a.plan.pp * a.tp == 65536 and len(a.step.likely.found) == 4
    parts = a.step.likely.parts()
    assert sum(ms for key, ms in parts.items() if key != "hidden") == pytest.approx(a.step.likely.ms)
    small = step(tp=8, pp=4, dp=64, accumulate=1000)
    assert 1.0 < a.likely_ms / small.likely_ms < 2.0  # longer rings for the gradients, and nothing else


def test_a_part_of_a_sequence_is_less_work_but_not_its_attention(found):
    whole, half = (found[n].step.ours.parts()["compute"] for n in ("zero 1", "context"))
    assert whole / 2 < half < whole
    assert any(u["of"] == "keys and values" for u in found["context"].collectives if "of" in u)


def test_experts_on_several_copies():
    alone, shared = step(MIXTRAL, dp=8), step(MIXTRAL, dp=8, ep=4)
    assert shared.memory["weights"] < alone.memory["weights"] / 2
    assert [u["kind"] for u in shared.collectives if u.get("of") == "experts"] == ["all_to_all"]
    sums = [u for u in shared.collectives if u.get("of") == "gradients"]
    assert [u["ranks"] for u in sums] == [8, 2]  # what every copy has, and experts


@pytest.mark.parametrize("kind", plan.OPTIMISERS)
def test_precisions_of_the_optimiser(kind):
    a = step(dp=8, optimiser=kind)
    count = a.memory["weights"] / 2
    state = a.memory["optimiser"] - a.memory["weights"]  # less the gradients
    assert state == pytest.approx(sum(plan.OPTIMISERS[kind]) * count / 8, rel=0.02)


@pytest.mark.parametrize(
    "how,message",
    [
        (dict(ep=2), "this model has none"),
        (dict(cp=3), "cut into 6 equal parts, this has 256 tokens"),
        (dict(pp=8), "this has 4"),
        (dict(chunks=2), "from pp 2 on"),
        (dict(pp=2, chunks=2, accumulate=3), "multiples of 2 batches"),
        (dict(pp=4, cp=8), "cp 8 and pp 4 take 64 cores"),
    ],
)
def test_what_does_not_fit_together(how, message):
    with pytest.raises(ConfigError, match=message):
        step(**{"nodes": 1} | how)
