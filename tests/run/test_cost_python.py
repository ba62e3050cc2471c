"""Costs and collectives as Python gets them."""

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
