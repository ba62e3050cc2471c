"""Traces: what any reader of the format relies on, and that they say the same as the report."""

import gzip
import json
import subprocess
from collections import defaultdict

import pytest

PROGRAMS = "src/run/accuracy"

# Two transfers on one queue that overlap, a wait on each, a table switch, a meeting of two kinds of work.
SMALL = """program small
tensor a hbm f32[128,2048] input
tensor out hbm f32[128,2048] output
tensor t sbuf f32[128,2048] at 0:0
tensor u sbuf f32[128,2048] at 0:8192
stream sync
  loop 3
    dma_copy dst=t[0:16, 0, 2048@1] src=a[0, 16@2048 2048@1] queue=1 then s0+=16
    dma_copy dst=t[16:112, 0, 2048@1] src=a[32768, 112@2048 2048@1] queue=1 then s0+=16
  end_loop
  dma_copy dst=out src=u queue=2 wait s1>=6 then s2+=16
stream scalar
  loop 3
    activation dst=u data=t op=exp wait s0>=32+32*i0 then s1+=1 at kernel.py:7
    activation dst=u data=u op=sin then s1+=1 at kernel.py:8
  end_loop
"""


@pytest.fixture(scope="module")
def traced(tmp_path_factory, request):
    trine = request.config.trine

    def make(program, *options, name="out.json.gz", instance="trn2.3xlarge"):
        folder = tmp_path_factory.mktemp("trace")
        (folder / "small.tasm").write_text(SMALL)
        path = request.config.rootpath / PROGRAMS / program if program != "small.tasm" else folder / program
        command = [trine, "run", path, "--instance", instance, "--json", "--trace", folder / name, *options]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        data = (folder / name).read_bytes()
        text = gzip.decompress(data) if name.endswith(".gz") else data
        return done, json.loads(text), json.loads(done.stdout)["time"]

    return make  # what it printed, the trace, the report


def tracks(trace):
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    slices = defaultdict(list)
    for e in trace["traceEvents"]:
        if e["ph"] == "X":
            slices[names[e["pid"], e["tid"]]].append((round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000), e))
    return {name: sorted(rows, key=lambda r: r[:2]) for name, rows in slices.items()}


def check_format(trace):
    for name, rows in tracks(trace).items():
        for begin, end, e in rows:
            assert end >= begin >= 0, (name, e)
        for (_, end, a), (begin, _, b) in zip(rows, rows[1:]):
            assert begin >= end, (name, a, b)
    spans = defaultdict(list)
    for e in trace["traceEvents"]:
        if e["ph"] == "X":
            spans[e["pid"], e["tid"]].append(e["ts"])
    ends = defaultdict(list)
    for e in trace["traceEvents"]:
        if e["ph"] in "sf":
            ends[e["id"]].append(e)
            assert e["ts"] in set(spans[e["pid"], e["tid"]]), e  # an end stands on a slice
    for pair in ends.values():
        assert [e["ph"] for e in pair] == ["s", "f"] and pair[0]["ts"] <= pair[1]["ts"]
    return len(ends)


def check_busy(trace, report):
    """Slices add up to the report's busy time, but for half a ns at each end."""
    for name, rows in tracks(trace).items():
        if name not in report["engines"]:
            continue
        work = [end - begin for begin, end, e in rows if e["cat"] != "control"]
        assert abs(sum(work) - report["engines"][name]["busy_ns"]) <= len(work) + 1, name


def test_small(traced):
    done, trace, report = traced("small.tasm")
    assert check_format(trace) == 7 + 2  # each transfer from its issue, two waits that took time
    check_busy(trace, report)
    rows = tracks(trace)
    assert set(rows) == {"launch", "sync", "scalar", "queue 1", "queue 1 (2)", "queue 2"}
    assert report["table_loads"] == 6 == sum(e["name"] == "ACT_TABLE_LOAD" for _, _, e in rows["scalar"])
    last = rows["scalar"][-1][2]["args"]
    assert last["at"] == "kernel.py:8" and last["iteration"] == "i0=2"
    assert last["instruction"].startswith("activation dst=u data=u op=sin") and "kernel" not in last["instruction"]
    first = next(e for _, _, e in rows["scalar"] if e["cat"] == "work")
    assert first["args"]["waited_for"] == "dma"
    assert [e for e in rows["sync"][-1][2]["args"].items() if e[0] == "waited_for"] == [("waited_for", "scalar")]
    assert rows["launch"][-1][1] == round(report["time_ns"])
    moved = sum(e["args"].get("hbm_read_bytes", 0) for q in ("queue 1", "queue 1 (2)") for _, _, e in rows[q])
    assert moved == report["hbm_read_bytes"]


@pytest.mark.parametrize("program", ["matmul_blocked_k", "dma_4x4096", "scalar_chain"])
def test_corpus(traced, program):
    done, trace, report = traced(program + ".tasm")
    check_format(trace)
    check_busy(trace, report)
    recorded = sum(e["ph"] == "X" for e in trace["traceEvents"]) - 2
    assert f"({recorded:,} slices;" in done.stderr


def test_counters_hold_the_bytes(traced):
    _, trace, report = traced("matmul_blocked_k.tasm")
    rows = [e for e in trace["traceEvents"] if e["ph"] == "C"]
    read = sum((b["ts"] - a["ts"]) * 1000 * a["args"]["read"] for a, b in zip(rows, rows[1:]))
    assert read == pytest.approx(report["hbm_read_bytes"], rel=1e-3)


def test_window(traced):
    done, trace, _ = traced("matmul_blocked_k.tasm", "--window", "15000:20000")
    check_format(trace)
    starts = [e["ts"] for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] != "launch"]
    assert starts and min(starts) >= 15 and max(starts) <= 20
    assert "it shows 15.0 µs to 20.0 µs of 28.5 ms" in done.stderr


def test_plain_is_the_same(traced):
    assert traced("dma_4x4096.tasm", name="out.json")[1] == traced("dma_4x4096.tasm")[1]


def test_unknown_ending(tmp_path, trine):
    (tmp_path / "small.tasm").write_text(SMALL)
    done = subprocess.run([trine, "run", tmp_path / "small.tasm", "--trace", "out.pftrace"], capture_output=True, text=True)
    assert done.returncode == 3 and "expected a name that ends in .json or .json.gz" in done.stderr


def test_two_cores(tmp_path, trine):
    program = tmp_path / "two.tasm"
    program.write_text(
        "program two\ncores 2\ntensor a sbuf f32[128,64] at 0:0\ntensor b sbuf f32[128,64] at 1.0:0\n"
        "stream vector\n  memset dst=a value=1\nstream 1.vector\n  memset dst=b value=1\n"
    )
    subprocess.run([trine, "run", program, "--instance", "trn2.3xlarge", "--trace", tmp_path / "t.json"], check=True)
    trace = json.loads((tmp_path / "t.json").read_text())
    assert [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"] == ["trn2 core 0", "trn2 core 1"]
    assert sorted(e["pid"] for e in trace["traceEvents"] if e["name"] == "MEMSET") == [1, 2]
