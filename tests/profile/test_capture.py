"""`trine profile capture` over programs as people write them: everything that ran is in the file, with trine.timed's times."""

import re

import numpy as np
import pytest


def test_total_is_that_of_timed(trained):
    """To the nanosecond: everything that ran is in the block that is timed. The rows of the timeline add up to it too."""
    time_ns, device_ns, launch_ns, runs = (float(n) for n in trained.out.split())
    p = trained.open()
    whole = p.info["ranks"][0]
    assert (whole["runs"], p.info["time_ns"]) == (runs, pytest.approx(time_ns, abs=0.01))
    assert (whole["device_ns"], whole["launch_ns"]) == (pytest.approx(device_ns, abs=0.01), pytest.approx(launch_ns, abs=0.01))
    assert abs(whole["time_ns"] - p.info["end_ns"]) <= 1
    assert abs((p.runs["end"] - p.runs["begin"]).sum() / 1000 - whole["time_ns"]) < 1


JAX = """
import jax, jax.numpy as jnp, numpy as np, trine
step = jax.jit(lambda w, x: w - 0.1 * jax.grad(lambda w: jnp.tanh(x @ w).sum())(w))
w, x = np.ones((64, 64), np.float32), np.ones((32, 64), np.float32)
with trine.timed("trn1.2xlarge") as t:
    for _ in range(5):
        w = step(w, x)
    w.block_until_ready()
print(repr(t.time_ns), sum(r.runs for r in t.programs))
"""


def test_total_is_that_of_timed_in_jax(capture):
    captured = capture(JAX)
    time_ns, runs = (float(n) for n in captured.out.split())
    p = captured.open()
    assert (p.info["ranks"][0]["runs"], p.info["time_ns"]) == (runs, pytest.approx(time_ns, abs=0.01))


def test_transfers_with_their_bytes(trained):
    """What .to("neuron") and .item() move: each tensor once, in order, at an instant of the chip's clock."""
    p = trained.open()
    moved = {n: p.transfers[p.transfers["direction"] == k]["bytes"].tolist() for k, n in enumerate(("to", "from"))}
    assert moved["to"] == [4 * n for n in (128 * 64, 128, 64 * 128, 64, 32 * 64, 32 * 64)]
    assert moved["from"] == [4]  # the loss, and nothing that we ask for ourselves
    assert p.transfers["at"][0] == 0 and p.transfers["at"][-1] == p.runs["end"].max()
    first = p.event((len(p.runs) << 32) | 0xFFFFFFFF)
    assert (first["kind"], first["name"], first["bytes"]) == ("transfer", "host to device", 4 * 128 * 64)


def test_the_hosts_clock(trained):
    """Runs, transfers and gaps of this machine follow one another, and every level of detail counts each once."""
    p = trained.open()
    host = p.host()
    by_name = {t["name"]: t["id"] for t in host.tracks()}
    assert set(by_name) == {"runs", "host to device", "device to host", "gaps"}
    whole = {name: host.window([i], 0, host.end_ns + 1, 10**9)[i] for name, i in by_name.items()}
    assert len(whole["runs"]) == p.info["ranks"][0]["runs"] and len(whole["host to device"]) == 6
    spans = np.concatenate(list(whole.values()))
    spans = spans[np.argsort(spans["begin_ns"], kind="stable")]
    assert np.all(spans["begin_ns"][1:] <= np.maximum.accumulate(spans["end_ns"])[:-1]), "what is neither is a gap"
    assert spans["begin_ns"][0] == 0 and spans["end_ns"].max() == host.end_ns
    for name, i in by_name.items():
        for columns in (1, 7, 1000):
            assert host.window([i], 0, host.end_ns + 1, columns)[i]["count"].sum() == len(whole[name])
    event = host.event(whole["runs"]["event"][3])
    assert (event["begin_ns"], event["end_ns"], event["track"]) == (whole["runs"]["begin_ns"][3], whole["runs"]["end_ns"][3], by_name["runs"])
    assert p.summary()["nodes"]["rank_0"]["total_time"] > 0


def test_semaphores_let_begin_what_waits_for_them(trained):
    """An instruction that waits for s3>=16 begins when s3 holds 16 and not before; windows show each change once."""
    p, seen = trained.open(), 0
    for number, row in p.by_number.items():
        table, events, insns = p.table(number, "semaphores"), p.table(number, "events"), p.table(number, "insns")
        assert np.all(table["event"] < len(events))  # a program of one transfer has no semaphore
        key = table["core"].astype(np.int64) << 16 | table["semaphore"]
        assert np.all(np.diff(key) >= 0) and np.all((np.diff(table["at"]) >= 0) | (np.diff(key) > 0))
        for at in np.flatnonzero(events["waited_ns"] > 0)[:200]:
            insn = insns[events["insn"][at]]
            for semaphore, wanted in re.findall(r"\bs(\d+)>=(\d+)(?![\d+*])", p.names()[insn["text"]]):
                own = table[(table["core"] == insn["core"]) & (table["semaphore"] == int(semaphore)) & (table["at"] <= events["begin"][at] + 1)]
                if events["doing"][at] == 1 or insn["part"] != 5:  # an engine waits; a queue does not
                    assert len(own) and own["value"][-1] >= int(wanted)
                    seen += 1
    assert seen > 10
    tracks = [t for t in p.tracks() if t["kind"] == "semaphore"]
    wanted = sum(r["runs"] * len(p.table(n, "semaphores")) for r in p.info["programs"] for n in r["numbers"])
    for columns in (1, 50, 10**8):
        found = p.window([t["id"] for t in tracks], 0, p.info["end_ns"] + 1, columns)
        assert sum(int(w["count"].sum()) for w in found.values()) == wanted
    fine = found[tracks[0]["id"]]
    one = fine[fine["event"] >= 0][0]
    assert p.event(one["event"])["text"].count(tracks[0]["name"]) and one["name"] > 0


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
    assert (e["begin_ns"], e["end_ns"]) == (pytest.approx(w["begin_ns"][3], abs=0.51), pytest.approx(w["end_ns"][3], abs=0.51))
    assert e["track"] == tensor["id"]
    for other in e["depends_on"]:
        assert p.event(other)["begin_ns"] <= e["begin_ns"]
