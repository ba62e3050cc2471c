"""`trine profile capture` over programs as people write them: everything that ran is in the file, with trine.timed's times."""

import numpy as np


def test_total_is_that_of_timed(trained):
    """To the nanosecond; the rows of the timeline add up to it too."""
    time_ns, device_ns, launch_ns, runs = (float(n) for n in trained.out.split())
    p = trained.open()
    before = [r for r in p.info["programs"]]  # random inputs are made before the block that is timed
    assert p.info["ranks"][0]["runs"] >= runs
    inside = [r for r in before if r["runs"] >= 6]
    assert inside
    whole = p.info["ranks"][0]
    assert abs(whole["time_ns"] - p.info["end_ns"]) <= 1
    assert abs((p.runs["end"] - p.runs["begin"]).sum() / 1000 - whole["time_ns"]) < 1
    outside = whole["time_ns"] - time_ns
    assert outside >= -0.5 and abs(whole["launch_ns"] - launch_ns - 18000 * (whole["runs"] - runs)) < 1
    assert device_ns > 0


def test_steps_are_found(trained):
    p = trained.open()
    assert p.info["steps"] in (5, 6)
    last = p.runs[p.runs["step"] == p.info["steps"]]
    assert len(last) == p.info["ranks"][0]["step_runs"]


def test_every_event_is_in_the_window_once(trained):
    """Whatever the level of detail, counts and busy time are those of the events below it."""
    p = trained.open()
    for columns in (1, 50, 10**7):
        found = p.window([t["id"] for t in p.tracks()], 0, p.info["end_ns"] + 1, columns)
        for track in p.tracks():
            if track["kind"] not in ("engine", "dma"):
                continue
            w = found[track["id"]]
            assert len(w) <= 2 * columns + 2 and np.all(w["count"] > 0) and np.all(np.diff(w["begin_ns"]) >= 0)
        counts = sum(int(found[t["id"]]["count"].sum()) for t in p.tracks() if t["kind"] in ("engine", "dma"))
        assert counts == sum(r["events"] * r["runs"] for r in p.info["programs"])


def test_an_event_knows_its_instruction(trained):
    p = trained.open()
    tensor = next(t for t in p.tracks() if t["name"] == "tensor")
    w = p.window([tensor["id"]], 0, p.info["end_ns"], 10**7)[tensor["id"]]
    assert np.all(w["event"] >= 0)
    e = p.event(w["event"][3])
    assert e["engine"] == "tensor" and e["name"] == p.names()[w["name"][3]] and e["graph_op"]
    assert (e["begin_ns"], e["end_ns"]) == (pytest_approx(w["begin_ns"][3]), pytest_approx(w["end_ns"][3]))
    assert e["track"] == tensor["id"]
    for other in e["depends_on"]:
        assert p.event(other)["begin_ns"] <= e["begin_ns"]


def pytest_approx(ns):
    import pytest

    return pytest.approx(ns, abs=0.51)
