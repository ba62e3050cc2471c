"""`trine migrate`: from a CUDA project to a report; killed at any piece it goes on there; bad files are named."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from trine.decide.migrate import project, state
from trine.command import Stop

ROOT = Path(__file__).resolve().parents[2]
TRINE = str(ROOT / "build/trine")
SMALL = """
[project]
model = "infer:build"
inputs = "2x3x16x16"
[traffic]
items_per_day = 50_000_000
p99_ms = 50
[try]
instances = ["inf2.xlarge", "trn1.2xlarge"]
batches = [2]
precisions = ["bf16"]
"""


@pytest.fixture
def moved(tmp_path):
    """The example's inference project in a folder of its own."""
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(ROOT / "examples/migrate/infer.py", folder)
    (folder / "move.toml").write_text(SMALL)
    return folder


def migrate(folder, *more):
    return subprocess.run([TRINE, "migrate", "move.toml", *more], cwd=folder, capture_output=True, text=True, timeout=600)


def test_from_a_project_to_a_report(moved):
    before = (moved / "infer.py").read_text()
    done = migrate(moved, "--json")
    assert done.returncode == 0, done.stderr
    out = json.loads(done.stdout)
    assert (moved / "infer.py").read_text() == before, "the project itself is never written"
    ported = (moved / "move.migration/ported/infer.py").read_text()
    assert "torch.cuda" not in ported and "neuron" in ported
    assert out["validate"]["holds"] and out["port"]["ops_on_cpu"] == []
    best = out["evaluate"]["recommended"]
    assert best["instance"] in ("inf2.xlarge", "trn1.2xlarge")
    cheapest = min(out["evaluate"]["tco"]["rows"], key=lambda r: r["total_usd"]["likely"])
    page = (moved / "move.migration/report.html").read_text()
    assert best["instance"] in page and ("Move:" in page) == (cheapest["basis_kind"] == "modelled")
    assert "http://" not in page.replace("http://www.w3.org", "")
    # What follows from the rows by hand: items a second, and dollars for a million of them.
    assert best["items_per_s"][1] == pytest.approx(best["cores"] * best["batch"] / (best["call_ms"] * 1e-3))
    price = out["evaluate"]["prices"][best["instance"]]["usd_per_hour"]
    assert best["usd_per_million"] == pytest.approx(price / 3600 / best["items_per_s"][1] * 1e6)
    again = migrate(moved)
    assert again.returncode == 0 and again.stderr.count("as before") == 6, again.stderr
    held = json.loads((moved / "move.migration/state.json").read_text())["pieces"]
    (moved / "move.toml").write_text(SMALL.replace("p99_ms = 50", "p99_ms = 40"))
    other = migrate(moved)
    assert other.returncode == 0 and "port       as before" in other.stderr and "pick       as before" not in other.stderr
    kept = json.loads((moved / "move.migration/state.json").read_text())["pieces"]
    assert all(kept[name] == held[name] for name in held if name.startswith("cell")), "timed cells are not timed again"


@pytest.mark.slow
def test_killed_at_any_piece_it_goes_on(moved):
    whole = moved.parent / "whole"
    shutil.copytree(moved, whole)
    assert migrate(whole).returncode == 0
    wanted = json.loads((whole / "move.migration/report.json").read_text())
    pieces = len(json.loads((whole / "move.migration/state.json").read_text())["pieces"])
    path, seen = moved / "move.migration/state.json", 0
    for _ in range(2 * pieces):
        run = subprocess.Popen([TRINE, "migrate", "move.toml"], cwd=moved, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        while run.poll() is None:
            count = len(json.loads(path.read_text())["pieces"]) if path.exists() else 0
            if count > seen:
                seen = count
                break
            time.sleep(0.02)
        if run.poll() is not None:
            break
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    assert migrate(moved).returncode == 0
    found = json.loads((moved / "move.migration/report.json").read_text())
    assert found["evaluate"]["recommended"] == wanted["evaluate"]["recommended"]


BAD = {
    "no TOML": "[project",
    "[traffik]": "[traffik]\nx = 1",
    "no model in [project]": '[project]\ninputs = "2x3"\n[traffic]\nitems_per_day = 1',
    "colour in [project]": '[project]\ncolour = "red"',
    "items_per_day = 'many'": '[project]\nmodel = "a:b"\ninputs = "2x3"\n[traffic]\nitems_per_day = "many"',
    "precision 'f4'": '[project]\nmodel = "a:b"\ninputs = "2x3"\n[traffic]\nitems_per_day = 1\n[try]\nprecisions = ["f4"]',
    "a batch of 0": '[project]\nmodel = "a:b"\ninputs = "0x3"\n[traffic]\nitems_per_day = 1',
    "inputs = 'wide'": '[project]\nmodel = "a:b"\ninputs = "wide"\n[traffic]\nitems_per_day = 1',
    "path = 'nowhere'": '[project]\npath = "nowhere"\nmodel = "a:b"\ninputs = "2x3"\n[traffic]\nitems_per_day = 1',
}


@pytest.mark.parametrize("found", BAD)
def test_a_bad_file_is_named(tmp_path, found):
    file = tmp_path / "bad.toml"
    file.write_text(BAD[found])
    with pytest.raises(Stop) as stop:
        project.read(file)
    assert f"found {found}" in str(stop.value) and "expected" in str(stop.value)


def test_batches_are_put_into_inputs(tmp_path):
    (tmp_path / "a.toml").write_text('[project]\nmodel = "a:b"\ninputs = "8x128:int64,mask=8x128:bool,table=3x8"\n[traffic]\nitems_per_day = 1')
    read = project.read(tmp_path / "a.toml")
    assert read.inputs_of(2) == "2x128:int64,mask=2x128:bool,table=3x8"
    assert read.trial["batches"] == [2, 8, 32]


def test_a_damaged_state_is_done_again(tmp_path):
    (tmp_path / "state.json").write_text("{")
    held = state.State(tmp_path)
    assert "cannot be read" in held.trouble
    held.put("pick", "k", {"a": 1}, 0.1)
    assert state.State(tmp_path).get("pick", "k") == {"a": 1} and state.State(tmp_path).get("pick", "other") is None
