"""Costs and collectives as Python gets them."""

import json

import pytest

from trine import _core


def test_cost():
    c = _core.cost_of("trn1.2xlarge", 3.6e12, cores=1, results=1000)
    assert c["rents"][0]["way"] == "on-demand" and c["rents"][0]["usd"] == pytest.approx(1.34375 / 2)
    assert c["rents"][0]["usd_per_million"] == pytest.approx(1.34375 / 2 * 1000)
    assert c["rents"][0]["region"] == "us-east-1" and c["rents"][0]["date"] == "2026-01-21"
    assert c["wall_joules"] == pytest.approx(3600 * c["wall_watts"]) and c["power_is_estimate"]


def test_collective():
    t = _core.time_collective("trn1.32xlarge", "all_reduce", 1 << 20, ranks=8)
    assert t["algorithm"] == "rdh" and t["band_ns"][0] <= t["ns"] <= t["band_ns"][1]
    assert t["ns"] == pytest.approx(t["start_ns"] + t["latency_ns"] + t["transfer_ns"])
    shift = _core.time_collective("trn1.32xlarge", "permute", 1 << 20, ranks=8)  # each to the next, over a link of 48 bytes/ns
    assert shift["steps"] == 1 and shift["transfer_ns"] == pytest.approx((1 << 20) / 48)
    everyone = _core.time_collective("trn1.32xlarge", "all_reduce", 1 << 20, ranks=8, all_groups=True)
    assert everyone["ns"] >= t["ns"]


@pytest.mark.parametrize("wrong", [{"kind": "gossip"}, {"ranks": 33}, {"ranks": -1}, {"nodes": 0}, {"lnc": 9}, {"stride": 0}])
def test_what_cannot_be(wrong):
    with pytest.raises(ValueError):
        _core.time_collective(**{"instance": "trn1.32xlarge", "kind": "all_reduce", "bytes": 64, **wrong})


def step(batches):
    """Two stages of one layer each, whose gradients are summed over copies beside the next batch."""
    piece = {"what": "forward", "ns": 1000.0, "uses": {"dma": 0.5}}
    back = [{"what": "backward", "ns": 2000.0}, {"what": "sum", "ns": 500.0, "lane": "copies", "group": "data", "after": [0]}]
    stage = {"forward": [[piece]], "backward": [back], "end": [{"what": "optimiser", "ns": 100.0, "after_all": True}]}
    return {"names": ["forward", "backward", "sum", "optimiser", "send"], "stages": [stage, stage], "batches": batches,
            "send": {"what": "send", "ns": 10.0}}  # fmt: skip


def test_a_step_adds_up_and_says_who_waits_for_whom():
    t = _core.time_step(json.dumps(step(8)), spans=True)
    assert len(t["stages"]) == 2 and [s["in_flight"] for s in t["stages"]] == [2, 1] and t["spans"]
    for s in t["stages"]:
        assert sum(p["ns"] for p in s["parts"]) == pytest.approx(t["ns"])
        assert sum(p["ns"] for p in s["parts"] if p["spent"] == "compute") == pytest.approx(8 * 3000 + 100)
    assert any(p["spent"] == "waits" and p.get("stage") == 1 for p in t["stages"][0]["parts"])
    assert _core.time_step(json.dumps(step(1 << 40)))["ns"] == pytest.approx(3010.0 * (1 << 40), rel=1e-6)  # what is sent there and back is waited for


@pytest.mark.parametrize("wrong,message", [({"batches": 0}, "0 batches"), ({"send": {"what": "gift"}}, 'no name "gift"'), ({"stages": []}, "0 stages")])
def test_a_step_that_does_not_fit_together(wrong, message):
    with pytest.raises(ValueError, match=message):
        _core.time_step(json.dumps(step(4) | wrong))
