"""What `trine profile view` writes, read by the tools that others have: row counts, and sums that agree with the profile."""

import json
import os
import sqlite3
import subprocess

import numpy as np
import pytest


@pytest.fixture(scope="module")
def view(trained, request, tmp_path_factory):
    """Runs the command over the captured profile."""
    folder = tmp_path_factory.mktemp("views")

    def run(form, name=None):
        out = [] if name is None else ["--output-file", folder / name]
        done = subprocess.run([request.config.trine, "profile", "view", trained.path, "--output-format", form, *out], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout if name is None else folder / name

    return run


def events_in_all(p):
    return sum(r["events"] * r["runs"] for r in p.info["programs"])


def test_text(view):
    text = view("summary-text")
    assert text.startswith("train.py on trn1.2xlarge, one core — ") and "steps of" in text.splitlines()[0]
    assert all(f"\n  {word} " in text for word in ("step", "rates", "longest", "memory", "first"))


def test_summary_json_has_neurons_names(view, trained):
    s = json.loads(view("summary-json"))
    node = s["nodes"]["rank_0"]
    for field in ("total_time", "tensor_engine_active_time_percent", "mfu_estimated_percent", "mbu_estimated_percent", "dma_active_time", "spill_save_bytes",
                  "vector_engine_instruction_count", "matmul_instruction_count", "hbm_read_bytes", "cc_op_count", "neuroncore_cycle_count"):  # fmt: skip
        assert field in node
    assert s["version"] == 1 and node["total_time"] == pytest.approx(trained.open().info["time_ns"] / 1e9, rel=1e-12)


def test_json_and_database_have_the_same_rows(view, trained):
    found = json.loads(view("json"))
    base = sqlite3.connect(view("db", "p.db"))
    for table in ("Instruction", "DmaPacket", "Flow", "SbufUsage", "HbmUsage", "PsumUsage", "SystemProfileEvents", "SemaphoreUpdate", "OpcodeSummary"):
        (count,) = base.execute(f'select count(*) from "{table}"').fetchone()
        assert count == len(found[table[0].lower() + table[1:]]) > 0, table
    p = trained.open()
    (work,) = base.execute("select count(*) from Instruction").fetchone()
    (moved,) = base.execute("select count(*) from DmaPacket").fetchone()
    assert work + moved == sum(r["events"] for r in p.info["programs"])
    assert len(found["systemProfileEvents"]) == len(p.runs) + len(p.transfers)
    assert {r["transfer_bytes"] for r in found["systemProfileEvents"] if r["name"] == "nrt_tensor_read"} == {4}
    assert sum(r["host_gap_ns"] for r in found["systemProfileEvents"]) > 0
    (changes,) = base.execute('select count(*) from SemaphoreUpdate s join Instruction i on s.instruction_id = i.id').fetchone()
    (moves,) = base.execute('select count(*) from SemaphoreUpdate s join DmaPacket i on s.instruction_id = i.id').fetchone()
    assert changes + moves == len(found["semaphoreUpdate"])
    assert {r["bir_debug_info_source_location"].rsplit("/", 1)[-1].split(":")[0] for r in found["instruction"]} >= {"train.py"}


def test_parquet_by_duckdb_and_pandas(view, trained):
    duckdb, pandas = pytest.importorskip("duckdb"), pytest.importorskip("pandas")
    folder, p = view("parquet", "tables"), trained.open()
    rows = duckdb.sql(f"select engine, count(*), sum(duration_ns) from '{folder}/Instruction.parquet' group by 1").fetchall()
    busy = {engine: ns for engine, _, ns in rows}
    assert set(busy) <= {"tensor", "vector", "scalar", "gpsimd", "sync"}
    insns = np.concatenate([p.table(n, "insns") for r in p.info["programs"] for n in r["numbers"]])
    assert busy["tensor"] == pytest.approx(insns["busy"][insns["part"] == 0].sum() / 1000, rel=1e-4)  # times are cut to whole ps
    frame = pandas.read_parquet(folder / "DmaPacket.parquet")
    assert len(frame) == duckdb.sql(f"select count(*) from '{folder}/DmaPacket.parquet'").fetchall()[0][0] and (frame["transfer_bytes"] >= 0).all()
    fields = pandas.read_parquet(folder / "SchemaFields.parquet")
    assert set(fields["table_name"]) >= {"Summary", "Instruction", "CcOp", "Metadata"}


def test_perfetto_by_its_own_messages(view, trained):
    """Every slice begins and ends on a track that is declared, inside its neighbours; each arrow has both ends."""
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    trace = protos.Trace.FromString(view("perfetto", "p.pftrace").read_bytes())
    p = trained.open()
    tracks, begun, ended, out, into = set(), 0, 0, set(), set()
    last, semaphores, values, moved = {}, set(), 0, []
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            tracks.add(packet.track_descriptor.uuid)
            if packet.track_descriptor.name.startswith("semaphore "):
                semaphores.add(packet.track_descriptor.uuid)
        e = packet.track_event
        if packet.HasField("track_event") and e.type in (1, 2):
            assert e.track_uuid in tracks and packet.timestamp >= last.get(e.track_uuid, 0)
            last[e.track_uuid] = packet.timestamp
            begun, ended = begun + (e.type == 1), ended + (e.type == 2)
            out.update(e.flow_ids)
            into.update(e.terminating_flow_ids)
        if packet.HasField("track_event") and e.type == 3:
            assert e.track_uuid in tracks
            moved += [a.int_value for a in e.debug_annotations if a.name == "bytes"]
        values += e.track_uuid in semaphores
    assert begun == ended == events_in_all(p) + len(p.runs)
    assert values == sum(r["runs"] * len(p.table(n, "semaphores")) for r in p.info["programs"] for n in r["numbers"]) and semaphores
    assert sorted(moved) == sorted(p.transfers["bytes"].tolist())
    assert into == out and into


def test_xprofs_own_converter(view, trained):
    convert = pytest.importorskip("xprof.convert.raw_to_tool_data")
    data, _ = convert.xspace_to_tool_data([str(view("xspace", "p.xplane.pb"))], "trace_viewer", {})
    slices = [e for e in json.loads(data)["traceEvents"] if e.get("ph") == "X"]
    p = trained.open()
    assert len(slices) == events_in_all(p) + len(p.runs) + p.info["steps"]


def test_kineto(view, trained):
    found = json.loads(view("kineto", "p.json").read_text())
    kinds = [e["cat"] for e in found["traceEvents"]]
    assert kinds.count("kernel") + kinds.count("gpu_memcpy") == events_in_all(trained.open())
    assert found["distributedInfo"] == {"backend": "neuron", "rank": 0, "world_size": 1}
    assert sum(e["name"].startswith("ProfilerStep#") for e in found["traceEvents"]) == trained.open().info["steps"]


HTA = """
import json, sys
from hta.trace_analysis import TraceAnalysis
path = sys.argv[1]
found = TraceAnalysis(trace_files={0: path}, trace_dir=".")
rows = [found.get_temporal_breakdown(visualize=False), found.get_gpu_kernel_breakdown(visualize=False)[1]]
print(json.dumps([r.to_dict("records") for r in rows], default=str))
"""


@pytest.mark.slow
def test_hta_reads_it(view, trained):
    """HolisticTraceAnalysis in an environment of its own, for it wants pandas before 3: `make test-profile` has one."""
    python = os.environ.get("TRINE_TEST_HTA")
    if not python:
        pytest.skip("no HolisticTraceAnalysis: make test-profile installs it")
    path, p = view("kineto", "hta.json"), trained.open()
    env = {"PATH": os.environ["PATH"], "HOME": str(path.parent), "HTA_DISABLE_NS_ROUNDING": "1"}  # instructions are shorter than its microsecond
    done = subprocess.run([python, "-c", HTA, path], capture_output=True, text=True, cwd=path.parent, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    [row], kernels = json.loads(done.stdout.splitlines()[-1])
    first, last = (e for e in (p.runs["begin"].min(), p.runs["end"].max()))
    assert 0 < row["kernel_time(us)"] <= (last - first) / 1e6 and 0 < row["compute_time(us)"] < row["kernel_time(us)"]
    assert row["idle_time(us)"] + row["compute_time(us)"] + row["non_compute_time(us)"] == pytest.approx(row["kernel_time(us)"], rel=1e-6)
    assert kernels and all(k["sum (us)"] > 0 for k in kernels)


def test_a_damaged_file_is_refused(trained, trine, tmp_path):
    whole = trained.path.read_bytes()
    for name, data in {"cut": whole[: len(whole) // 2], "other": b"\x7fELF" + whole[4:], "newer": whole[:8] + b"\x63\0\0\0" + whole[12:], "empty": b""}.items():
        (tmp_path / f"{name}.ntff").write_bytes(data)
        done = subprocess.run([trine, "profile", "view", tmp_path / f"{name}.ntff", "--output-format", "summary-text"], capture_output=True, text=True, timeout=120)
        assert done.returncode == 3 and "expected" in done.stderr or "not a whole profile" in done.stderr, name


def test_compare_says_what_changed(trained, capture, trine):
    text = (trained.path.parent / "train.py").read_text()
    other = capture(text.replace("64, 128", "64, 256").replace("128, 64", "256, 64"))
    found = json.loads(subprocess.run([trine, "profile", "compare", trained.path, other.path, "--json"], capture_output=True, text=True, check=True).stdout)
    assert found["change_ns"] > 0 and found["programs"][0]["change_ns"] != 0
    text = subprocess.run([trine, "profile", "compare", trained.path, other.path], capture_output=True, text=True, check=True).stdout
    assert "programs that changed" in text and "→" in text
